"""Verdicts in the words people read: one sentence, and how far was looked. What is so is found out by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_cli.output.times import format_duration, format_iso

if TYPE_CHECKING:
    from chasqui.inspect.job_search import SearchCoverage
    from chasqui.inspect.job_state import (
        DeadState,
        DelayedState,
        DoneState,
        InFlightState,
        JobState,
        JobStateReport,
        ScheduleState,
        UnknownState,
        WaitingState,
    )
    from chasqui_cli.output.columns import Record

_STALE_AFTER_MS = 30_000
"""A job in flight shows a sign of life every ten seconds, and is taken over after thirty."""


def state_sentence(finding: JobState, now_ms: int) -> str:
    """What became of a job."""
    from chasqui.inspect.job_state import (
        DeadState,
        DelayedState,
        DoneState,
        InFlightState,
        PassedState,
        ScheduleState,
        WaitingState,
    )

    match finding:
        case WaitingState():
            return _waiting_text(finding)
        case InFlightState():
            return _in_flight_text(finding)
        case PassedState():
            return "passed over: it is still in the stream, but every group has read it and nobody will run it"
        case DelayedState():
            return _delayed_text(finding)
        case DeadState():
            return _dead_text(finding)
        case DoneState():
            return _done_text(finding, now_ms)
        case ScheduleState():
            return _scheduled_text(finding)
        case _:
            return _unknown_text(finding, now_ms)


def search_extent(looked: SearchCoverage) -> str:
    """How much of a place was looked at."""
    part = "all there was to look at" if looked.complete else "not all of it"
    return f"looked at {looked.scanned:,} of {looked.place}: {part}"


def state_headline(report: JobStateReport, queues: int = 1) -> str:
    """The state of a job, in a line. queues: how many were searched; if it is in none of several, no queue is named."""
    where = f"{queues:,} queues" if report.state == "unknown" and queues > 1 else report.queue
    return f"{report.job_id} in {where}: {state_sentence(report.primary, report.server_time_ms)}"


def _waiting_text(found: WaitingState) -> str:
    age = f"waiting for {format_duration(found.age_ms)}"
    if not found.has_group:
        return f"{age}, and no worker has ever read this queue"
    if found.behind is None:
        return f"{age}, behind more jobs than were counted"
    others = "1 other" if found.behind == 1 else f"{found.behind:,} others"
    return f"{age}, behind {others}" if found.behind else f"{age}, next in line"


def _in_flight_text(found: InFlightState) -> str:
    text = (
        f"in flight on {found.consumer} (group {found.group}), last sign of life {format_duration(found.idle_ms)} ago"
    )
    if found.deliveries > 1:
        text += f", delivered {found.deliveries} times"
    return f"{text}: its worker seems to be gone" if found.idle_ms > _STALE_AFTER_MS else text


def _delayed_text(found: DelayedState) -> str:
    if found.lag_ms:
        return f"delayed, and overdue by {format_duration(found.lag_ms)}: nobody has promoted it"
    return f"delayed until {format_iso(found.run_at_ms)}"


def _dead_text(found: DeadState) -> str:
    because = found.letter.reason or "an unknown reason"
    return f"dead because of {because}: {found.error}" if found.error else f"dead because of {because}"


def _done_text(found: DoneState, now_ms: int) -> str:
    text = "done"
    if found.completed and found.completed.event.ts is not None:
        text += f" {format_duration(max(0, now_ms - found.completed.event.ts))} ago"
    if found.completed and found.completed.event.duration_us is not None:
        text += f" after {format_duration(found.completed.event.duration_us // 1000)} of work"
    if found.result_bytes is None:
        return f"{text}; no result is kept"
    duration = "for ever" if found.result_ttl_ms is None else f"for {format_duration(found.result_ttl_ms)} more"
    return f"{text}; its result of {found.result_bytes:,} bytes is kept {duration}"


def _scheduled_text(found: ScheduleState) -> str:
    if found.lag_ms:
        return f"no job but a schedule, overdue by {format_duration(found.lag_ms)}"
    return f"no job but a schedule; it fires next at {format_iso(found.next_fire_ms)}"


def _unknown_text(found: UnknownState, now_ms: int) -> str:
    reach = (
        "there are no events"
        if found.events_since_ms is None
        else f"events reach back {format_duration(max(0, now_ms - found.events_since_ms))}"
    )
    if found.last:
        return f"unknown: the last that was told of it is {found.last.event.kind!r} ({reach})"
    used = "; its id was used for a delayed or unique job" if found.was_scheduled else ""
    return f"unknown: no trace of it where we looked ({reach}){used}"


def record_pattern_text(record: Record) -> str:
    """When a schedule fires, in words; an expression that cannot be read stands for itself."""
    from chasqui.cron import description
    from chasqui.errors import ConfigError

    pattern = record["pattern"]
    if pattern["interval_ms"] is not None:
        return f"every {format_duration(pattern['interval_ms'])}"
    if pattern["expression"] is None:
        return "?"
    try:
        text = description.describe(pattern["expression"])
    except ConfigError:
        return str(pattern["expression"])
    return f"{text} ({pattern['tz'] or 'UTC'})"


def pattern_text(pattern: Any) -> str:
    """The same of a pattern."""
    interval_ms, expression = getattr(pattern, "interval_ms", None), getattr(pattern, "expression", None)
    fields = {"interval_ms": interval_ms, "expression": expression, "tz": getattr(pattern, "tz", None)}
    return record_pattern_text({"pattern": fields})
