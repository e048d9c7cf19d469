"""Flows of those who tend a queue, on every server: what was done can be taken back, once, and never doubles anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui.defaults import ProducerOptions
from chasqui.errors import ArgumentError
from chasqui.operate import consumers, delayed_jobs
from chasqui.produce import prepared_batch
from chasqui.produce.prepared_batch import ProducerMemory, prepare_batch, tool_job_request
from chasqui.schedule import repeatable
from chasqui.server.commands import RELEASED_CONSUMER
from chasqui.undo import added_jobs, changed_delayed_jobs, changed_schedules, stream_search
from chasqui.wire import envelope
from chasqui.wire.msgpack_codec import Undecodable
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Every, RepeatSpec
from tests.support.queue_harness import GROUP, Outcome, QueueHarness, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.operate.delayed_jobs import DelayedJob
    from chasqui.undo.changed_delayed_jobs import DelayedAction
    from chasqui.undo.undo_items import JournalItem
    from tests.live.conftest import Everywhere


@pytest.fixture
def on_every_server(harnesses: list[QueueHarness]) -> Everywhere:
    """As for primitives, but jobs have ids of their own everywhere: only what is returned is compared."""

    def play(story: Callable[[QueueHarness], Any]) -> Outcome:
        (first, *others) = [(bench.label, outcome(bench, story)) for bench in harnesses]
        for label, other in others:
            assert other.result == first[1].result, f"{label} answered otherwise than {first[0]}"
        return first[1]

    return play


def add(b: QueueHarness, *jobs: prepared_batch.JobRequest) -> tuple[list[prepared_batch.Added], list[JournalItem]]:
    """Add jobs, and what would stand in the journal."""
    end = b.run(stream_search.stream_end(b.commands, b.keys))
    load = prepare_batch(jobs, end.now_ms, ProducerOptions())
    items = load.journal_items(end)
    b.run(load.deliver(b.commands, b.keys, ProducerMemory()))
    return load.results, items


def take_back(b: QueueHarness, items: list[JournalItem]) -> list[str]:
    return b.run(added_jobs.revert(b.commands, b.keys, "op", items))


def read_one(b: QueueHarness) -> None:
    b.run(b.commands.ensure_group(b.keys, GROUP))
    b.command("XREADGROUP", "GROUP", GROUP, "ada", "COUNT", 1, "STREAMS", b.keys.stream, ">")


def members(b: QueueHarness) -> list[DelayedJob]:
    return b.run(delayed_jobs.find_delayed_jobs(b.commands, b.keys, lambda _: True, max_scanned=1000)).found


def change(
    b: QueueHarness, action: DelayedAction, found: list[DelayedJob], times: list[int] | None = None
) -> list[JournalItem]:
    """Change delayed jobs, and what would stand in the journal."""
    end = b.run(stream_search.stream_end(b.commands, b.keys))
    known = b.run(changed_delayed_jobs.read_saved_jobs(b.commands, b.keys, found))
    items = changed_delayed_jobs.items(known, action, end=end, times=times or [])
    if action == "run":
        b.run(delayed_jobs.run_now(b.commands, b.keys, found))
    elif action == "cancelled":
        b.run(delayed_jobs.cancel_delayed_jobs(b.commands, b.keys, found))
    else:
        b.run(delayed_jobs.move_delayed_jobs(b.commands, b.keys, found, times or []))
    return items


def put_back(b: QueueHarness, items: list[JournalItem]) -> list[str]:
    return b.run(changed_delayed_jobs.revert(b.commands, b.keys, "op", items))


def contents(b: QueueHarness) -> dict[str, Any]:
    """What a queue holds, events and a stream that is empty aside."""
    return {name: value for name, value in b.dump().items() if name != "events" and value != {"entries": []}}


# Added jobs


def test_each_job_is_returned_with_its_entry_however_many_there_are(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        jobs = [tool_job_request("n", number) for number in range(1200)]
        jobs[700] = tool_job_request("n", 700, job_id="mine")
        added, _ = add(b, *jobs)
        stored = {entry_id.decode(): fields for entry_id, fields in b.command("XRANGE", b.keys.stream, "-", "+")}
        assert len(stored) == 1200
        for one in added:
            mark = envelope.job_stamp(stored[one.entry_id or ""][1])
            assert mark is not None
            assert mark.job_id == one.id
        b.command("DEL", b.keys.stream)
        return len({one.entry_id for one in added})

    assert on_every_server(story).result == 1200


def test_delays_are_returned_as_the_server_counted_them(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        added, _ = add(
            b,
            tool_job_request("n", 1, delay_ms=60_000),
            tool_job_request("n", 2, delay_ms=60_000, job_id="mine"),
            tool_job_request("n", 3, at_ms=now + 90_000),
            tool_job_request("n", 4, at_ms=now + 90_000, job_id="other"),
            tool_job_request("n", 5, at_ms=now - 5),
        )
        scores = {one.job.id: one.run_at_ms for one in members(b) if not isinstance(one.job, Undecodable)}
        assert [one.run_at_ms for one in added[:4]] == [scores[one.id] for one in added[:4]]
        return [one.entry_id is None for one in added]

    assert on_every_server(story).result == [True, True, True, True, False]


def test_what_was_added_is_taken_back_while_it_waits(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.add(b"older")
        _, items = add(
            b,
            tool_job_request("n", 1),
            tool_job_request("n", 2),
            tool_job_request("n", 3, job_id="mine"),
            tool_job_request("n", 4, job_id="once", unique=True),
            tool_job_request("n", 5, delay_ms=60_000),
            tool_job_request("n", 6, delay_ms=60_000, job_id="later"),
        )
        return [take_back(b, items), take_back(b, items)]

    outcome = on_every_server(story)
    assert outcome.result == [["restored"] * 6, ["gone"] * 6]
    assert outcome.left == {"stream": {"entries": [["d", "older"]]}}


def test_what_was_read_or_is_of_another_producer_is_left_alone(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        _, items = add(b, tool_job_request("n", 1), tool_job_request("n", 2, job_id="mine"))
        read_one(b)
        _, others = add(b, tool_job_request("n", 9, job_id="mine"))
        outcomes = take_back(b, items)
        left = [fields[3] for _, fields in b.command("XRANGE", b.keys.stream, "-", "+")]
        assert others[0]["id"] == "mine"
        return [outcomes, left]

    outcomes, left = on_every_server(story).result
    assert outcomes == ["gone", "restored"]
    assert left == ["n", "n"]


def test_a_repeated_unique_add_takes_nothing_of_the_first_back(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        add(b, tool_job_request("n", 1, job_id="x", unique=True))
        again, items = add(b, tool_job_request("n", 2, job_id="x", unique=True))
        return [again[0].duplicate, again[0].entry_id, take_back(b, items), b.command("XLEN", b.keys.stream)]

    assert on_every_server(story).result == [True, None, ["gone"], 1]


def test_bad_jobs_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ArgumentError, match="needs an id"):
        tool_job_request("n", 1, unique=True)
    with pytest.raises(ArgumentError):
        prepare_batch([tool_job_request("n" * 300, 1)], 1, ProducerOptions())
    with pytest.raises(ArgumentError):
        prepare_batch([tool_job_request("n", 2**70)], 1, ProducerOptions())
    with pytest.raises(ArgumentError):
        tool_job_request("n", 1, delay_ms=5, at_ms=5)


# Delayed jobs


def delayed_scene(b: QueueHarness) -> None:
    add(
        b,
        tool_job_request("a", 1, delay_ms=3_600_000, job_id="named"),
        tool_job_request("b", 2, delay_ms=7_200_000),
    )
    b.run_calls(b.commands.schedule(b.keys, b"garbage", b.now_ms() + 10_800_000))


@pytest.mark.parametrize("action", ["cancelled", "moved", "run"])
def test_what_was_changed_is_put_back_as_it_was(on_every_server: Everywhere, action: DelayedAction) -> None:
    def story(b: QueueHarness) -> Any:
        delayed_scene(b)
        before, found = contents(b), members(b)
        chosen = found[:2] if action == "run" else found
        times = [one.run_at_ms + 1_800_000 for one in chosen] if action == "moved" else []
        items = change(b, action, chosen, times)
        assert contents(b) != before
        outcomes = [put_back(b, items), contents(b) == before, put_back(b, items), contents(b) == before]
        b.command("DEL", b.keys.stream)
        return outcomes

    first, as_before, second, still = on_every_server(story).result
    assert set(first) == {"restored"}
    assert set(second) == {"already"}
    assert as_before
    assert still


def test_a_cancelled_job_that_ran_after_all_is_not_put_back_twice(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        delayed_scene(b)
        items = change(b, "cancelled", members(b)[:1])
        first = put_back(b, items)
        b.run(delayed_jobs.run_now(b.commands, b.keys, members(b)[:1]))
        again = put_back(b, items)
        b.command("DEL", b.keys.stream)
        return [first, again, len(members(b))]

    assert on_every_server(story).result == [["restored"], ["already"], 2]


def test_a_job_that_was_run_and_read_is_not_put_back(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        delayed_scene(b)
        items = change(b, "run", members(b)[:2])
        read_one(b)
        outcomes = put_back(b, items)
        left = b.command("XLEN", b.keys.stream)
        b.command("DEL", b.keys.stream)
        return [outcomes, left]

    assert on_every_server(story).result == [["gone", "restored"], 1]


def test_a_moved_job_that_was_moved_again_stays_there(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        delayed_scene(b)
        one = members(b)[:1]
        items = change(b, "moved", one, [one[0].run_at_ms + 5000])
        change(b, "moved", one, [one[0].run_at_ms + 9000])
        return put_back(b, items)

    assert on_every_server(story).result == ["changed"]


def test_a_job_that_was_run_has_the_promoter_s_event(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        delayed_scene(b)
        change(b, "run", members(b)[:1])
        [[_, fields]] = b.command("XRANGE", b.keys.events, "-", "+")
        events = dict(zip(fields[::2], fields[1::2], strict=True))
        b.command("DEL", b.keys.stream, b.keys.events)
        return [events[b"e"], events[b"id"]]

    assert on_every_server(story).result == ["waiting", "named"]


def test_what_is_no_job_is_not_run(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        delayed_scene(b)
        with pytest.raises(ArgumentError, match="no job"):
            b.run(delayed_jobs.run_now(b.commands, b.keys, members(b)))
        return b.run(delayed_jobs.cancel_delayed_jobs(b.commands, b.keys, members(b)[2:]))

    assert on_every_server(story).result == [True]


def test_many_due_at_the_same_time_are_each_seen_once(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        at_ms = b.now_ms() + 60_000
        for start in range(0, 1300, 100):
            words = [word for nth in range(start, start + 100) for word in (at_ms + nth // 600, f"m{nth:04}")]
            b.command("ZADD", b.keys.delayed, *words)
        seen = b.run(delayed_jobs.find_delayed_jobs(b.commands, b.keys, lambda _: True, max_scanned=10_000))
        part = b.run(delayed_jobs.find_delayed_jobs(b.commands, b.keys, lambda _: True, max_scanned=700))
        bound = b.run(
            delayed_jobs.find_delayed_jobs(b.commands, b.keys, lambda _: True, from_ms=at_ms + 1, max_scanned=10_000)
        )
        b.command("DEL", b.keys.delayed)
        unique = len({one.member for one in seen.found})
        return [unique, seen.scanned, seen.complete, part.scanned, part.complete, len(bound.found)]

    assert on_every_server(story).result == [1300, 1300, True, 700, False, 700]


def test_the_histogram_counts_every_job_once_in_two_round_trips(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        for nth, at_ms in enumerate([now - 5000, now - 1, now + 61_000, now + 62_000, now + 3_000_000]):
            b.command("ZADD", b.keys.delayed, at_ms, f"m{nth}")
        trips = b.link.round_trips
        found = b.run(delayed_jobs.due_histogram(b.commands, b.keys, buckets=12))
        trips = b.link.round_trips - trips
        near = b.run(delayed_jobs.due_histogram(b.commands, b.keys, buckets=5, step_ms=60_000))
        b.command("DEL", b.keys.delayed)
        widths = {bucket.to_ms - bucket.from_ms for bucket in found.buckets}
        return [
            trips, found.overdue, sum(bucket.jobs for bucket in found.buckets), found.later, sorted(widths),
            near.overdue, sum(bucket.jobs for bucket in near.buckets), near.later,
        ]  # fmt: skip

    assert on_every_server(story).result == [2, 2, 3, 0, [300_000], 2, 2, 1]


# Schedules


SPEC = RepeatSpec("k", "tick", Every(60_000), from_data({"a": 1}))
OTHER = RepeatSpec("k", "tock", Every(5_000), from_data({"a": 2}))


def store(b: QueueHarness, spec: RepeatSpec) -> JournalItem:
    [before] = b.run(changed_schedules.read_raw_specs(b.commands, b.keys, [spec.key]))
    b.run(repeatable.upsert_spec(b.commands, b.keys, spec))
    return changed_schedules.item(spec.key.encode(), before, repeatable.prepare_spec(spec)[1])


def restore(b: QueueHarness, op: str, *items: JournalItem) -> list[str]:
    return b.run(changed_schedules.revert(b.commands, b.keys, op, items))


def test_a_schedule_is_put_back_to_what_it_was(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        created = store(b, SPEC)
        b.command("HSET", b.keys.repeat_spec("k"), "fired", 7)
        first = b.dump()
        replaced = store(b, OTHER)
        outcomes = [restore(b, "op-2", replaced), b.dump() == first]
        [held] = b.run(changed_schedules.read_raw_specs(b.commands, b.keys, ["k"]))
        removed = changed_schedules.item(b"k", held, b"")
        b.run(repeatable.remove_spec(b.commands, b.keys, "k"))
        outcomes += [restore(b, "op-3", removed), b.dump() == first, restore(b, "op-3", removed)]
        return [*outcomes, restore(b, "op-1", created), restore(b, "op-1", created)]

    outcome = on_every_server(story)
    assert outcome.result == [["restored"], True, ["restored"], True, ["already"], ["restored"], ["already"]]
    assert outcome.left == {}


def test_a_schedule_that_was_changed_since_is_left_alone(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        item = store(b, SPEC)
        store(b, OTHER)
        return restore(b, "op", item)

    assert on_every_server(story).result == ["changed"]


def test_a_schedule_run_out_of_turn_makes_one_job_and_stays_as_it_is(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        store(b, SPEC)
        before = b.dump()
        job = repeatable.new_job_stamp(b.now_ms())
        entries = [b.run(repeatable.run_spec_once(b.commands, b.keys, SPEC, job)) for _ in range(2)]
        [[entry_id, fields]] = b.command("XRANGE", b.keys.stream, "-", "+")
        assert entries == [entry_id.decode()] * 2
        assert envelope.job_stamp(fields[1]) == job
        return {name: value for name, value in b.dump().items() if name != "stream"} == before

    assert on_every_server(story).result is True


# Consumers


def test_consumers_are_judged_by_when_they_last_read(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        ids = b.deliver(b"1", b"2", to="ada")
        b.deliver(b"3", to="bob")
        b.command("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, "idler")
        b.command("XCLAIM", b.keys.stream, GROUP, "ada", 0, ids[0], "RETRYCOUNT", 3, "JUSTID")
        trips = b.link.round_trips
        seen = b.run(consumers.list_consumers(b.commands, b.keys))
        trips = b.link.round_trips - trips
        b.link.run(_pause(b))
        later = b.run(consumers.list_consumers(b.commands, b.keys, gone_after_ms=0))
        outcomes = {one.name: (one.state, one.in_flight, one.redelivered) for one in seen.consumers}
        return [
            trips,
            outcomes["ada"],
            outcomes["bob"],
            outcomes["idler"],
            {one.state for one in later.consumers} == {"gone"},
        ]

    trips, ada, bob, idler, gone = on_every_server(story).result
    assert trips == 2
    assert (ada, bob, idler) == (["working", 2, 1], ["working", 1, 0], ["waiting", 0, 0])
    assert gone


def _pause(b: QueueHarness) -> Any:
    """Until the server's clock has moved on."""
    now = b.now_ms()
    while b.now_ms() <= now + 2:
        yield [b.commands.server_time()]


