"""The arguments of queues and tools, checked and turned into what the flows take. Errors use the reference's words.

Only types and bounds are checked here; what depends on the server is checked by the flows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui.errors import ArgumentError
from chasqui.models import BackoffSpec, MissedFiresPolicy, RepeatableMeta, RepeatPattern
from chasqui.produce.batch import DEFAULT_JOB_OPTIONS, JobOptions
from chasqui.server.commands import DelayFromNow
from chasqui.wire import payload
from chasqui.wire.msgpack_codec import U32_MAX, U64_MAX, Undecodable
from chasqui.wire.repeat_spec import Cron, Every, FireAll, FireOnce, RepeatSpec, Skip
from chasqui.wire.retry_override import Backoff, RetryOverride, check_backoff

if TYPE_CHECKING:
    from chasqui.schedule.repeatable import ListedSpec
    from chasqui.server.commands import DueTime
    from chasqui.wire.repeat_spec import MissedFires, Pattern

DelayMs = int | float | datetime | timedelta
"""Milliseconds from now, or a moment (one without a zone is in UTC), or a span of time."""
BackoffLike = int | BackoffSpec | Mapping[str, Any]
"""A fixed wait in ms, a spec, or a spec's fields by name."""
_JOB_OPTION_NAMES = ("delay_ms", "delay", "attempts", "backoff", "job_id")
RepeatLike = RepeatPattern | Mapping[str, Any]
MissedFiresLike = MissedFiresPolicy | Mapping[str, Any]


class JobRequest(NamedTuple):
    """One job a caller wants: its id if it has one of its own, and its terms if it has any."""

    name: str
    data: Any
    job_id: str | None
    options: JobOptions | None

    def as_unique(self) -> JobRequest:
        """The same job, added only if its id was never used by any producer."""
        return self._replace(options=replace(self.options or DEFAULT_JOB_OPTIONS, unique=True))


def job_request(
    name: str,
    data: Any,
    *,
    delay_ms: DelayMs | None = None,
    delay: timedelta | None = None,
    attempts: int | None = None,
    backoff: BackoffLike | None = None,
    job_id: str | None = None,
) -> JobRequest:
    """A job as `Queue.add` and the mappings of `Queue.add_bulk` describe it."""
    if job_id is not None:
        check_job_id(job_id, "add")
    retry = None if attempts is None and backoff is None else parse_retry(attempts, backoff)
    terms = JobOptions(has_own_id=job_id is not None, retry=retry, due=parse_due(delay_ms, delay))
    return JobRequest(name, data, job_id, None if terms == DEFAULT_JOB_OPTIONS else terms)


def job_request_from_mapping(job: Mapping[str, Any]) -> JobRequest:
    """One job of many."""
    options: dict[str, Any] = {option: job.get(option) for option in _JOB_OPTION_NAMES}
    return job_request(job.get("name", ""), job["data"], **options)


def check_job_id(job_id: object, method_name: str) -> None:
    """A caller's id, before anything is made of it."""
    if not isinstance(job_id, str) or not job_id.strip():
        raise ArgumentError(f"Queue.{method_name}: job_id must be a non-empty, non-whitespace string")


def parse_due(delay_ms: DelayMs | None, delay: timedelta | None) -> DueTime | None:
    """When a job is due: None for at once, else a delay for the server to count, or a moment."""
    if delay_ms is None and delay is None:
        return None
    if delay_ms is not None and delay is not None:
        raise ArgumentError("delay_ms and delay say the same thing: give one of them")
    if delay is not None and not isinstance(delay, timedelta):
        raise TypeError(f"delay must be a datetime.timedelta; got {type(delay).__name__}")
    given = delay_ms if delay is None else delay
    if isinstance(given, datetime):
        return math.floor(given.replace(tzinfo=given.tzinfo or UTC).timestamp() * 1000)
    milliseconds = _to_ms(given)
    return DelayFromNow(milliseconds) if milliseconds else None


def _to_ms(given: Any) -> int:
    if isinstance(given, timedelta):
        given = given // timedelta(milliseconds=1)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"delay_ms must be int, float, timedelta or datetime; got {type(given).__name__}")
    if not math.isfinite(given) or given < 0:
        raise ArgumentError(f"delay_ms must be non-negative, got {given}")
    return int(given)


def parse_retry(attempts: int | None, backoff: BackoffLike | None) -> RetryOverride:
    """What a job does differently from its queue."""
    if attempts is not None and not _is_count(attempts, U32_MAX):
        raise ArgumentError("retry.max_attempts must be a non-negative int")
    return RetryOverride(attempts, None if backoff is None else parse_backoff(backoff))


