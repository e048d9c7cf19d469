"""Flows of those who tend a queue, on every server: what was done can be taken back, once, and never doubles anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui import adding, crew, delaying, producer, repeatable, withdrawal
from chasqui.adding import Ledger, described, made
from chasqui.errors import ArgumentError
from chasqui.options import Producer
from chasqui.server.commands import RELEASED
from chasqui.wire.packed import Undecodable
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Every, RepeatSpec
from tests.live.bench import GROUP, Bench, Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.delaying import Action, Member
    from chasqui.withdrawal import Item
    from tests.live.conftest import Everywhere


@pytest.fixture
def everywhere(benches: list[Bench]) -> Everywhere:
    """As for primitives, but jobs have ids of their own everywhere: only what is told is compared."""

    def play(story: Callable[[Bench], Any]) -> Outcome:
        (first, *others) = [(bench.label, outcome(bench, story)) for bench in benches]
        for label, other in others:
            assert other.told == first[1].told, f"{label} answered otherwise than {first[0]}"
        return first[1]

    return play


def add(b: Bench, *jobs: adding.Wanted) -> tuple[list[adding.Added], list[Item]]:
    """Add jobs, and what would stand in the journal."""
    footing = b.run(withdrawal.footing(b.commands, b.keys))
    load = made(jobs, footing.now_ms, Producer())
    items = load.items(footing)
    b.run(adding.send(b.commands, b.keys, load, Ledger()))
    return load.added, items


def take_back(b: Bench, items: list[Item]) -> list[str]:
    return b.run(producer.take_back(b.commands, b.keys, "op", items))


def read_one(b: Bench) -> None:
    b.run(b.commands.ensure_group(b.keys, GROUP))
    b.say("XREADGROUP", "GROUP", GROUP, "ada", "COUNT", 1, "STREAMS", b.keys.stream, ">")


def members(b: Bench) -> list[Member]:
    return b.run(delaying.scan(b.commands, b.keys, lambda _: True, scan=1000)).found


def change(b: Bench, action: Action, found: list[Member], times: list[int] | None = None) -> list[Item]:
    """Change delayed jobs, and what would stand in the journal."""
    footing = b.run(withdrawal.footing(b.commands, b.keys))
    known = b.run(delaying.known(b.commands, b.keys, found))
    items = delaying.items(known, action, footing=footing, times=times or [])
    if action == "run":
        b.run(delaying.run_now(b.commands, b.keys, found))
    elif action == "cancelled":
        b.run(delaying.cancel(b.commands, b.keys, found))
    else:
        b.run(delaying.move(b.commands, b.keys, found, times or []))
    return items


def put_back(b: Bench, items: list[Item]) -> list[str]:
    return b.run(delaying.put_back(b.commands, b.keys, "op", items))


def kept(b: Bench) -> dict[str, Any]:
    """What a queue holds, events and a stream that is empty aside."""
    return {name: value for name, value in b.dump().items() if name != "events" and value != {"entries": []}}


# Added jobs


def test_each_job_is_told_with_its_entry_however_many_there_are(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        jobs = [described("n", number) for number in range(1200)]
        jobs[700] = described("n", 700, job_id="mine")
        added, _ = add(b, *jobs)
        stored = {entry_id.decode(): fields for entry_id, fields in b.say("XRANGE", b.keys.stream, "-", "+")}
        assert len(stored) == 1200
        for one in added:
            mark = withdrawal.mark_of(stored[one.entry_id or ""][1])
            assert mark is not None
            assert mark.job_id == one.id
        b.say("DEL", b.keys.stream)
        return len({one.entry_id for one in added})

    assert everywhere(story).told == 1200


def test_delays_are_told_as_the_server_counted_them(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        now = b.now_ms()
        added, _ = add(
            b,
            described("n", 1, delay_ms=60_000),
            described("n", 2, delay_ms=60_000, job_id="mine"),
            described("n", 3, at_ms=now + 90_000),
            described("n", 4, at_ms=now + 90_000, job_id="other"),
            described("n", 5, at_ms=now - 5),
        )
        scores = {one.job.id: one.run_at_ms for one in members(b) if not isinstance(one.job, Undecodable)}
        assert [one.run_at_ms for one in added[:4]] == [scores[one.id] for one in added[:4]]
        return [one.entry_id is None for one in added]

    assert everywhere(story).told == [True, True, True, True, False]


def test_what_was_added_is_taken_back_while_it_waits(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        b.add(b"older")
        _, items = add(
            b,
            described("n", 1),
            described("n", 2),
            described("n", 3, job_id="mine"),
            described("n", 4, job_id="once", unique=True),
            described("n", 5, delay_ms=60_000),
            described("n", 6, delay_ms=60_000, job_id="later"),
        )
        return [take_back(b, items), take_back(b, items)]

    outcome = everywhere(story)
    assert outcome.told == [["restored"] * 6, ["gone"] * 6]
    assert outcome.left == {"stream": {"entries": [["d", "older"]]}}


def test_what_was_read_or_is_somebody_elses_is_left_alone(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        _, items = add(b, described("n", 1), described("n", 2, job_id="mine"))
        read_one(b)
        _, others = add(b, described("n", 9, job_id="mine"))
        told = take_back(b, items)
        left = [fields[3] for _, fields in b.say("XRANGE", b.keys.stream, "-", "+")]
        assert others[0]["id"] == "mine"
        return [told, left]

    told, left = everywhere(story).told
    assert told == ["gone", "restored"]
    assert left == ["n", "n"]


def test_a_repeated_unique_add_takes_nothing_of_the_first_back(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        add(b, described("n", 1, job_id="x", unique=True))
        again, items = add(b, described("n", 2, job_id="x", unique=True))
        return [again[0].duplicate, again[0].entry_id, take_back(b, items), b.say("XLEN", b.keys.stream)]

    assert everywhere(story).told == [True, None, ["gone"], 1]


def test_bad_jobs_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ArgumentError, match="needs an id"):
        described("n", 1, unique=True)
    with pytest.raises(ArgumentError):
        made([described("n" * 300, 1)], 1, Producer())
    with pytest.raises(ArgumentError):
        made([described("n", 2**70)], 1, Producer())
    with pytest.raises(ArgumentError):
        described("n", 1, delay_ms=5, at_ms=5)


# Delayed jobs


def delayed_scene(b: Bench) -> None:
    add(b, described("a", 1, delay_ms=3_600_000, job_id="named"), described("b", 2, delay_ms=7_200_000))
    b.do(b.commands.schedule(b.keys, b"garbage", b.now_ms() + 10_800_000))


@pytest.mark.parametrize("action", ["cancelled", "moved", "run"])
def test_what_was_changed_is_put_back_as_it_was(everywhere: Everywhere, action: Action) -> None:
    def story(b: Bench) -> Any:
        delayed_scene(b)
        before, found = kept(b), members(b)
        chosen = found[:2] if action == "run" else found
        times = [one.run_at_ms + 1_800_000 for one in chosen] if action == "moved" else []
        items = change(b, action, chosen, times)
        assert kept(b) != before
        told = [put_back(b, items), kept(b) == before, put_back(b, items), kept(b) == before]
        b.say("DEL", b.keys.stream)
        return told

    first, as_before, second, still = everywhere(story).told
    assert set(first) == {"restored"}
    assert set(second) == {"already"}
    assert as_before
    assert still


def test_a_cancelled_job_that_ran_after_all_is_not_put_back_twice(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        delayed_scene(b)
        items = change(b, "cancelled", members(b)[:1])
        first = put_back(b, items)
        b.run(delaying.run_now(b.commands, b.keys, members(b)[:1]))
        again = put_back(b, items)
        b.say("DEL", b.keys.stream)
        return [first, again, len(members(b))]

    assert everywhere(story).told == [["restored"], ["already"], 2]


def test_a_job_that_was_run_and_read_is_not_put_back(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        delayed_scene(b)
        items = change(b, "run", members(b)[:2])
        read_one(b)
        told = put_back(b, items)
        left = b.say("XLEN", b.keys.stream)
        b.say("DEL", b.keys.stream)
        return [told, left]

    assert everywhere(story).told == [["gone", "restored"], 1]


def test_a_moved_job_that_somebody_moved_again_stays_there(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        delayed_scene(b)
        one = members(b)[:1]
        items = change(b, "moved", one, [one[0].run_at_ms + 5000])
        change(b, "moved", one, [one[0].run_at_ms + 9000])
        return put_back(b, items)

    assert everywhere(story).told == ["changed"]


def test_a_job_that_was_run_is_told_as_the_promoter_tells_it(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        delayed_scene(b)
        change(b, "run", members(b)[:1])
        [[_, fields]] = b.say("XRANGE", b.keys.events, "-", "+")
        events = dict(zip(fields[::2], fields[1::2], strict=True))
        b.say("DEL", b.keys.stream, b.keys.events)
        return [events[b"e"], events[b"id"]]

    assert everywhere(story).told == ["waiting", "named"]


def test_what_is_no_job_is_not_run(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        delayed_scene(b)
        with pytest.raises(ArgumentError, match="no job"):
            b.run(delaying.run_now(b.commands, b.keys, members(b)))
        return b.run(delaying.cancel(b.commands, b.keys, members(b)[2:]))

    assert everywhere(story).told == [True]


def test_many_due_at_the_same_time_are_each_seen_once(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        at_ms = b.now_ms() + 60_000
        for start in range(0, 1300, 100):
            words = [word for nth in range(start, start + 100) for word in (at_ms + nth // 600, f"m{nth:04}")]
            b.say("ZADD", b.keys.delayed, *words)
        seen = b.run(delaying.scan(b.commands, b.keys, lambda _: True, scan=10_000))
        part = b.run(delaying.scan(b.commands, b.keys, lambda _: True, scan=700))
        bound = b.run(delaying.scan(b.commands, b.keys, lambda _: True, least_ms=at_ms + 1, scan=10_000))
        b.say("DEL", b.keys.delayed)
        unique = len({one.data for one in seen.found})
        return [unique, seen.looked, seen.complete, part.looked, part.complete, len(bound.found)]

    assert everywhere(story).told == [1300, 1300, True, 700, False, 700]


def test_the_histogram_counts_every_job_once_in_two_round_trips(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        now = b.now_ms()
        for nth, at_ms in enumerate([now - 5000, now - 1, now + 61_000, now + 62_000, now + 3_000_000]):
            b.say("ZADD", b.keys.delayed, at_ms, f"m{nth}")
        trips = b.link.round_trips
        found = b.run(delaying.histogram(b.commands, b.keys, buckets=12))
        trips = b.link.round_trips - trips
        near = b.run(delaying.histogram(b.commands, b.keys, buckets=5, step_ms=60_000))
        b.say("DEL", b.keys.delayed)
        widths = {bucket.to_ms - bucket.from_ms for bucket in found.buckets}
        return [
            trips, found.overdue, sum(bucket.jobs for bucket in found.buckets), found.later, sorted(widths),
            near.overdue, sum(bucket.jobs for bucket in near.buckets), near.later,
        ]  # fmt: skip

    assert everywhere(story).told == [2, 2, 3, 0, [300_000], 2, 2, 1]


# Schedules


SPEC = RepeatSpec("k", "tick", Every(60_000), from_data({"a": 1}))
OTHER = RepeatSpec("k", "tock", Every(5_000), from_data({"a": 2}))


def store(b: Bench, spec: RepeatSpec) -> Item:
    [before] = b.run(repeatable.held(b.commands, b.keys, [spec.key]))
    b.run(repeatable.upsert(b.commands, b.keys, spec))
    return before.item(spec.key.encode(), repeatable.prepared(spec)[1])


def restore(b: Bench, op: str, *items: Item) -> list[str]:
    return b.run(repeatable.put_back(b.commands, b.keys, op, items))


def test_a_schedule_is_put_back_to_what_it_was(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        created = store(b, SPEC)
        b.say("HSET", b.keys.repeat_spec("k"), "fired", 7)
        first = b.dump()
        replaced = store(b, OTHER)
        told = [restore(b, "op-2", replaced), b.dump() == first]
        [held] = b.run(repeatable.held(b.commands, b.keys, ["k"]))
        removed = held.item(b"k", b"")
        b.run(repeatable.remove(b.commands, b.keys, "k"))
        told += [restore(b, "op-3", removed), b.dump() == first, restore(b, "op-3", removed)]
        return [*told, restore(b, "op-1", created), restore(b, "op-1", created)]

    outcome = everywhere(story)
    assert outcome.told == [["restored"], True, ["restored"], True, ["already"], ["restored"], ["already"]]
    assert outcome.left == {}


def test_a_schedule_that_somebody_changed_since_is_left_alone(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        item = store(b, SPEC)
        store(b, OTHER)
        return restore(b, "op", item)

    assert everywhere(story).told == ["changed"]


def test_a_schedule_run_out_of_turn_makes_one_job_and_stays_as_it_is(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        store(b, SPEC)
        before = b.dump()
        job = repeatable.new_job(b.now_ms())
        entries = [b.run(repeatable.run_once(b.commands, b.keys, SPEC, job)) for _ in range(2)]
        [[entry_id, fields]] = b.say("XRANGE", b.keys.stream, "-", "+")
        assert entries == [entry_id.decode()] * 2
        assert withdrawal.mark_of(fields[1]) == job
        return {name: value for name, value in b.dump().items() if name != "stream"} == before

    assert everywhere(story).told is True


# Consumers


def test_the_crew_is_judged_by_when_it_last_asked(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        ids = b.deliver(b"1", b"2", to="ada")
        b.deliver(b"3", to="bob")
        b.say("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, "idler")
        b.say("XCLAIM", b.keys.stream, GROUP, "ada", 0, ids[0], "RETRYCOUNT", 3, "JUSTID")
        trips = b.link.round_trips
        seen = b.run(crew.muster(b.commands, b.keys))
        trips = b.link.round_trips - trips
        b.link.run(_pause(b))
        later = b.run(crew.muster(b.commands, b.keys, gone_ms=0))
        told = {one.name: (one.verdict, one.in_flight, one.again) for one in seen.members}
        return [
            trips,
            told["ada"],
            told["bob"],
            told["idler"],
            {one.verdict for one in later.members} == {"gone"},
        ]

    trips, ada, bob, idler, gone = everywhere(story).told
    assert trips == 2
    assert (ada, bob, idler) == (["working", 2, 1], ["working", 1, 0], ["waiting", 0, 0])
    assert gone


def _pause(b: Bench) -> Any:
    """Until the server's clock has moved on."""
    now = b.now_ms()
    while b.now_ms() <= now + 2:
        yield [b.commands.server_time()]


