"""Makes jobs of due specs: each is planned, and the plans are executed by a flow.

When a pattern is due is computed in `fire_times.py`; the scheduler looks for due specs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chasqui.errors import ChasquiError, ServerError, WireError
from chasqui.schedule.fire_times import plan_fires
from chasqui.server.commands import Commands, FireResult, PlannedFire, StoredSpec
from chasqui.wire import envelope, job_id, repeat_spec
from chasqui.wire.entry_fields import printable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chasqui.schedule.fire_times import FirePlan
    from chasqui.server.flow import Call, Flow, Reply
    from chasqui.wire.keys import Keys
    from chasqui.wire.repeat_spec import RepeatSpec

MAX_CHUNK_JOBS = 1000
"""How many jobs one script adds, and one round trip carries: the server does nothing else meanwhile."""

MAX_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SpecFirePlan:
    """A spec that was due at `due_ms`, and what to fire of it."""

    key: str
    spec: RepeatSpec
    due_ms: int
    fires: FirePlan


@dataclass(frozen=True, slots=True)
class BadSpec:
    """A spec that is due and cannot be fired, and why. It stays unchanged."""

    key: str
    reason: str


def plan_spec(found: StoredSpec, now_ms: int, tick_ms: int) -> SpecFirePlan | BadSpec:
    """The plan for one due spec. An error in it is a result, so that it stops no other spec."""
    try:
        return _spec_fire_plan(found, now_ms, tick_ms)
    except (ChasquiError, ArithmeticError, ValueError) as error:
        return BadSpec(printable_name(found.key), str(error))


def fire_specs(
    commands: Commands, keys: Keys, plans: Sequence[SpecFirePlan], now_ms: int, *, cap: int | None = None
) -> Flow[list[FireResult | ServerError]]:
    """Execute plans; returns the result of each. An error there leaves its spec unchanged.

    Run twice, nothing fires twice: the first run has moved the due time that the second one checks. A plan of
    many jobs goes in chunks, each of which leaves the spec due at the first time of the next.
    """
    outcomes: list[FireResult | ServerError] = [FireResult(0, removed=False) for _ in plans]
    for trip in _round_trips(commands, keys, plans, now_ms, cap):
        replies = yield [chunk.call for chunk in trip]
        for chunk, reply in zip(trip, replies, strict=True):
            outcomes[chunk.place] = _merge_result(outcomes[chunk.place], reply)
    return outcomes


@dataclass(frozen=True, slots=True)
class _FireChunk:
    place: int
    fires: int
    call: Call


def _spec_fire_plan(found: StoredSpec, now_ms: int, tick_ms: int) -> SpecFirePlan:
    spec = _decode_spec(found)
    plan = plan_fires(
        spec.pattern, spec.missed_fires, found.next_ms, now_ms, start_after_ms=spec.start_after_ms, tick_ms=tick_ms
    )
    if spec.end_before_ms:  # missed times are made up for, but none that lies after the spec's own end
        times = tuple(at_ms for at_ms in plan.fire_at_ms if at_ms <= spec.end_before_ms)
        plan = replace(plan, fire_at_ms=times)
    return SpecFirePlan(found.key.decode(), spec, found.next_ms, plan)


def _decode_spec(found: StoredSpec) -> RepeatSpec:
    if found.read_error:
        raise WireError(found.read_error, b"")
    if found.data is None:
        raise WireError("its hash is gone or holds no spec", b"")
    if found.next_ms < 0:
        raise WireError(f"it is due at {found.next_ms}, which is no time", b"")
    return repeat_spec.decode(found.data, len(found.data))


def _round_trips(
    commands: Commands, keys: Keys, plans: Sequence[SpecFirePlan], now_ms: int, cap: int | None
) -> Iterator[list[_FireChunk]]:
    """Chunks by round trip, made as they are needed: all at once could be gigabytes."""
    trip: list[_FireChunk] = []
    room = 1.0
    for place, plan in enumerate(plans):
        share = 1 / _jobs_per_chunk(plan.spec)
        for chunk in _fire_chunks(commands, keys, place, plan, now_ms, cap):
            trip.append(chunk)
            room -= (1 + chunk.fires) * share
            if room <= 0:
                yield trip
                trip, room = [], 1.0
    if trip:
        yield trip


def _fire_chunks(
    commands: Commands, keys: Keys, place: int, plan: SpecFirePlan, now_ms: int, cap: int | None
) -> Iterator[_FireChunk]:
    size, times = _jobs_per_chunk(plan.spec), plan.fires.fire_at_ms
    for start in range(0, max(1, len(times)), size):
        now, later = times[start : start + size], times[start + size : start + size + 1]
        call = commands.fire_repeat(
            keys,
            plan.key,
            _build_jobs(plan.spec, now, now_ms),
            due_ms=now[0] if start else plan.due_ms,
            next_ms=later[0] if later else plan.fires.next_ms,
            limit=plan.spec.limit,
            end_before_ms=plan.spec.end_before_ms,
            cap=cap,
        )
        yield _FireChunk(place, len(now), replace(call, tolerant=True))


def _jobs_per_chunk(spec: RepeatSpec) -> int:
    return max(1, min(MAX_CHUNK_JOBS, MAX_CHUNK_BYTES // (1 + len(spec.payload.raw))))


def _build_jobs(spec: RepeatSpec, times: Iterable[int], now_ms: int) -> list[PlannedFire]:
    """A job per time, each with an id of its own and the spec's payload, byte for byte."""
    dated = list(times)
    made = (
        envelope.Envelope(job_id, spec.payload, now_ms, retry=spec.retry)
        for job_id in job_id.new_job_ids(len(dated), now_ms)
    )
    return [
        PlannedFire(at_ms, envelope.encode(job, exact_payload=True), spec.job_name)
        for at_ms, job in zip(dated, made, strict=True)
    ]


def _merge_result(before: FireResult | ServerError, reply: Reply) -> FireResult | ServerError:
    """The result of a plan with one more chunk. After an error, the end of the spec or another scheduler's fire the
    next chunks find nothing.
    """
    if isinstance(before, ServerError) or before.stale:
        return before
    if isinstance(reply, ServerError):
        return reply
    fired = FireResult.from_reply(reply)
    if fired.stale:
        return before if before.count or before.removed else fired
    return FireResult(before.count + fired.count, fired.removed)