def test_only_those_who_hold_nothing_are_removed(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.deliver(b"1", to="ada")
        b.command("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, "idler")
        seen = b.run(consumers.list_consumers(b.commands, b.keys))
        return sorted(
            [one.name, removed]
            for one, removed in zip(
                seen.consumers,
                b.run(consumers.remove_consumers(b.commands, b.keys, seen.consumers)),
                strict=True,
            )
        )

    assert on_every_server(story).result == [["ada", False], ["idler", True]]


def test_what_a_dead_consumer_held_is_had_at_once_and_its_deliveries_still_count(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        b.deliver(b"1", b"2", to="ada")
        [ada] = b.run(consumers.list_consumers(b.commands, b.keys)).consumers
        entries = b.run(consumers.pending_entries(b.commands, b.keys, ada, 10))
        b.command("XACK", b.keys.stream, GROUP, entries[1].entry_id)
        freed = b.run(consumers.release_entries(b.commands, b.keys, ada, entries))
        again = b.run(consumers.release_entries(b.commands, b.keys, ada, entries))
        read = b.commands.read_ready(b.keys, GROUP, "bob", claim_idle_ms=60_000)
        rows = read.rows(b.run_calls(read.call(10)))
        return [freed, again, [row[3] for row in rows]]

    freed, again, deliveries = on_every_server(story).result
    assert (freed, again) == ([True, False], [False, False])
    assert deliveries == [1]


def test_what_was_handed_back_is_nobodys_to_judge(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("XGROUP", "CREATE", b.keys.stream, GROUP, "0", "MKSTREAM")
        b.command("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, RELEASED_CONSUMER)
        b.link.run(_pause(b))
        return [one.state for one in b.run(consumers.list_consumers(b.commands, b.keys, gone_after_ms=0)).consumers]

    assert on_every_server(story).result == ["waiting"]


def test_a_queue_without_a_stream_has_no_consumers(on_every_server: Everywhere) -> None:
    assert on_every_server(lambda b: len(b.run(consumers.list_consumers(b.commands, b.keys)).consumers)).result == 0