def test_only_those_who_hold_nothing_are_removed(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        b.deliver(b"1", to="ada")
        b.say("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, "idler")
        seen = b.run(crew.muster(b.commands, b.keys))
        return sorted(
            [one.name, removed]
            for one, removed in zip(
                seen.members, b.run(crew.prune(b.commands, b.keys, seen.members)), strict=True
            )
        )

    assert everywhere(story).told == [["ada", False], ["idler", True]]


def test_what_a_dead_consumer_held_is_had_at_once_and_its_deliveries_still_count(
    everywhere: Everywhere,
) -> None:
    def story(b: Bench) -> Any:
        b.deliver(b"1", b"2", to="ada")
        [ada] = b.run(crew.muster(b.commands, b.keys)).members
        entries = b.run(crew.holdings(b.commands, b.keys, ada, 10))
        b.say("XACK", b.keys.stream, GROUP, entries[1].entry_id)
        freed = b.run(crew.release(b.commands, b.keys, ada, entries))
        again = b.run(crew.release(b.commands, b.keys, ada, entries))
        read = b.commands.read_ready(b.keys, GROUP, "bob", claim_idle_ms=60_000)
        rows = read.rows(b.do(read.call(10)))
        return [freed, again, [row[3] for row in rows]]

    freed, again, deliveries = everywhere(story).told
    assert (freed, again) == ([True, False], [False, False])
    assert deliveries == [1]


def test_what_was_handed_back_is_nobodys_to_judge(everywhere: Everywhere) -> None:
    def story(b: Bench) -> Any:
        b.say("XGROUP", "CREATE", b.keys.stream, GROUP, "0", "MKSTREAM")
        b.say("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, RELEASED)
        b.link.run(_pause(b))
        return [one.verdict for one in b.run(crew.muster(b.commands, b.keys, gone_ms=0)).members]

    assert everywhere(story).told == ["waiting"]


def test_a_queue_without_a_stream_has_nobody(everywhere: Everywhere) -> None:
    assert everywhere(lambda b: len(b.run(crew.muster(b.commands, b.keys)).members)).told == 0
