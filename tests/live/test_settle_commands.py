"""The commands that settle, renew and release entries, on every kind of server (native and not)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from tests.live.conftest import Everywhere
from tests.support.queue_harness import read_ready


def test_settling_reports_for_each_entry_whether_it_was_pending(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        done, deleted, running = b.deliver(b"done", b"deleted meanwhile", b"running")
        [unread] = b.add(b"unread")
        b.command("XDEL", b.keys.stream, deleted)
        settle = b.commands.ack_and_delete
        return [
            b.run_calls(settle(b.keys, GROUP, [done, done, deleted, unread, b"1-1"])),
            b.run_calls(settle(b.keys, GROUP, [done])),
            b.run_calls(settle(b.keys, "no such group", [running])),
        ]

    outcome = on_every_server(story)
    assert outcome.result == [[1, -1, 1, -1, -1], [-1], [-1]]
    assert outcome.left == {
        "stream": {
            "entries": [["d", "running"], ["d", "unread"]],
            "groups": {GROUP: {"consumers": ["ada"], "pending": [[1, "ada", 1]]}},
        }
    }


def test_settling_where_there_is_no_stream_is_no_error(on_every_server: Everywhere) -> None:
    assert on_every_server(lambda b: b.run_calls(b.commands.ack_and_delete(b.keys, GROUP, [b"1-1"]))).result == [-1]


def test_a_result_is_stored_only_by_the_one_who_settles(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        settle = b.commands.settle_owned
        first = b.run_calls(settle(b.keys, GROUP, "ada", entry_id, "job", data=b"\xc3", ttl_s=60))
        return [first, b.run_calls(settle(b.keys, GROUP, "ada", entry_id, "job", data=b"\xc2", ttl_s=60))]

    outcome = on_every_server(story)
    assert outcome.result == [1, -1]
    assert outcome.left["result:job"] == {"value": "\\xc3", "expires_in_s": 60}
    assert outcome.left["stream"] == {"entries": [], "groups": {GROUP: {"consumers": ["ada"], "pending": []}}}


def test_who_lost_an_entry_cannot_settle_it_nor_leave_a_result(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        b.command("XCLAIM", b.keys.stream, GROUP, "bob", 0, entry_id)
        settle = b.commands.settle_owned
        stale = b.run_calls(settle(b.keys, GROUP, "ada", entry_id, "job", data=b"\xc3", ttl_s=60))
        return [stale, b.run_calls(b.commands.stored_results(b.keys, ["job"])), b.pending(entry_id)[1]]

    assert on_every_server(story).result == [-1, [None], "bob"]


def test_a_job_that_returned_nothing_leaves_no_result(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        done = b.run_calls(b.commands.settle_owned(b.keys, GROUP, "ada", entry_id, "job"))
        return [
            done,
            b.run_calls(b.commands.stored_results(b.keys, ["job"])),
            b.command("XLEN", b.keys.stream),
        ]

    assert on_every_server(story).result == [1, [None], 0]


def test_results_are_read_in_the_order_asked(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("SET", b.keys.result("two"), b"2")
        b.command("SET", b.keys.result("one"), b"1")
        return b.run_calls(b.commands.stored_results(b.keys, ["one", "none", "two"]))

    assert on_every_server(story).result == ["1", None, "2"]


def test_renewing_keeps_what_is_ours_and_steals_nothing_back(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        mine, stolen, settled, deleted = b.deliver(b"mine", b"stolen", b"settled", b"deleted")
        for entry_id in (mine, stolen):
            b.make_idle(entry_id, 50_000)
        b.command("XCLAIM", b.keys.stream, GROUP, "bob", 0, stolen)
        b.make_idle(stolen, 50_000)
        b.run_calls(b.commands.ack_and_delete(b.keys, GROUP, [settled]))
        b.command("XDEL", b.keys.stream, deleted)
        lost = b.run_calls(b.commands.renew_leases(b.keys, GROUP, "ada", [mine, stolen, settled, deleted]))
        assert lost == [stolen, settled, deleted]
        return [b.pending(mine)[2] < 50_000, b.pending(stolen)[2] >= 50_000]

    outcome = on_every_server(story)
    assert outcome.result == [True, True]
    assert outcome.left["stream"]["groups"][GROUP]["pending"] == [[1, "ada", 1], [2, "bob", 2]]


def test_what_is_handed_back_is_taken_at_once_as_if_never_delivered(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        unstarted, tried, stolen = b.deliver(b"unstarted", b"tried before", b"stolen")
        b.command("XCLAIM", b.keys.stream, GROUP, "ada", 0, tried)
        b.command("XCLAIM", b.keys.stream, GROUP, "bob", 0, stolen)
        deliveries = {unstarted: 0, tried: 1, stolen: 0}
        handed_back = b.run_calls(b.commands.release(b.keys, GROUP, "ada", deliveries))
        assert handed_back == [unstarted, tried]
        assert b.run_calls(b.commands.release(b.keys, GROUP, "ada", deliveries)) == []
        return [b.pending(tried)[1], sorted(read_ready(b, "cyd"))]

    outcome = on_every_server(story)
    assert outcome.result == [
        "released",
        [["tried before", True, 1], ["unstarted", True, 0]],
    ]


def test_recounting_sets_how_many_deliveries_count_and_keeps_the_entries(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        ours, stolen = b.deliver(b"kept", b"stolen")
        for _ in range(2):
            b.command("XCLAIM", b.keys.stream, GROUP, "ada", 0, ours)
        b.command("XCLAIM", b.keys.stream, GROUP, "bob", 0, stolen)
        for _ in range(2):
            assert b.run_calls(b.commands.set_delivery_counts(b.keys, GROUP, "ada", {ours: 1, stolen: 7})) == [ours]
        _, owner, idle_ms, deliveries = b.pending(ours)
        assert idle_ms < 10_000
        return [owner, deliveries, b.pending(stolen)[1], b.pending(stolen)[3]]

    assert on_every_server(story).result == ["ada", 1, "bob", 2]


def test_only_consumers_with_nothing_pending_are_dropped(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.deliver(b"x", to="busy")
        for name in ("idle-1", "idle-2"):
            b.command("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, name)
        return b.run_calls(b.commands.drop_consumers(b.keys, GROUP, ["idle-1", "busy", "idle-2", "unknown"]))

    outcome = on_every_server(story)
    assert outcome.result == ["busy"]
    assert outcome.left["stream"]["groups"][GROUP]["consumers"] == ["busy"]
