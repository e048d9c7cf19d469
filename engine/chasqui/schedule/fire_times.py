"""The plan of fires: which times of a repeatable job are due now, and when it is due again. Pure arithmetic.

The scheduler reads a spec, plans here, and passes the plan to one script. The script checks limits and ends, because
only it reads and changes the counter atomically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui import cron
from chasqui.errors import ArgumentError, ConfigError
from chasqui.wire.repeat_spec import Every, FireAll, FireOnce, MissedFires, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_FIRES = 10_000
MAX_STEPS = 100_000
RESUME_AFTER_MS = 60_000


@dataclass(frozen=True, slots=True)
class FirePlan:
    """One spec, one tick: the jobs to make, dated as they should have run, and what is given up.

    next_ms: when the spec is due again; None when its pattern names no further time.
    lost: how many due times get no job (at least; the search for them ends somewhere).
    """

    fire_at_ms: tuple[int, ...]
    next_ms: int | None
    lost: int = 0


def first_fire(
    pattern: Pattern, now_ms: int, start_after_ms: int | None = None, end_before_ms: int | None = None
) -> int:
    """When a spec stored now is due for the first time; ConfigError if it would never fire."""
    first = _next_strictly_after(pattern, _search_start(now_ms, start_after_ms))
    if end_before_ms is not None and first > end_before_ms:
        raise ConfigError(
            "repeat spec end_before_ms is before the first fire",
            hint="let it end later, or start earlier; an interval fires for the first time when it has passed once",
        )
    return first


def plan_fires(
    pattern: Pattern,
    policy: MissedFires,
    due_ms: int,
    now_ms: int,
    *,
    start_after_ms: int | None = None,
    tick_ms: int = 1000,
) -> FirePlan:
    """What to fire of a spec that was due at `due_ms`.

    While the time after it has not passed, it is simply late: one job. When others have passed too, the policy
    decides. Skip is meant for outages, so a scheduler that keeps its ticks does not skip: an interval shorter than
    a tick still fires once per tick. Two ticks are the mark, because a tick can be late itself.
    """
    following = _next_or_none(pattern, due_ms, start_after_ms)
    if following is None or following >= now_ms:
        return FirePlan((due_ms,), following)
    wanted = _max_fires(policy, late=now_ms - due_ms > 2 * tick_ms)
    fires, count, next_ms = _missed_times(pattern, due_ms, now_ms, start_after_ms, wanted)
    return FirePlan(tuple(fires), next_ms, count - len(fires))


def upcoming_fires(
    pattern: Pattern, due_ms: int, most: int, *, start_after_ms: int | None = None, end_before_ms: int | None = None
) -> Iterator[int]:
    """The fires to come, the first of them at `due_ms`, as a scheduler that keeps its ticks will make them."""
    at_ms: int | None = due_ms
    for _ in range(most):
        if at_ms is None or (end_before_ms and at_ms > end_before_ms):
            return
        yield at_ms
        at_ms = _next_or_none(pattern, at_ms, start_after_ms)


def _max_fires(policy: MissedFires, *, late: bool) -> int:
    if isinstance(policy, FireAll):
        return min(policy.max_catchup, MAX_FIRES)
    return 1 if isinstance(policy, FireOnce) or not late else 0


def _missed_times(
    pattern: Pattern, due_ms: int, now_ms: int, start_after_ms: int | None, wanted: int
) -> tuple[Sequence[int], int, int | None]:
    """The first due times up to now, as many as are wanted; how many there were; and the first one to come."""
    if isinstance(pattern, Every):
        times = range(due_ms, now_ms + 1, _checked_interval_ms(pattern))
        return times[:wanted], len(times), times[-1] + times.step
    schedule = cron.parse_cron(pattern.expression, pattern.tz)
    first, count, last = [due_ms], 1, due_ms
    while count <= MAX_STEPS:
        following = _next_or_none(pattern, last, start_after_ms)
        if following is None or following > now_ms:
            return first[:wanted], count, following
        last, count = following, count + 1
        if count <= wanted:
            first.append(last)
        else:
            leapt, last = schedule.skip_within_day(last, now_ms)
            count += leapt
    return first[:wanted], MAX_STEPS + 1, now_ms + RESUME_AFTER_MS


def _next_or_none(pattern: Pattern, after_ms: int, start_after_ms: int | None) -> int | None:
    try:
        return _next_strictly_after(pattern, _search_start(after_ms, start_after_ms))
    except cron.NoSuchTimeError:
        return None


def _next_strictly_after(pattern: Pattern, start: int) -> int:
    if isinstance(pattern, Every):
        return start + _checked_interval_ms(pattern)
    return cron.parse_cron(pattern.expression, pattern.tz).next_after(start)


def _search_start(from_ms: int, start_after_ms: int | None) -> int:
    return max(from_ms, start_after_ms or from_ms)


def _checked_interval_ms(pattern: Every) -> int:
    if pattern.interval_ms <= 0:
        raise ArgumentError("pattern.interval_ms must be > 0")
    return pattern.interval_ms
