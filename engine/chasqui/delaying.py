"""Flows for delayed jobs, as somebody who tends a queue needs them: found, counted by due time, run, cancelled, moved,
and put back. A job is always meant by its exact bytes, whether it was scheduled with an id or without, or is no job.

Moving what is due is the promoter's business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from chasqui import search, withdrawal
from chasqui.errors import ArgumentError
from chasqui.options import Promoter
from chasqui.search import Member
from chasqui.server.commands import scored, time_ms
from chasqui.server.commands.values import FAR_MS, whole_ms
from chasqui.wire import delayed_member, event_entry
from chasqui.wire.packed import Undecodable
from chasqui.withdrawal import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chasqui.server.call import Call, Flow, Reply
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys
    from chasqui.withdrawal import Footing, Item

__all__ = ["Bucket", "Histogram", "Known", "Member", "Scanned"]

PAGE = 500
AT_ONCE = 500
STEPS_S = (
    1, 5, 10, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400,
)  # fmt: skip
"""The widths a bucket of a histogram may have by itself: such as people think in."""
Action = Literal["cancelled", "moved", "run"]


class Scanned(NamedTuple):
    """Delayed jobs that were found, soonest first; how many were looked at, and whether those were all there are."""

    found: list[Member]
    looked: int
    complete: bool


class Known(NamedTuple):
    """A delayed job and what is known of its id: for how many ms the id finds it (0: it does not), and is taken."""

    member: Member
    index_ms: int = 0
    marker_ms: int = 0


class Bucket(NamedTuple):
    """How many jobs fall due from one time up to, not including, another."""

    from_ms: int
    to_ms: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """When delayed jobs fall due, at `now_ms`. `later`: how many are due after the last bucket. latest_ms: when the last
    of all is due, None when there is none.
    """

    now_ms: int
    overdue: int
    buckets: tuple[Bucket, ...]
    later: int
    latest_ms: int | None = None


def scan(
    commands: Commands,
    keys: Keys,
    wanted: Callable[[Member], bool],
    *,
    least_ms: int | None = None,
    most_ms: int | None = None,
    scan: int,
    enough: int | None = None,
) -> Flow[Scanned]:
    """Delayed jobs in the order they are due, within bounds of time and number.

    It goes on by due time, not by rank: what is promoted meanwhile makes it pass over nothing.
    """
    found: list[Member] = []
    looked, skip, least = 0, 0, -FAR_MS if least_ms is None else least_ms
    most: int | str = "+inf" if most_ms is None else most_ms
    while looked < scan and (enough is None or len(found) < enough):
        count = min(PAGE, scan - looked)
        first: int | str = "-inf" if least <= -FAR_MS else least
        [reply] = yield [commands.delayed_between(keys, first, most, skip=skip, count=count)]
        rows = scored(reply)
        looked += len(rows)
        found += [one for data, due_ms in rows if wanted(one := search.member_of(data, due_ms))]
        if len(rows) < count:
            return Scanned(found[:enough], looked, complete=enough is None or len(found) <= enough)
        skip = sum(due_ms == rows[-1][1] for _, due_ms in rows) + (skip if rows[-1][1] == least else 0)
        least = rows[-1][1]
    return Scanned(found[:enough], looked, complete=False)


def by_id(commands: Commands, keys: Keys, job_ids: Sequence[str]) -> Flow[dict[str, Member]]:
    """Jobs that were scheduled with an id of their own, in two round trips however many there are."""
    indexed = yield [commands.indexed(keys, job_id)[0] for job_id in job_ids]
    known = [(job_id, data) for job_id, data in zip(job_ids, indexed, strict=True) if data is not None]
    if not known:
        return {}
    dues = yield [commands.due_time(keys, data) for _, data in known]
    return {
        job_id: search.member_of(data, whole_ms(due))
        for (job_id, data), due in zip(known, dues, strict=True)
        if due is not None
    }


def histogram(
    commands: Commands,
    keys: Keys,
    *,
    buckets: int,
    step_ms: int | None = None,
    until_ms: int | None = None,
) -> Flow[Histogram]:
    """When jobs fall due, counted by the server: no job is read, and it takes two round trips.

    Buckets begin at whole multiples of their width, from the one that is now; what was due before is overdue.
    """
    clock, latest = yield [commands.server_time(), commands.latest_delayed(keys)]
    now_ms, rows = time_ms(clock), scored(latest)
    if not rows:
        return Histogram(now_ms, 0, (), 0)
    end_ms = min(rows[0][1], until_ms or FAR_MS)
    return (yield from histogram_at(commands, keys, now_ms, end_ms, buckets=buckets, step_ms=step_ms))


def histogram_at(
    commands: Commands, keys: Keys, now_ms: int, end_ms: int, *, buckets: int, step_ms: int | None = None
) -> Flow[Histogram]:
    """The same in one round trip, for whoever knows what time it is and when about the last one is due."""
    end_ms = max(now_ms, end_ms)
    step = step_ms or _step(end_ms - now_ms, buckets)
    begin = now_ms // step * step
    edges = [begin + nth * step for nth in range(min(buckets, (end_ms - begin) // step + 1) + 1)]
    latest, overdue, *counts, later = yield [
        commands.latest_delayed(keys),
        commands.due_between(keys, "-inf", f"({now_ms}"),
        *(commands.due_between(keys, max(now_ms, a), f"({b}") for a, b in pairwise(edges)),
        commands.due_between(keys, edges[-1], "+inf"),
    ]
    counted = [Bucket(a, b, count) for (a, b), count in zip(pairwise(edges), counts, strict=True)]
    last = scored(latest)
    return Histogram(now_ms, overdue, tuple(counted), later, last[0][1] if last else None)


def _step(span_ms: int, buckets: int) -> int:
    """The narrowest of the usual widths that does with so many buckets."""
    fitting = (step_s * 1000 for step_s in STEPS_S if step_s * 1000 * (buckets - 1) >= span_ms)
    return next(fitting, span_ms // max(1, buckets - 1) + 1)


def known(commands: Commands, keys: Keys, members: Sequence[Member]) -> Flow[list[Known]]:
    """What is known of these jobs' ids, so that it can be put back; one round trip for each few hundred."""
    found: list[Known] = []
    for start in range(0, len(members), AT_ONCE):
        some = members[start : start + AT_ONCE]
        replies = yield [call for one in some for call in commands.indexed(keys, id_of(one))]
        for one, at in zip(some, range(0, len(replies), 3), strict=True):
            data, index_ms, marker_ms = replies[at : at + 3]
            found.append(Known(one, max(0, index_ms), max(0, marker_ms)) if data == one.data else Known(one))
    return found


