"""Flows that find, count, run, cancel and move delayed jobs. A job is always identified by its exact bytes, whether it was
delayed with an id or without, or cannot be decoded.

Moving what is due is the promoter's business; `undo/changed_delayed_jobs.py` takes changes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from chasqui.defaults import PromoterOptions
from chasqui.errors import ArgumentError
from chasqui.inspect import job_search
from chasqui.inspect.job_search import DelayedJob
from chasqui.inspect.snapshot import server_time_ms
from chasqui.server.commands import members_with_scores, parse_server_time
from chasqui.server.commands.replies import MAX_SCORE_MS, score_to_ms
from chasqui.server.flow import batches, call_in_batches
from chasqui.wire import delayed_member
from chasqui.wire.msgpack_codec import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow
    from chasqui.wire.keys import Keys

__all__ = ["Bucket", "DelayedJob", "DelayedScan", "Histogram"]

PAGE_SIZE = 500
BUCKET_WIDTHS_S = (
    1, 5, 10, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400,
)  # fmt: skip
"""The default widths of a histogram's buckets: round ones."""


class DelayedScan(NamedTuple):
    """Delayed jobs that were found, soonest first; how many were looked at, and whether those were all there are."""

    found: list[DelayedJob]
    scanned: int
    complete: bool


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


def find_delayed_jobs(
    commands: Commands,
    keys: Keys,
    matches: Callable[[DelayedJob], bool],
    *,
    from_ms: int | None = None,
    until_ms: int | None = None,
    max_scanned: int,
    max_matches: int | None = None,
) -> Flow[DelayedScan]:
    """Delayed jobs in the order they are due, within bounds of time and number.

    It goes on by due time, not by rank: what is promoted meanwhile makes it pass over nothing.
    """
    found: list[DelayedJob] = []
    looked, skip, least = 0, 0, -MAX_SCORE_MS if from_ms is None else from_ms
    most: int | str = "+inf" if until_ms is None else until_ms
    while looked < max_scanned and (max_matches is None or len(found) < max_matches):
        count = min(PAGE_SIZE, max_scanned - looked)
        first: int | str = "-inf" if least <= -MAX_SCORE_MS else least
        [reply] = yield [commands.delayed_between(keys, first, most, skip=skip, count=count)]
        rows = members_with_scores(reply)
        looked += len(rows)
        found += [one for data, due_ms in rows if matches(one := job_search.decode_delayed_job(data, due_ms))]
        if len(rows) < count:
            return DelayedScan(found[:max_matches], looked, complete=max_matches is None or len(found) <= max_matches)
        skip = sum(due_ms == rows[-1][1] for _, due_ms in rows) + (skip if rows[-1][1] == least else 0)
        least = rows[-1][1]
    return DelayedScan(found[:max_matches], looked, complete=False)


def delayed_jobs_by_id(commands: Commands, keys: Keys, job_ids: Sequence[str]) -> Flow[dict[str, DelayedJob]]:
    """Jobs that were scheduled with an id of their own, in two round trips however many there are."""
    indexed = yield [commands.read_delayed_index(keys, job_id)[0] for job_id in job_ids]
    known = [(job_id, data) for job_id, data in zip(job_ids, indexed, strict=True) if data is not None]
    if not known:
        return {}
    dues = yield [commands.delayed_due_time(keys, data) for _, data in known]
    return {
        job_id: job_search.decode_delayed_job(data, score_to_ms(due))
        for (job_id, data), due in zip(known, dues, strict=True)
        if due is not None
    }


def due_histogram(
    commands: Commands, keys: Keys, *, buckets: int, step_ms: int | None = None, until_ms: int | None = None
) -> Flow[Histogram]:
    """When jobs fall due, counted by the server: no job is read, and it takes two round trips.

    Buckets begin at whole multiples of their width, from the one that is now; what was due before is overdue.
    """
    clock, latest = yield [commands.server_time(), commands.latest_delayed(keys)]
    now_ms, rows = parse_server_time(clock), members_with_scores(latest)
    if not rows:
        return Histogram(now_ms, 0, (), 0)
    end_ms = min(rows[0][1], until_ms or MAX_SCORE_MS)
    return (yield from due_histogram_at(commands, keys, now_ms, end_ms, buckets=buckets, step_ms=step_ms))


