"""The commands that only read, on every kind of server, with and without its native commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.errors import ServerError
from chasqui.server.commands import (
    ConsumerInfo,
    GroupInfo,
    IdRange,
    PendingEntry,
    RawEntry,
    SearchBudget,
    SearchTerm,
    streams_with_entries,
)
from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from tests.live.conftest import Everywhere
from tests.support.queue_harness import delayed_member


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

    assert on_every_server(story).result == [["1", "2"], ["2", "3"], ["3", "2"], ["2", "1"], ["3"], 3]


def test_groups_consumers_and_pending_entries_are_parsed_into_records(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        first, second = b.deliver(b"1", b"2")
        b.add(b"3")
        [group] = GroupInfo.list_from_reply(b.run_calls(b.commands.groups(b.keys)))
        [consumer] = ConsumerInfo.list_from_reply(b.run_calls(b.commands.consumers(b.keys, GROUP)))
        rows = PendingEntry.list_from_reply(
            b.run_calls(b.commands.pending_page(b.keys, GROUP, 10, after=first, consumer="ada"))
        )
        assert consumer.idle_ms < 60_000
        return [
            [group.name, group.consumers, group.pending, group.last_id == second, group.lag],
            [consumer.name, consumer.pending],
            [[row.entry_id == second, row.consumer, row.deliveries] for row in rows],
        ]

    assert on_every_server(story).result == [
        [GROUP, 1, 2, True, 1],
        ["ada", 2],
        [[True, "ada", 1]],
    ]


def test_looking_at_a_queue_that_is_not_there_is_an_answer_and_creates_nothing(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        asked = [
            b.commands.groups(b.keys),
            b.commands.consumers(b.keys, GROUP),
        ]
        assert all(isinstance(b.run_calls(call), ServerError) for call in asked)
        return [
            b.run_calls(b.commands.stream_length(b.keys.stream)),
            b.run(b.commands.specs_page(b.keys, 0, 9)),
        ]

    outcome = on_every_server(story)
    assert (outcome.result, outcome.left) == ([0, []], {})


def test_a_whole_queue_is_looked_at_in_one_call(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.deliver(b"1", b"2")
        b.add(b"3")
        b.run_calls(b.commands.schedule(b.keys, delayed_member(b"due"), 1))
        b.run_calls(b.commands.schedule(b.keys, delayed_member(b"later"), b.now_ms() + 90_000))
        b.command("SET", b.keys.repeat, "of another type")
        b.run_calls(b.commands.acquire_lock(b.keys.promoter_lock, "ada", ttl_s=60))
        now, types, stream, groups, dlq, delayed, repeats, events, promoter, scheduler = b.run_calls(
            b.commands.read_snapshot(b.keys)
        )
        assert abs(now - b.now_ms()) < 5000
        assert 0 < promoter.pop() <= 60_000
        assert groups[0].pop() < 5000
        return [types, stream, groups, dlq, delayed, repeats, events, promoter, scheduler]

    assert on_every_server(story).result == [
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


def test_reading_on_reports_how_far_the_stream_reaches(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        read_on, stream = b.commands.read_with_extent, b.keys.stream
        missing = b.run_calls(read_on(stream, "0-0", 10))
        for number in range(1, 6):
            b.command("XADD", stream, f"{number}-0", "d", number)
        b.command("XTRIM", stream, "MAXLEN", 3)
        page = b.run_calls(read_on(stream, "3-0", 1))
        b.command("XTRIM", stream, "MAXLEN", 0)
        return [missing, page, b.run_calls(read_on(stream, "5-0", 0))]

    assert on_every_server(story).result == [
        None,
        [3, "3-0", "5-0", 5, [["4-0", ["d", "4"]]]],
        [0, None, "5-0", 5, []],
    ]


def test_waiting_for_entries_reports_which_streams_have_some(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("XADD", b.keys.events, "2-0", "e", "x")
        b.command("XADD", b.keys.dlq, "2-0", "d", "x")
        streams = [b.keys.events, b.keys.dlq, b.keys.stream]
        ready = b.run_calls(b.commands.wait_for_entries(streams, ["1-0", "2-0", "0-0"], block_ms=1))
        quiet = b.run_calls(b.commands.wait_for_entries(streams, ["2-0", "2-0", "0-0"], block_ms=1))
        return [streams_with_entries(ready) == [b.keys.events.encode()], streams_with_entries(quiet)]

    assert on_every_server(story).result == [True, []]


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
    assert on_every_server(story).result == [
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
    assert on_every_server(story).result == [
        [100, 1, *every],
        [46, 1, *every[10:]],
        [43, 1, *every[16:]],
        [50, 0, *every[:2]],
        [0, 1],
    ]