def run_now(
    commands: Commands, keys: Keys, members: Sequence[Member], *, events: bool = True
) -> Flow[list[str | None]]:
    """Move jobs to the stream at once, in this order; answers their entries, None for those that were gone."""
    entries: list[str | None] = []
    for start in range(0, len(members), AT_ONCE):
        some = members[start : start + AT_ONCE]
        replies = yield [_run(commands, keys, one) for one in some]
        entries += [None if reply is None else reply.decode() for reply in replies]
        moved = [one for one, reply in zip(some, replies, strict=True) if reply is not None]
        if events and moved:
            [clock] = yield [commands.server_time()]
            yield _told(commands, keys, moved, time_ms(clock))
    return entries


def _run(commands: Commands, keys: Keys, member: Member) -> Call:
    if isinstance(member.job, Undecodable):
        raise ArgumentError("what is no job cannot be run", hint="cancel it instead; its bytes are kept")
    found = delayed_member.decode(member.data, len(member.data))
    return commands.run_delayed(keys, member.job.id, member.data, found.envelope_bytes, found.name_bytes)


def _told(commands: Commands, keys: Keys, members: Iterable[Member], now_ms: int) -> list[Call]:
    """That they wait, as the promoter tells it. An events key of the wrong type costs the events and nothing else."""
    events = (event_entry.Event(event_entry.WAITING, id_of(one), now_ms) for one in members)
    cap = Promoter().events_cap
    calls = (commands.emit_event(keys, event_entry.encode(event), cap=cap) for event in events)
    return [replace(call, tolerant=True) for call in calls]


