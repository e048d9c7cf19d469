"""Verdicts in the words people read: one sentence, and how far was looked. What is so is found out by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.times import iso, span

if TYPE_CHECKING:
    from chasqui.search import Looked
    from chasqui.verdict import Dead, Delayed, Done, Finding, InFlight, Scheduled, Unknown, Verdict, Waiting

_CALM_MS = 30_000
"""A job in flight shows a sign of life every ten seconds, and is taken over after thirty."""


def sentence(finding: Finding, now_ms: int) -> str:
    """What became of a job."""
    from chasqui.verdict import Dead, Delayed, Done, InFlight, Passed, Scheduled, Waiting

    match finding:
        case Waiting():
            return _waiting(finding)
        case InFlight():
            return _in_flight(finding)
        case Passed():
            return (
                "passed over: it is still in the stream, but every group has read it and nobody will run it"
            )
        case Delayed():
            return _delayed(finding)
        case Dead():
            return _dead(finding)
        case Done():
            return _done(finding, now_ms)
        case Scheduled():
            return _scheduled(finding)
        case _:
            return _unknown(finding, now_ms)


def how_far(looked: Looked) -> str:
    """How much of a place was looked at."""
    part = "all there was to look at" if looked.complete else "not all of it"
    return f"looked at {looked.entries:,} of {looked.place}: {part}"


def headline(verdict: Verdict, queues: int = 1) -> str:
    """The verdict on a job, in a line. queues: how many were looked into; where it is none of them, no one is named."""
    where = f"{queues:,} queues" if verdict.state == "unknown" and queues > 1 else verdict.queue
    return f"{verdict.job_id} in {where}: {sentence(verdict.finding, verdict.server_time_ms)}"


def _waiting(found: Waiting) -> str:
    age = f"waiting for {span(found.age_ms)}"
    if not found.has_group:
        return f"{age}, and no worker has ever read this queue"
    if found.behind is None:
        return f"{age}, behind more jobs than were counted"
    others = "1 other" if found.behind == 1 else f"{found.behind:,} others"
    return f"{age}, behind {others}" if found.behind else f"{age}, next in line"


def _in_flight(found: InFlight) -> str:
    told = f"in flight on {found.consumer} (group {found.group}), last sign of life {span(found.idle_ms)} ago"
    if found.deliveries > 1:
        told += f", delivered {found.deliveries} times"
    return f"{told}: its worker seems to be gone" if found.idle_ms > _CALM_MS else told


def _delayed(found: Delayed) -> str:
    if found.lag_ms:
        return f"delayed, and overdue by {span(found.lag_ms)}: nobody has promoted it"
    return f"delayed until {iso(found.run_at_ms)}"


def _dead(found: Dead) -> str:
    because = found.letter.reason or "an unknown reason"
    return f"dead because of {because}: {found.error}" if found.error else f"dead because of {because}"


def _done(found: Done, now_ms: int) -> str:
    told = "done"
    if found.completed and found.completed.event.ts is not None:
        told += f" {span(max(0, now_ms - found.completed.event.ts))} ago"
    if found.completed and found.completed.event.duration_us is not None:
        told += f" after {span(found.completed.event.duration_us // 1000)} of work"
    if found.result_bytes is None:
        return f"{told}; no result is kept"
    kept = "for ever" if found.result_ttl_ms is None else f"for {span(found.result_ttl_ms)} more"
    return f"{told}; its result of {found.result_bytes:,} bytes is kept {kept}"


def _scheduled(found: Scheduled) -> str:
    if found.lag_ms:
        return f"no job but a schedule, overdue by {span(found.lag_ms)}"
    return f"no job but a schedule; it fires next at {iso(found.next_fire_ms)}"


def _unknown(found: Unknown, now_ms: int) -> str:
    reach = (
        "there are no events"
        if found.events_since_ms is None
        else f"events reach back {span(max(0, now_ms - found.events_since_ms))}"
    )
    if found.last:
        return f"unknown: the last that was told of it is {found.last.event.kind!r} ({reach})"
    used = "; its id was used for a delayed or unique job" if found.was_scheduled else ""
    return f"unknown: no trace of it where we looked ({reach}){used}"
