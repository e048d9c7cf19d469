"""Every primitive, once on every kind of server and once more with stand-ins for the native words.

A story must end the same everywhere: the answers and every key left behind. What that end should be is said here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui.errors import ArgumentError, NoGroup, ServerError, WrongType
from chasqui.server.commands import (
    MAX_FIELDS,
    ConsumerInfo,
    DelayFromNow,
    FireResult,
    GroupInfo,
    IdRange,
    LockState,
    PendingEntry,
    PlannedFire,
    PromoteResult,
    RawEntry,
    ReplayItem,
    SearchBudget,
    SearchTerm,
    members_with_scores,
    streams_with_entries,
)
from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from chasqui.server.commands import DueTime
    from chasqui.server.flow import Arg
    from tests.live.conftest import Everywhere

ENVELOPE = b"\x94\xa1x\xc4\x01\x01\xcf\x00\x00\x01\xa1\xe2\x3c\x61\xd6\x00"
SHOWN = ENVELOPE.decode(errors="backslashreplace")


def member(name: bytes, envelope: bytes = ENVELOPE) -> bytes:
    return len(name).to_bytes(4, "little") + name + envelope


def shown(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


# Adding


def test_adding_an_id_again_answers_the_first_entry(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        add = b.commands.add_entry
        first = b.run_calls(add(b.keys, "p-1", "job-1", ["d", b"one", "n", "mail"], cap=1000))
        assert b.run_calls(add(b.keys, "p-1", "job-1", ["d", b"other bytes"], cap=1000)) == first
        another_producer = b.run_calls(add(b.keys, "p-2", "job-1", ["d", b"two"]))
        another_job = b.run_calls(add(b.keys, "p-1", "job-2", ["d", b"three"]))
        assert first < another_producer < another_job
        return [first, another_producer, another_job]

    outcome = on_every_server(story)
    assert outcome.told == ["id", "id", "id"]
    assert outcome.left == {
        "stream": {"entries": [["d", "one", "n", "mail"], ["d", "two"], ["d", "three"]]},
    }


def test_an_id_stays_known_after_its_job_is_done_but_not_after_its_stream_is_gone(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        add = b.commands.add_entry(b.keys, "p", "job", ["d", b"x"])
        first = b.run_calls(add)
        b.command("XDEL", b.keys.stream, first)
        again = b.run_calls(add)
        b.command("DEL", b.keys.stream)
        return [first == again, b.run_calls(add) is not None]

    outcome = on_every_server(story)
    assert outcome.told == [True, True]
    assert outcome.left == {"stream": {"entries": [["d", "x"]]}}


def test_only_the_stand_in_marks_an_added_id_and_for_as_long_as_a_native_server_knows_it(
    harnesses: list[QueueHarness],
) -> None:
    for b in harnesses:
        b.run_calls(b.commands.add_entry(b.keys, "p", "job", ["d", b"x"]))
        if b.commands.features.idmp:
            assert b.marks() == []
            continue
        [mark] = b.marks()
        assert mark.decode() == b.keys.added_marker("p", "job")
        assert 95_000 < b.command("PTTL", mark) <= 100_000


def test_adding_anyway_asks_nothing(on_every_server: Everywhere) -> None:
    outcome = on_every_server(
        lambda b: [b.run_calls(b.commands.add_unchecked(b.keys, ["d", b"x"], cap=9)) for _ in range(2)]
    )
    assert outcome.told == ["id", "id"]
    assert outcome.left == {"stream": {"entries": [["d", "x"], ["d", "x"]]}}


def test_a_cap_lets_the_server_trim_and_no_cap_does_not(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for number in range(300):
            b.run_calls(b.commands.add_entry(b.keys, "p", f"capped-{number}", ["d", b"x"], cap=100))
        capped = b.run_calls(b.commands.stream_length(b.keys.stream))
        b.command("DEL", b.keys.stream)
        for number in range(300):
            b.run_calls(b.commands.add_entry(b.keys, "p", f"free-{number}", ["d", b"x"]))
        free = b.run_calls(b.commands.stream_length(b.keys.stream))
        b.command("DEL", b.keys.stream)
        return [100 <= capped < 300, free]

    assert on_every_server(story).told == [True, 300]


def test_a_unique_add_tells_created_from_duplicate_and_shares_its_ids_with_delayed_jobs(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        now, unique = b.now_ms(), b.commands.add_unique
        return [
            b.run_calls(unique(b.keys, "job", ["d", b"x"], ttl_s=3600)),
            b.run_calls(unique(b.keys, "job", ["d", b"x"], ttl_s=3600)),
            b.run_calls(b.commands.schedule_once(b.keys, "job", member(b""), now + 9000, now_ms=now)),
        ]

    outcome = on_every_server(story)
    assert outcome.told == ["id", None, 0]
    assert outcome.left == {
        "dlid:job": {"value": "1", "expires_in_s": 3600},
        "stream": {"entries": [["d", "x"]]},
    }


def test_a_run_of_jobs_is_added_in_order_once_per_batch(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        add = b.commands.add_batch(b.keys, "p", "first", [b"one", b"mail", b"two", b"", b"three", b"mail"])
        first = b.run_calls(add)
        [(oldest, _), *_] = b.command("XRANGE", b.keys.stream, "-", "+")
        assert first == oldest == b.run_calls(add)
        [mark] = b.marks()
        assert mark.decode() == b.keys.added_marker("p", "first")
        assert 95_000 < b.command("PTTL", mark) <= 100_000
        return b.run_calls(b.commands.add_batch(b.keys, "p", "second", [b"four", b""]))

    outcome = on_every_server(story)
    assert outcome.told == "id"
    assert outcome.left == {
        "stream": {"entries": [["d", "one", "n", "mail"], ["d", "two"], ["d", "three", "n", "mail"], ["d", "four"]]}
    }


def test_a_run_whose_jobs_share_a_name_says_it_once(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.add_batch(b.keys, "p", "first", [b"one", b"two"], name=b"mail"))
        return b.run_calls(b.commands.add_batch(b.keys, "p", "second", [b"three", b"four"], name=b""))

    entries = [["d", "one", "n", "mail"], ["d", "two", "n", "mail"], ["d", "three"], ["d", "four"]]
    assert on_every_server(story).left == {"stream": {"entries": entries}}


# Groups and reading


def test_a_group_is_made_from_the_first_entry_and_only_once(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.add(b"waiting since before")
        made = [b.run(b.commands.ensure_group(b.keys, GROUP)) for _ in range(2)]
        return [made, read(b, "ada")]

    assert on_every_server(story).told == [[True, False], [["waiting since before", False, 0]]]


def test_a_group_cannot_be_made_on_something_else(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("SET", b.keys.stream, "no stream")
        with pytest.raises(WrongType):
            b.run(b.commands.ensure_group(b.keys, GROUP))
        return "refused"

    assert on_every_server(story).left == {"stream": "no stream"}


def read(b: QueueHarness, consumer: str, count: int = 10, idle_ms: int = 60_000) -> Any:
    """What a consumer is given; idle times are volatile, so only whether there was one is told."""
    reading = b.commands.read_ready(b.keys, GROUP, consumer, claim_idle_ms=idle_ms)
    rows = reading.rows(b.run_calls(reading.call(count)))
    return [[fields[1], idle >= idle_ms, starts] for _, fields, idle, starts in rows]


def test_reading_gives_abandoned_entries_with_their_history_and_then_new_ones(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        abandoned, _ = b.deliver(b"abandoned", b"kept")
        b.make_idle(abandoned, 70_000)
        b.add(b"new")
        first = read(b, "bob")
        b.make_idle(abandoned, 80_000)
        return [first, read(b, "cyd"), read(b, "cyd")]

    outcome = on_every_server(story)
    assert outcome.told == [
        [["abandoned", True, 1], ["new", False, 0]],
        [["abandoned", True, 1]],
        [],
    ]
    assert outcome.left["stream"]["groups"] == {
        GROUP: {
            "consumers": ["ada", "bob", "cyd"],
            "pending": [[1, "cyd", 1], [2, "ada", 1], [3, "bob", 1]],
        }
    }


def test_reading_never_gives_more_than_asked_for(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for entry_id in b.deliver(b"1", b"2", b"3"):
            b.make_idle(entry_id, 70_000)
        b.add(b"4", b"5")
        return [[row[0] for row in read(b, "bob", count=2)] for _ in range(4)]

    assert on_every_server(story).told == [["1", "2"], ["3", "4"], ["5"], []]


def test_reading_passes_over_deleted_entries_however_many_and_leaves_their_rows(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        ids = b.deliver(*(b"%d" % number for number in range(150)))
        b.command("XCLAIM", b.keys.stream, GROUP, "ada", 0, *ids, "IDLE", 70_000, "JUSTID")
        b.command("XDEL", b.keys.stream, *ids[:149])
        return [
            read(b, "bob", count=5),
            len(b.run_calls(b.commands.drop_dangling_pending(b.keys, GROUP, ids))),
        ]

    outcome = on_every_server(story)
    assert outcome.told == [[["149", True, 1]], 149]
    assert outcome.left["stream"]["groups"][GROUP]["pending"] == [[1, "bob", 1]]


def test_what_was_handed_back_unstarted_counts_from_its_next_reading_on(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [unstarted] = b.deliver(b"unstarted")
        b.run_calls(b.commands.release(b.keys, GROUP, "ada", {unstarted: 0}))
        first = read(b, "bob")
        b.make_idle(unstarted, 70_000)
        return [first, read(b, "cyd"), b.pending(unstarted)[3]]

    assert on_every_server(story).told == [[["unstarted", True, 0]], [["unstarted", True, 1]], 1]


def test_a_dry_reading_makes_the_consumer_known(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run(b.commands.ensure_group(b.keys, GROUP))
        return read(b, "ada")

    outcome = on_every_server(story)
    assert outcome.told == []
    assert outcome.left["stream"]["groups"] == {GROUP: {"consumers": ["ada"], "pending": []}}


def test_reading_without_a_group_says_so(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.add(b"x")
        with pytest.raises(NoGroup):
            read(b, "ada")
        return "refused"

    on_every_server(story)


# Settling


def test_settling_tells_for_each_entry_whether_it_was_pending(on_every_server: Everywhere) -> None:
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
    assert outcome.told == [[1, -1, 1, -1, -1], [-1], [-1]]
    assert outcome.left == {
        "stream": {
            "entries": [["d", "running"], ["d", "unread"]],
            "groups": {GROUP: {"consumers": ["ada"], "pending": [[1, "ada", 1]]}},
        }
    }


def test_settling_where_there_is_no_stream_is_no_error(on_every_server: Everywhere) -> None:
    assert on_every_server(lambda b: b.run_calls(b.commands.ack_and_delete(b.keys, GROUP, [b"1-1"]))).told == [-1]


def test_a_result_is_stored_only_by_the_one_who_settles(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        settle = b.commands.settle_owned
        first = b.run_calls(settle(b.keys, GROUP, "ada", entry_id, "job", data=b"\xc3", ttl_s=60))
        return [first, b.run_calls(settle(b.keys, GROUP, "ada", entry_id, "job", data=b"\xc2", ttl_s=60))]

    outcome = on_every_server(story)
    assert outcome.told == [1, -1]
    assert outcome.left["result:job"] == {"value": "\\xc3", "expires_in_s": 60}
    assert outcome.left["stream"] == {"entries": [], "groups": {GROUP: {"consumers": ["ada"], "pending": []}}}


def test_who_lost_an_entry_cannot_settle_it_nor_leave_a_result(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        b.command("XCLAIM", b.keys.stream, GROUP, "bob", 0, entry_id)
        settle = b.commands.settle_owned
        stale = b.run_calls(settle(b.keys, GROUP, "ada", entry_id, "job", data=b"\xc3", ttl_s=60))
        return [stale, b.run_calls(b.commands.stored_results(b.keys, ["job"])), b.pending(entry_id)[1]]

    assert on_every_server(story).told == [-1, [None], "bob"]


def test_a_job_that_returned_nothing_leaves_no_result(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        done = b.run_calls(b.commands.settle_owned(b.keys, GROUP, "ada", entry_id, "job"))
        return [
            done,
            b.run_calls(b.commands.stored_results(b.keys, ["job"])),
            b.command("XLEN", b.keys.stream),
        ]

    assert on_every_server(story).told == [1, [None], 0]


def test_results_are_read_in_the_order_asked(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.store_result(b.keys, "two", b"2", ttl_s=60))
        b.run_calls(b.commands.store_result(b.keys, "one", b"1", ttl_s=60))
        return b.run_calls(b.commands.stored_results(b.keys, ["one", "none", "two"]))

    assert on_every_server(story).told == ["1", None, "2"]


# Keeping and giving back


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
    assert outcome.told == [True, True]
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
        return [b.pending(tried)[1], sorted(read(b, "cyd"))]

    outcome = on_every_server(story)
    assert outcome.told == [
        "released",
        [["tried before", True, 1], ["unstarted", True, 0]],
    ]


def test_recounting_says_how_many_deliveries_count_and_keeps_the_entries(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        kept, stolen = b.deliver(b"kept", b"stolen")
        for _ in range(2):
            b.command("XCLAIM", b.keys.stream, GROUP, "ada", 0, kept)
        b.command("XCLAIM", b.keys.stream, GROUP, "bob", 0, stolen)
        for _ in range(2):
            assert b.run_calls(b.commands.set_delivery_counts(b.keys, GROUP, "ada", {kept: 1, stolen: 7})) == [kept]
        _, owner, idle_ms, deliveries = b.pending(kept)
        assert idle_ms < 10_000
        return [owner, deliveries, b.pending(stolen)[1], b.pending(stolen)[3]]

    assert on_every_server(story).told == ["ada", 1, "bob", 2]


def test_only_consumers_with_nothing_pending_are_dropped(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.deliver(b"x", to="busy")
        for name in ("idle-1", "idle-2"):
            b.command("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, name)
        return b.run_calls(b.commands.drop_consumers(b.keys, GROUP, ["idle-1", "busy", "idle-2", "unknown"]))

    outcome = on_every_server(story)
    assert outcome.told == ["busy"]
    assert outcome.left["stream"]["groups"][GROUP]["consumers"] == ["busy"]


# Delayed jobs


def test_a_job_is_scheduled_once_per_id_and_can_be_found_and_cancelled(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        schedule = b.commands.schedule_once(b.keys, "job", member(b"mail"), now + 60_999, now_ms=now)
        scheduled = [0 <= b.run_calls(schedule) - now < 5000, b.run_calls(schedule)]
        before = b.dump()
        found = b.run(b.commands.find_delayed(b.keys, "job"))
        assert found == (member(b"mail"), now + 60_999)
        cancelled = [b.run_calls(b.commands.cancel_delayed(b.keys, "job")) for _ in range(2)]
        return [scheduled, before, cancelled, b.run(b.commands.find_delayed(b.keys, "job"))]

    outcome = on_every_server(story)
    scheduled, before, cancelled, found = outcome.told
    assert (scheduled, cancelled, found) == ([True, 0], [1, 0], None)
    assert before == {
        "delayed": {shown(member(b"mail")): "now+60s"},
        "didx:job": {"value": shown(member(b"mail")), "expires_in_s": 3660},
        "dlid:job": {"value": "1", "expires_in_s": 3660},
    }
    assert outcome.left == {}


def test_delays_are_counted_by_the_server(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        jobs: list[tuple[DueTime, bytes]] = [(DelayFromNow(60_000), member(b"a")), (1_000, member(b"b"))]
        call = b.commands.schedule_batch(b.keys, "p", "first", jobs)
        told = b.run_calls(call)
        assert 0 <= b.now_ms() - told < 5000
        b.command("ZREM", b.keys.delayed, member(b"b"))
        assert b.run_calls(call) == told, "what left the set meanwhile is not scheduled again"
        once = b.commands.delay_once(b.keys, "job", member(b"c"), 60_999)
        return [0 <= b.run_calls(once) - told < 5000, b.run_calls(once)]

    outcome = on_every_server(story)
    assert outcome.told == [True, 0]
    assert outcome.left == {
        "delayed": {shown(member(b"a")): "now+60s", shown(member(b"c")): "now+60s"},
        "didx:job": {"value": shown(member(b"c")), "expires_in_s": 3660},
        "dlid:job": {"value": "1", "expires_in_s": 3660},
    }


def test_a_cancel_that_comes_too_late_keeps_the_marker(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        b.run_calls(b.commands.schedule_once(b.keys, "job", member(b""), now - 1, now_ms=now))
        promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=10)))
        late = b.run_calls(b.commands.cancel_delayed(b.keys, "job"))
        b.run_calls(b.commands.delete_indexes(b.keys, ["job"]))
        return [promoted.count, late]

    outcome = on_every_server(story)
    assert outcome.told == [1, 0]
    assert set(outcome.left) == {"stream", "dlid:job"}


def test_delayed_jobs_without_an_id_are_moved_and_removed_by_their_bytes(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        do, commands, now = b.run_calls, b.commands, b.now_ms()
        for name in (b"a", b"b", b"c"):
            do(commands.schedule(b.keys, member(name), now + 3_600_000))
        moved = do(commands.move_delayed(b.keys, member(b"b"), now - 20_000))
        missing = do(commands.move_delayed(b.keys, member(b"x"), now))
        removed = do(commands.remove_delayed(b.keys, [member(b"c"), member(b"x")]))
        counts = [do(commands.delayed_count(b.keys)), do(commands.delayed_due(b.keys, now))]
        page = [name for name, _ in members_with_scores(do(commands.delayed_page(b.keys, 1, 5)))]
        return [moved, missing, removed, counts, page]

    outcome = on_every_server(story)
    assert outcome.told == [1, 0, 1, [2, 1], [shown(member(b"a"))]]
    assert outcome.left == {"delayed": {shown(member(b"b")): "now-20s", shown(member(b"a")): "now+3600s"}}


def test_promoting_moves_what_is_due_in_order_and_tells_how_late_the_rest_is(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        for name, distance in ((b"late", -50_000), (b"", -40_000), (b"later", -30_000), (b"not due", 90_000)):
            b.run_calls(b.commands.schedule(b.keys, member(name), now + distance))
        runs = [PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=2, cap=1000))) for _ in range(3)]
        assert 30_000 <= runs[0].lag_ms < 60_000
        return [[run.count, run.depth, run.lag_ms > 0, run.quarantined, list(run.envelopes)] for run in runs]

    outcome = on_every_server(story)
    assert outcome.told == [[2, 2, True, 0, [SHOWN, SHOWN]], [1, 1, False, 0, [SHOWN]], [0, 1, False, 0, []]]
    assert outcome.left == {
        "stream": {
            "entries": [["d", SHOWN, "n", "late"], ["d", SHOWN], ["d", SHOWN, "n", "later"]],
        },
        "delayed": {shown(member(b"not due")): "now+90s"},
    }


LONG = "ж".encode() * 74
GARBAGE = [
    b"",
    b"abc",
    b"\xf4\x01\x00\x00jfcws",
    b"\x02\x00\x00\x00nm",
    b"\x04\x00\x00\x00mail\xc1",
    b"\xff\xff\xff\xff",
]


@pytest.mark.parametrize(
    ("stored", "name", "envelope"),
    [
        (b"\x04\x00\x00\x00mail" + ENVELOPE, "mail", ENVELOPE),
        (b"\x00\x01\x00\x00" + b"n" * 256 + ENVELOPE, "n" * 256, ENVELOPE),
        (b"\x2c\x01\x00\x00" + "ж".encode() * 150 + ENVELOPE, "ж" * 150, ENVELOPE),
        (b"\x04mail" + ENVELOPE, "mail", ENVELOPE),
        (b"\x00" + ENVELOPE, "", ENVELOPE),
        (b"\x94" + LONG + ENVELOPE, LONG.decode(), ENVELOPE),
        (ENVELOPE, "", ENVELOPE),
        (
            b"\x94\xa4long\xc5\x00\xc8" + b"\x81" * 200 + b"\x01\x00",
            "",
            b"\x94\xa4long\xc5\x00\xc8" + b"\x81" * 200 + b"\x01\x00",
        ),
        (b"\xdc\x00\x04" + ENVELOPE[1:], "", b"\xdc\x00\x04" + ENVELOPE[1:]),
        (b"\x00\x00\x00\x00\x94broken", "", b"\x94broken"),
    ],
    ids=[
        "u32le",
        "u32le-256",
        "u32le-beyond-the-cap",
        "u8",
        "u8-empty",
        "u8-148",
        "bare",
        "bare-150-deep",
        "bare-array16",
        "unreadable",
    ],
)
def test_promoting_reads_all_three_forms_of_a_member(
    on_every_server: Everywhere, stored: bytes, name: str, envelope: bytes
) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.schedule(b.keys, stored, 1))
        return PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=10))).count

    outcome = on_every_server(story)
    assert outcome.told == 1
    fields = ["d", shown(envelope), *(["n", name] if name else [])]
    assert outcome.left == {"stream": {"entries": [fields]}}


def test_promoting_quarantines_garbage_with_all_its_bytes_and_goes_on(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for score, garbage in enumerate(GARBAGE):
            b.run_calls(b.commands.schedule(b.keys, garbage, score))
        b.command("ZADD", b.keys.delayed, "-inf", "endless", "+inf", "never")
        b.run_calls(b.commands.schedule(b.keys, member(b"good"), 1000))
        promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=100)))
        letters = RawEntry.list_from_reply(b.run_calls(b.commands.oldest_entries(b.keys.dlq, 100)))
        kept = {(entry.fields[1], entry.fields[9]) for entry in letters}
        assert kept == {(b"endless", b"-inf"), *((data, b"%d" % score) for score, data in enumerate(GARBAGE))}
        assert {tuple(entry.fields[::2]) for entry in letters} == {
            (b"d", b"source_id", b"reason", b"detail", b"due_ms")
        }
        assert {entry.fields[5] for entry in letters} == {b"malformed"}
        return [promoted.count, promoted.depth, promoted.lag_ms, promoted.quarantined]

    outcome = on_every_server(story)
    assert outcome.told == [1, 1, 0, len(GARBAGE) + 1]
    assert outcome.left["stream"]["entries"] == [["d", SHOWN, "n", "good"]]


def test_garbage_that_cannot_be_quarantined_stays_and_blocks_nobody(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("SET", b.keys.dlq, "no stream")
        b.run_calls(b.commands.schedule(b.keys, b"abc", 1))
        b.run_calls(b.commands.schedule(b.keys, member(b"good"), 2))
        promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=100)))
        return [promoted.count, promoted.depth, promoted.lag_ms > 0, promoted.quarantined]

    outcome = on_every_server(story)
    assert outcome.told == [1, 1, True, 0]
    assert outcome.left["delayed"] == {"abc": 1.0}


def test_a_failed_job_is_parked_by_the_servers_clock_and_only_by_its_owner(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        park = b.commands.schedule_retry
        stranger = b.run_calls(park(b.keys, GROUP, "bob", entry_id, member(b"mail"), delay_ms=100_000))
        before = b.now_ms()
        due = b.run_calls(park(b.keys, GROUP, "ada", entry_id, member(b"mail"), delay_ms=100_000))
        assert before + 100_000 <= due <= b.now_ms() + 100_000
        assert due == int(b.command("ZSCORE", b.keys.delayed, member(b"mail")))
        return [stranger, b.run_calls(park(b.keys, GROUP, "ada", entry_id, member(b"mail"), delay_ms=1))]

    outcome = on_every_server(story)
    assert outcome.told == [None, None]
    assert outcome.left == {
        "stream": {"entries": [], "groups": {GROUP: {"consumers": ["ada"], "pending": []}}},
        "delayed": {shown(member(b"mail")): "now+100s"},
    }


# Dead letters


def test_a_job_is_buried_once_and_only_by_its_owner(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        fields: list[Arg] = [
            "d",
            b"x",
            "n",
            "mail",
            "source_id",
            entry_id,
            "reason",
            "unrecoverable",
            "detail",
            "no",
        ]
        bury = b.commands.move_to_dlq
        return [
            b.run_calls(bury(b.keys, GROUP, "bob", entry_id, fields, cap=100)),
            b.run_calls(bury(b.keys, GROUP, "ada", entry_id, fields, cap=100)),
            b.run_calls(bury(b.keys, GROUP, "ada", entry_id, fields)),
        ]

    outcome = on_every_server(story)
    assert outcome.told == [None, "id", None]
    letter = ["d", "x", "n", "mail", "source_id", "id", "reason", "unrecoverable", "detail", "no"]
    assert outcome.left == {
        "dlq": {"entries": [letter]},
        "stream": {"entries": [], "groups": {GROUP: {"consumers": ["ada"], "pending": []}}},
    }


def test_the_largest_dead_letter_fits_and_a_larger_one_is_refused_before_it_is_sent(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        fields: list[Arg] = ["f", b"v"] * MAX_FIELDS
        with pytest.raises(ArgumentError, match="at most 1000 fields, not 1001"):
            b.commands.move_to_dlq(b.keys, GROUP, "ada", entry_id, [*fields, "f", b"v"])
        return b.run_calls(b.commands.move_to_dlq(b.keys, GROUP, "ada", entry_id, fields)) is not None

    assert on_every_server(story).told is True


def test_replaying_tells_for_each_letter_and_stops_at_the_cap_without_trimming(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        b.add(b"unread")
        dead = [b.command("XADD", b.keys.dlq, "*", "d", data) for data in (b"1", b"2", b"3")]
        letters = [
            ReplayItem(dead[0], b"one", "mail"),
            ReplayItem(b"1-1", b"gone"),
            ReplayItem(dead[1], b"two"),
            ReplayItem(dead[2], b"3"),
        ]
        first = b.run_calls(b.commands.replay_dead(b.keys, letters, cap=3))
        return [first, b.run_calls(b.commands.replay_dead(b.keys, letters))]

    outcome = on_every_server(story)
    assert outcome.told == [["id", "gone", "id", "full"], ["gone", "gone", "gone", "id"]]
    assert outcome.left == {
        "dlq": {"entries": []},
        "stream": {
            "entries": [["d", "unread"], ["d", "one", "n", "mail"], ["d", "two"], ["d", "3"]],
        },
    }


def test_deleted_letters_are_gone(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        dead = [b.command("XADD", b.keys.dlq, "*", "d", data) for data in (b"1", b"2")]
        return b.run_calls(b.commands.delete_dead(b.keys, [dead[0], b"1-1"]))

    outcome = on_every_server(story)
    assert outcome.told == 1
    assert outcome.left == {"dlq": {"entries": [["d", "2"]]}}


# Repeatable jobs


def test_replacing_a_spec_keeps_its_counter_and_removing_it_forgets_everything(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        upsert, remove = b.commands.upsert_repeat, b.commands.remove_repeat
        created = b.run_calls(upsert(b.keys, "tick", b"spec 1", next_ms=1000))
        b.command("HSET", b.keys.repeat_spec("tick"), "fired", 7)
        replaced = b.run_calls(upsert(b.keys, "tick", b"spec 2", next_ms=2000))
        held = b.dump()
        return [
            created,
            replaced,
            held,
            b.run_calls(remove(b.keys, "tick")),
            b.run_calls(remove(b.keys, "tick")),
        ]

    outcome = on_every_server(story)
    created, replaced, held, *removed = outcome.told
    assert (created, replaced, removed) == (1, 0, [1, 0])
    assert held == {"repeat": {"tick": 2000.0}, "repeat:spec:tick": {"spec": "spec 2", "fired": "7"}}
    assert outcome.left == {}


def test_of_two_schedulers_only_one_fires(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        fire = b.commands.fire_repeat(b.keys, "tick", [PlannedFire(1000, b"job", "mail")], due_ms=1000, next_ms=2000)
        both = [FireResult.from_reply(b.run_calls(fire)), FireResult.from_reply(b.run_calls(fire))]
        return [[fired.count, fired.removed, fired.stale] for fired in both]

    outcome = on_every_server(story)
    assert outcome.told == [[1, False, False], [0, False, True]]
    assert outcome.left == {
        "repeat": {"tick": 2000.0},
        "repeat:spec:tick": {"spec": "spec", "fired": "1"},
        "stream": {"entries": [["d", "job", "n", "mail"]]},
    }


def test_a_fire_for_later_waits_among_the_delayed_jobs(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        later = b.now_ms() + 200_000
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        fires = [PlannedFire(later, ENVELOPE, "mail"), PlannedFire(1000, ENVELOPE)]
        b.run_calls(b.commands.fire_repeat(b.keys, "tick", fires, due_ms=1000, next_ms=later))
        return None

    outcome = on_every_server(story)
    assert outcome.left["delayed"] == {shown(member(b"mail")): "now+200s"}
    assert outcome.left["stream"] == {"entries": [["d", SHOWN]]}
    assert outcome.left["repeat:spec:tick"]["fired"] == "2"


@pytest.mark.parametrize(
    ("limit", "end_before_ms", "next_ms", "told"),
    [
        (2, None, 5000, [2, True, False]),
        (9, None, 5000, [3, False, False]),
        (None, 4999, 5000, [3, True, False]),
        (None, 5000, 5000, [3, False, False]),
        (None, None, None, [3, True, False]),
    ],
)
def test_a_spec_goes_at_its_limit_or_end_or_without_a_next_time(
    on_every_server: Everywhere,
    limit: int | None,
    end_before_ms: int | None,
    next_ms: int | None,
    told: list[Any],
) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        fires = [PlannedFire(number, b"job") for number in (1000, 2000, 3000)]
        call = b.commands.fire_repeat(
            b.keys, "tick", fires, due_ms=1000, next_ms=next_ms, limit=limit, end_before_ms=end_before_ms
        )
        fired = FireResult.from_reply(b.run_calls(call))
        return [fired.count, fired.removed, fired.stale]

    outcome = on_every_server(story)
    assert outcome.told == told
    assert ("repeat" in outcome.left, "repeat:spec:tick" in outcome.left) == (not told[1], not told[1])
    assert len(outcome.left["stream"]["entries"]) == told[0]


def test_a_counter_that_is_no_number_stops_the_fire_before_it_is_written(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        b.command("HSET", b.keys.repeat_spec("tick"), "fired", "many")
        with pytest.raises(ServerError, match="not a whole number"):
            b.run_calls(b.commands.fire_repeat(b.keys, "tick", [PlannedFire(1, b"job")], due_ms=1000, next_ms=2000))
        return "refused"

    assert set(on_every_server(story).left) == {"repeat", "repeat:spec:tick"}


def test_due_specs_are_read_from_any_place_on_and_the_next_one_is_told_apart(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        for number in range(1, 5):
            b.run_calls(b.commands.upsert_repeat(b.keys, f"s{number}", b"spec", next_ms=number * 1000))
        due = b.run(b.commands.due_specs(b.keys, 3000, 10, offset=1))
        following = members_with_scores(b.run_calls(b.commands.next_spec(b.keys, 3000)))
        return [
            [spec.key for spec in due],
            following,
            members_with_scores(b.run_calls(b.commands.next_spec(b.keys, 4000))),
        ]

    assert on_every_server(story).told == [["s2", "s3"], [["s4", 4000]], []]


def test_a_spec_under_a_key_of_another_type_spoils_no_other(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "good", b"spec", next_ms=2000))
        b.command("ZADD", b.keys.repeat, 1000, "odd")
        b.command("SET", b.keys.repeat_spec("odd"), "a string")
        odd, good = b.run(b.commands.specs_page(b.keys, 0, 10))
        assert "WRONGTYPE" in (odd.read_error or "")
        return [[odd.key, odd.next_ms, odd.data, odd.fired], [good.key, good.data, good.read_error]]

    assert on_every_server(story).told == [["odd", 1000, None, None], ["good", "spec", None]]


def test_specs_are_listed_by_next_fire_with_what_is_missing_or_odd(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "second", b"spec 2", next_ms=2000))
        b.run_calls(b.commands.upsert_repeat(b.keys, "first", b"spec 1", next_ms=1000))
        b.command("HSET", b.keys.repeat_spec("first"), "fired", 3)
        b.command("ZADD", b.keys.repeat, 3000.5, b"\xff no text", "inf", "never")
        every = b.run(b.commands.specs_page(b.keys, 0, 10))
        assert every[-1].next_ms > 10**15
        due = b.run(b.commands.due_specs(b.keys, 2000, 10))
        one = b.run(b.commands.specs_page(b.keys, 1, 1))
        listed = [[spec.key, spec.next_ms, spec.data, spec.fired] for spec in every[:-1]]
        return [
            listed,
            [spec.key for spec in due],
            [spec.key for spec in one],
            b.run_calls(b.commands.specs_count(b.keys)),
        ]

    assert on_every_server(story).told == [
        [
            ["first", 1000, "spec 1", "3"],
            ["second", 2000, "spec 2", None],
            ["\\xff no text", 3000, None, None],
        ],
        ["first", "second"],
        ["second"],
        4,
    ]


# Leases


def test_a_lease_is_taken_when_free_kept_when_ours_and_told_when_anothers(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        lock, take = b.keys.promoter_lock, b.commands.acquire_lock
        leases = [LockState.from_reply(b.run_calls(take(lock, holder, ttl_s=5))) for holder in ("ada", "ada", "bob")]
        assert all(lease.ttl_ms is not None and 3000 < lease.ttl_ms <= 5000 for lease in leases)
        dropped = [b.run_calls(b.commands.release_lock(lock, holder)) for holder in ("bob", "ada", "ada")]
        return [[[lease.mine, lease.holder] for lease in leases], dropped]

    outcome = on_every_server(story)
    assert outcome.told == [[[True, "ada"], [True, "ada"], [False, "ada"]], [0, 1, 0]]
    assert outcome.left == {}


def test_a_stuck_lock_is_recognised_and_freed_by_its_holders_name(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        lock = b.keys.scheduler_lock
        b.command("SET", lock, "stranger")
        lease = LockState.from_reply(b.run_calls(b.commands.acquire_lock(lock, "ada", ttl_s=5)))
        seen = [b.run_calls(b.commands.lock_holder(lock)), b.run_calls(b.commands.expires_in(lock))]
        freed = b.run_calls(b.commands.release_lock(lock, lease.holder))
        return [
            lease.mine,
            lease.ttl_ms,
            seen,
            freed,
            LockState.from_reply(b.run_calls(b.commands.acquire_lock(lock, "ada", ttl_s=5))).mine,
        ]

    outcome = on_every_server(story)
    assert outcome.told == [False, None, ["stranger", -1], 1, True]
    assert outcome.left == {"scheduler:lock": {"value": "ada", "expires_in_s": 5}}


# Events and looking


def test_streams_are_read_in_pages_from_either_end(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for text in (b"1", b"2", b"3"):
            b.run_calls(b.commands.emit_event(b.keys, ["e", text], cap=1000))
        key = b.keys.events

        def texts(call: Any) -> list[bytes]:
            return [entry.fields[1] for entry in RawEntry.list_from_reply(b.run_calls(call))]

        first = RawEntry.list_from_reply(b.run_calls(b.commands.oldest_entries(key, 1)))[0].entry_id
        last = RawEntry.list_from_reply(b.run_calls(b.commands.newest_entries(key, 1)))[0].entry_id
        return [
            texts(b.commands.oldest_entries(key, 2)),
            texts(b.commands.oldest_entries(key, 2, after=first)),
            texts(b.commands.newest_entries(key, 2)),
            texts(b.commands.newest_entries(key, 2, before=last.decode())),
            texts(b.commands.entries_between(key, last, last, 10)),
            b.run_calls(b.commands.stream_length(key)),
        ]

    assert on_every_server(story).told == [["1", "2"], ["2", "3"], ["3", "2"], ["2", "1"], ["3"], 3]


def test_groups_consumers_and_pending_entries_are_told_as_values(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        first, second = b.deliver(b"1", b"2")
        b.add(b"3")
        [group] = GroupInfo.list_from_reply(b.run_calls(b.commands.groups(b.keys)))
        [consumer] = ConsumerInfo.list_from_reply(b.run_calls(b.commands.consumers(b.keys, GROUP)))
        summary = b.run_calls(b.commands.pending_summary(b.keys, GROUP))
        rows = PendingEntry.list_from_reply(
            b.run_calls(b.commands.pending_page(b.keys, GROUP, 10, after=first, consumer="ada"))
        )
        assert consumer.idle_ms < 60_000
        return [
            [group.name, group.consumers, group.pending, group.last_id == second, group.lag],
            [consumer.name, consumer.pending],
            [summary[0], summary[1] == first, summary[2] == second],
            [[row.entry_id == second, row.consumer, row.deliveries] for row in rows],
        ]

    assert on_every_server(story).told == [
        [GROUP, 1, 2, True, 1],
        ["ada", 2],
        [2, True, True],
        [[True, "ada", 1]],
    ]


def test_looking_at_a_queue_that_is_not_there_is_an_answer_and_creates_nothing(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        asked = [
            b.commands.groups(b.keys),
            b.commands.consumers(b.keys, GROUP),
            b.commands.pending_summary(b.keys, GROUP),
        ]
        assert all(isinstance(b.run_calls(call), ServerError) for call in asked)
        return [
            b.run_calls(b.commands.stream_length(b.keys.stream)),
            b.run(b.commands.specs_page(b.keys, 0, 9)),
        ]

    outcome = on_every_server(story)
    assert (outcome.told, outcome.left) == ([0, []], {})


def test_a_whole_queue_is_looked_at_in_one_call(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.deliver(b"1", b"2")
        b.add(b"3")
        b.run_calls(b.commands.schedule(b.keys, member(b"due"), 1))
        b.run_calls(b.commands.schedule(b.keys, member(b"later"), b.now_ms() + 90_000))
        b.command("SET", b.keys.repeat, "of another type")
        b.run_calls(b.commands.acquire_lock(b.keys.promoter_lock, "ada", ttl_s=60))
        now, types, stream, groups, dlq, delayed, repeats, events, promoter, scheduler = b.run_calls(
            b.commands.read_snapshot(b.keys)
        )
        assert abs(now - b.now_ms()) < 5000
        assert 0 < promoter.pop() <= 60_000
        assert groups[0].pop() < 5000
        return [types, stream, groups, dlq, delayed, repeats, events, promoter, scheduler]

    assert on_every_server(story).told == [
        ["stream", "none", "zset", "string", "none", "string", "none"],
        [3, "id", "id", 3],
        [[GROUP, 1, 2, "id", 1, "id", "id"]],
        [],
        [2, 1, "1"],
        [],
        [],
        ["ada"],
        [],
    ]


def test_reading_on_tells_how_far_the_stream_reaches(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        read_on, stream = b.commands.read_with_extent, b.keys.stream
        missing = b.run_calls(read_on(stream, "0-0", 10))
        for number in range(1, 6):
            b.command("XADD", stream, f"{number}-0", "d", number)
        b.command("XTRIM", stream, "MAXLEN", 3)
        page = b.run_calls(read_on(stream, "3-0", 1))
        b.command("XTRIM", stream, "MAXLEN", 0)
        return [missing, page, b.run_calls(read_on(stream, "5-0", 0))]

    assert on_every_server(story).told == [
        None,
        [3, "3-0", "5-0", 5, [["4-0", ["d", "4"]]]],
        [0, None, "5-0", 5, []],
    ]


def test_waiting_for_entries_tells_which_streams_have_some(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("XADD", b.keys.events, "2-0", "e", "x")
        b.command("XADD", b.keys.dlq, "2-0", "d", "x")
        streams = [b.keys.events, b.keys.dlq, b.keys.stream]
        told = b.run_calls(b.commands.wait_for_entries(streams, ["1-0", "2-0", "0-0"], block_ms=1))
        quiet = b.run_calls(b.commands.wait_for_entries(streams, ["2-0", "2-0", "0-0"], block_ms=1))
        return [streams_with_entries(told) == [b.keys.events.encode()], streams_with_entries(quiet)]

    assert on_every_server(story).told == [True, []]


def test_a_search_answers_ids_and_where_it_stopped(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for number in range(1, 101):
            b.command("XADD", b.keys.stream, f"{number}-0", "x", "needle", "d", f"{number:03}", "n", "mail")
        find, stream = b.commands.find_entries, b.keys.stream
        holds = SearchTerm("d", b"05")
        return [
            b.run_calls(find(stream, holds, IdRange())),
            b.run_calls(find(stream, SearchTerm("d", b"050", whole=True), IdRange())),
            b.run_calls(find(stream, holds, IdRange("(50-0", "90-0", backwards=True))),
            b.run_calls(find(stream, SearchTerm("d", b"needle"), IdRange())),
            b.run_calls(find(stream, holds, IdRange(), bound=SearchBudget(30, 1 << 20))),
            b.run_calls(find(stream, holds, IdRange("(30-0"), bound=SearchBudget(1000, 60))),
            b.run_calls(find(stream, SearchTerm("x", b"needle"), IdRange())),
            b.run_calls(find(f"{stream}-missing", holds, IdRange())),
        ]

    tens = [f"{number}-0" for number in range(50, 60)]
    assert on_every_server(story).told == [
        [100, None, ["5-0", *tens]],
        [100, None, ["50-0"]],
        [40, None, [f"{number}-0" for number in range(59, 50, -1)]],
        [100, None, []],
        [30, "30-0", ["5-0"]],
        [20, "50-0", ["50-0"]],
        [20, "20-0", [f"{number}-0" for number in range(1, 21)]],
        [0, None, []],
    ]


def test_a_search_among_delayed_jobs_begins_at_a_time_and_goes_on_by_rank(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        for number in range(1, 101):
            b.command("ZADD", b.keys.delayed, number, f"job-{number:03}")
        find, delayed = b.commands.find_members, b.keys.delayed
        return [
            b.run_calls(find(delayed, b"-05")),
            b.run_calls(find(delayed, b"-05", least=55)),
            b.run_calls(find(delayed, b"-05", least=55, skip=3)),
            b.run_calls(find(delayed, b"-05", bound=SearchBudget(50, 1 << 20))),
            b.run_calls(find(f"{delayed}-missing", b"x")),
        ]

    every = [word for number in range(50, 60) for word in (str(number), f"job-{number:03}")]
    assert on_every_server(story).told == [
        [100, 1, *every],
        [46, 1, *every[10:]],
        [43, 1, *every[16:]],
        [50, 0, *every[:2]],
        [0, 1],
    ]