def parse_backoff(given: BackoffLike) -> Backoff:
    """How long to wait between attempts."""
    if isinstance(given, bool) or not isinstance(given, int | BackoffSpec | Mapping):
        raise TypeError(f"backoff must be int (ms), BackoffSpec or dict; got {type(given).__name__}")
    if isinstance(given, int):
        given = BackoffSpec.fixed(given)
    fields = given.to_dict() if isinstance(given, BackoffSpec) else dict(given)
    for name in ("kind", "delay_ms"):
        _required(fields, "backoff", name)
    for name in ("delay_ms", "max_delay_ms", "jitter_ms"):
        if fields.get(name) is not None and not _is_count(fields[name], U64_MAX):
            raise ArgumentError(f"backoff.{name} must be a non-negative int")
    multiplier = fields.get("multiplier")
    if multiplier is not None and (isinstance(multiplier, bool) or not isinstance(multiplier, int | float)):
        raise ArgumentError("backoff.multiplier must be a number")
    values = (fields.get(name) for name in ("max_delay_ms", "multiplier", "jitter_ms"))
    return check_backoff(Backoff(fields["kind"], fields["delay_ms"], *values))


def parse_repeat_spec(
    name: str | None,
    data: Any,
    repeat: RepeatLike,
    missed_fires: MissedFiresLike | None = None,
    *,
    limit: int | None = None,
    start_after_ms: int | None = None,
    end_before_ms: int | None = None,
) -> RepeatSpec:
    """A repeatable job, its key still to be made."""
    bounds: dict[str, Any] = {"limit": limit, "start_after_ms": start_after_ms, "end_before_ms": end_before_ms}
    for bound, value in bounds.items():
        if value is not None and not _is_count(value, U64_MAX):
            raise ArgumentError(f"{bound} must be a non-negative int")
    policy = Skip() if missed_fires is None else parse_missed_fires(missed_fires)
    if name is not None and not isinstance(name, str):
        raise ArgumentError("spec.job_name must be a string")
    return RepeatSpec("", name or "", parse_pattern(repeat), payload.from_data(data), missed_fires=policy, **bounds)


def parse_pattern(given: RepeatLike) -> Pattern:
    """When a repeatable job fires."""
    if not isinstance(given, RepeatPattern | Mapping):
        raise TypeError(f"repeat must be a RepeatPattern or a dict; got {type(given).__name__}")
    fields = given.to_dict() if isinstance(given, RepeatPattern) else given
    if fields.get("kind") == "cron":
        return Cron(_required(fields, "pattern", "expression"), fields.get("tz"))
    if fields.get("kind") == "every":
        return Every(_to_int(_required(fields, "pattern", "interval_ms"), "pattern.interval_ms"))
    raise ArgumentError(f"a repeat pattern is of kind 'cron' or 'every', not {fields.get('kind')!r}")


def parse_missed_fires(given: MissedFiresLike) -> MissedFires:
    """What becomes of missed fires."""
    if not isinstance(given, MissedFiresPolicy | Mapping):
        raise TypeError(f"missed_fires must be a MissedFiresPolicy or a dict; got {type(given).__name__}")
    fields = given.to_dict() if isinstance(given, MissedFiresPolicy) else given
    kind, most = fields.get("kind"), fields.get("max_catchup")
    if kind in ("skip", "fire-once"):
        return Skip() if kind == "skip" else FireOnce()
    if kind != "fire-all":
        raise ArgumentError(f"unknown missed-fires kind \"{kind}\"; expected 'skip' / 'fire-once' / 'fire-all'")
    if most is None:
        raise ArgumentError("missed_fires.max_catchup is required when kind is 'fire-all'")
    return FireAll(_to_int(most, "missed_fires.max_catchup"))


def check_no_missed_fires(missed_fires: MissedFiresLike | None) -> None:
    """Only a schedule can miss a fire."""
    if missed_fires is not None:
        raise ArgumentError("missed_fires says nothing without repeat: give both, or neither")


def to_repeatable_meta(found: ListedSpec) -> RepeatableMeta | None:
    """A listed spec as callers know it; None if it cannot be read, as the reference leaves it out."""
    spec = found.spec
    if isinstance(spec, Undecodable):
        return None
    return RepeatableMeta(
        found.key,
        spec.job_name,
        _to_repeat_pattern(spec.pattern),
        found.next_ms,
        spec.limit,
        spec.start_after_ms,
        spec.end_before_ms,
        _to_missed_fires_policy(spec.missed_fires),
    )


def _to_repeat_pattern(pattern: Pattern) -> RepeatPattern:
    if isinstance(pattern, Every):
        return RepeatPattern.every(pattern.interval_ms)
    return RepeatPattern.cron(pattern.expression, tz=pattern.tz)


def _to_missed_fires_policy(policy: MissedFires) -> MissedFiresPolicy | None:
    if isinstance(policy, FireAll):
        return MissedFiresPolicy("fire-all", policy.max_catchup)
    return MissedFiresPolicy.fire_once() if isinstance(policy, FireOnce) else None


def _required(fields: Mapping[str, Any], label: str, name: str) -> Any:
    if fields.get(name) is None:
        raise ArgumentError(f"{label}.{name} is required")
    return fields[name]


def _to_int(given: Any, label: str) -> int:
    try:
        return int(given)
    except (ValueError, TypeError, OverflowError):
        raise ArgumentError(f"{label} must be an int; got {given!r}") from None


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