def due_histogram_at(
    commands: Commands, keys: Keys, now_ms: int, end_ms: int, *, buckets: int, step_ms: int | None = None
) -> Flow[Histogram]:
    """The same in one round trip, if the time and roughly the last due time are known."""
    end_ms = max(now_ms, end_ms)
    step = step_ms or _bucket_width_ms(end_ms - now_ms, buckets)
    begin = now_ms // step * step
    edges = [begin + nth * step for nth in range(min(buckets, (end_ms - begin) // step + 1) + 1)]
    latest, overdue, *counts, later = yield [
        commands.latest_delayed(keys),
        commands.count_due_between(keys, "-inf", f"({now_ms}"),
        *(commands.count_due_between(keys, max(now_ms, a), f"({b}") for a, b in pairwise(edges)),
        commands.count_due_between(keys, edges[-1], "+inf"),
    ]
    counted = [Bucket(a, b, count) for (a, b), count in zip(pairwise(edges), counts, strict=True)]
    last = members_with_scores(latest)
    return Histogram(now_ms, overdue, tuple(counted), later, last[0][1] if last else None)


def _bucket_width_ms(span_ms: int, buckets: int) -> int:
    """The narrowest of the default widths that needs no more buckets."""
    fitting = (step_s * 1000 for step_s in BUCKET_WIDTHS_S if step_s * 1000 * (buckets - 1) >= span_ms)
    return next(fitting, span_ms // max(1, buckets - 1) + 1)


def run_now(
    commands: Commands, keys: Keys, members: Sequence[DelayedJob], *, events: bool = True
) -> Flow[list[str | None]]:
    """Move jobs to the stream at once, in this order; returns their entry ids, None for those that were gone."""
    from chasqui.schedule.promoter import waiting_events

    entries: list[str | None] = []
    for some in batches(members):
        replies = yield [_run_call(commands, keys, one) for one in some]
        entries += [None if reply is None else reply.decode() for reply in replies]
        moved = [one for one, reply in zip(some, replies, strict=True) if reply is not None]
        if events and moved:
            now_ms, cap = (yield from server_time_ms(commands)), PromoterOptions().events_cap
            yield waiting_events(commands, keys, [one.job_id for one in moved], now_ms, cap)
    return entries


def _run_call(commands: Commands, keys: Keys, member: DelayedJob) -> Call:
    if isinstance(member.job, Undecodable):
        raise ArgumentError("what is no job cannot be run", hint="cancel it instead; its bytes are kept")
    found = delayed_member.decode(member.member, len(member.member))
    return commands.run_delayed(keys, member.job.id, member.member, found.envelope_bytes, found.name_bytes)


def cancel_delayed_jobs(commands: Commands, keys: Keys, members: Sequence[DelayedJob]) -> Flow[list[bool]]:
    """Remove jobs by their exact bytes, and forget their ids; returns which were still there."""
    replies = yield from call_in_batches(
        members, lambda one: commands.cancel_delayed_member(keys, one.job_id, one.member)
    )
    return [bool(reply) for reply in replies]


def move_delayed_jobs(
    commands: Commands, keys: Keys, members: Sequence[DelayedJob], times: Sequence[int]
) -> Flow[list[bool]]:
    """Let jobs be due at other times; returns which were still there."""
    due = dict(zip((one.member for one in members), times, strict=True))
    replies = yield from call_in_batches(
        members, lambda one: commands.reschedule_delayed(keys, one.job_id, one.member, due[one.member])
    )
    return [bool(reply) for reply in replies]