def cancel(commands: Commands, keys: Keys, members: Sequence[Member]) -> Flow[list[bool]]:
    """Remove jobs by their exact bytes, and forget their ids; answers which were still there."""
    told = yield from _each(members, lambda one: commands.cut_delayed(keys, id_of(one), one.data))
    return [bool(answer) for answer in told]


def move(commands: Commands, keys: Keys, members: Sequence[Member], times: Sequence[int]) -> Flow[list[bool]]:
    """Let jobs be due at other times; answers which were still there."""
    due = dict(zip((one.data for one in members), times, strict=True))
    told = yield from _each(
        members, lambda one: commands.shift_delayed(keys, id_of(one), one.data, due[one.data])
    )
    return [bool(answer) for answer in told]


def _each(members: Sequence[Member], call: Callable[[Member], Call]) -> Flow[list[Reply]]:
    told: list[Reply] = []
    for start in range(0, len(members), AT_ONCE):
        told += yield [call(one) for one in members[start : start + AT_ONCE]]
    return told


def id_of(member: Member) -> str:
    """The job's id; nothing for what is no job."""
    return "" if isinstance(member.job, Undecodable) else member.job.id


def items(
    known: Sequence[Known], action: Action, *, footing: Footing, times: Sequence[int] = ()
) -> list[Item]:
    """What to write down about each job before it is changed, for `put_back`. times: where each will be moved to."""
    moved = {nth: {"moved_to_ms": at} for nth, at in enumerate(times)}
    return [
        {
            "kind": "delayed",
            "action": action,
            "id": id_of(one.member),
            "member": one.member.data.hex(),
            "run_at_ms": one.member.run_at_ms,
            "index_ms": one.index_ms,
            "marker_ms": one.marker_ms,
            "after": footing.last_id,
        }
        | moved.get(nth, {})
        for nth, one in enumerate(known)
    ]


def put_back(commands: Commands, keys: Keys, op: str, items: Sequence[Item]) -> Flow[list[str]]:
    """Undo `delayed`: answers for each job "restored", "already", "gone" (it has run, or runs) or "changed".

    What was cancelled is put back once per operation, however often this runs; what was moved, if it is still where it
    was moved to; what was run, while nobody has read it, out of the stream and back in one step.
    """
    told = ["gone"] * len(items)
    run = [at for at, item in enumerate(items) if item["action"] == "run"]
    rest = [at for at, item in enumerate(items) if item["action"] != "run"]
    for start in range(0, len(rest), AT_ONCE):
        some = rest[start : start + AT_ONCE]
        answers = yield [_restored(commands, keys, op, items[at]) for at in some]
        for at, answer in zip(some, answers, strict=True):
            told[at] = answer.decode()
    yield from _unrun(commands, keys, items, run, told)
    return told


def _restored(commands: Commands, keys: Keys, op: str, item: Item) -> Call:
    return commands.restore_delayed(
        keys,
        op,
        item["id"],
        bytes.fromhex(item["member"]),
        item["run_at_ms"],
        moved_to_ms=item.get("moved_to_ms"),
        index_ms=item["index_ms"],
        marker_ms=item["marker_ms"],
    )


def _unrun(
    commands: Commands, keys: Keys, items: Sequence[Item], places: Sequence[int], told: list[str]
) -> Flow[None]:
    members = {at: bytes.fromhex(items[at]["member"]) for at in places}
    marks = [(withdrawal.mark_of_member(members[at]) or Mark("", 0), items[at]["after"]) for at in places]
    found = yield from withdrawal.whereabouts(commands, keys, marks)
    for start in range(0, len(places), AT_ONCE):
        some = list(zip(places, found, strict=True))[start : start + AT_ONCE]
        entries = [(entry_id or "0-0", members[at], items[at]["run_at_ms"]) for at, entry_id in some]
        [answers] = yield [commands.withdraw(keys, entries)]
        back = [at for (at, _), answer in zip(some, answers, strict=True) if answer == 1]
        for (at, _), answer in zip(some, answers, strict=True):
            told[at] = ("gone", "restored", "already")[answer]
        if remembered := [at for at in back if items[at]["index_ms"]]:
            yield [
                commands.remember_index(keys, items[at]["id"], members[at], items[at]["index_ms"])
                for at in remembered
            ]
