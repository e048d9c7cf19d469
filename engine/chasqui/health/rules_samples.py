"""Rules over samples: unreadable data, ghosts, consumers that are gone, runs that overlap, clocks that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.defaults import SchedulerOptions
from chasqui.health.findings import Finding, Level, chasqui_command, count_text, duration_text, run_rules
from chasqui.health.thresholds import SampleLimits
from chasqui.inspect.event_stats import percentile
from chasqui.wire import event_entry
from chasqui.wire.entry_fields import decode_name_exact
from chasqui.wire.entry_id import time_ms
from chasqui.wire.job_id import created_ms
from chasqui.wire.repeat_spec import Every, RepeatSpec, Skip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chasqui.health.samples import QueueSamples
    from chasqui.inspect.events import StoredEvent

DEFAULTS = SampleLimits()
MAX_IDS_SHOWN = 5
"""How many ids are listed as evidence, next to their count."""
MIN_MEMBER_BYTES = 4
_NEAR_CLAIM = 0.8
_RUN_ENDINGS = (event_entry.FAILED, event_entry.RETRY_SCHEDULED, event_entry.DLQ)


def check_samples(seen: QueueSamples, options: SampleLimits = DEFAULTS) -> list[Finding]:
    """Every problem that samples show beyond the snapshot, the worst first."""
    return run_rules(RULES, seen, options)


def _refused_reads(seen: QueueSamples, _: SampleLimits) -> Iterator[Finding]:
    for text in dict.fromkeys(seen.refused):
        yield Finding(
            Level.WARNING,
            "refused",
            f"the server refused a look: {text}",
            seen.snapshot.queue,
            {"error": text},
            "chasqui server status",
        )


def _undecodable(seen: QueueSamples, _: SampleLimits) -> Iterator[Finding]:
    """Unreadable data is wrong in the stream and among schedules; among the dead letters it is expected, and noted."""
    queue = seen.snapshot.queue
    places = {
        "stream": (Level.WARNING, "in the stream", chasqui_command("why", "ID", "--queue", queue)),
        "delayed": (Level.WARNING, "among the delayed jobs", chasqui_command("delayed", "list", queue)),
        "dlq": (Level.NOTE, "among the dead letters", chasqui_command("dlq", "peek", queue)),
    }
    for sample in seen.samples:
        if not sample.unreadable or sample.place not in places:
            continue
        level, where, fix = places[sample.place]
        first = sample.unreadable[0]
        yield Finding(
            level,
            "undecodable",
            f"{len(sample.unreadable):,} of {sample.sampled:,} looked at {where} cannot be read: {first.reason}",
            queue,
            {
                "place": sample.place,
                "looked": sample.sampled,
                "total": sample.total,
                "unreadable": len(sample.unreadable),
                "where": [one.location for one in sample.unreadable[:MAX_IDS_SHOWN]],
            },
            fix,
        )


def _garbage_members(seen: QueueSamples, _: SampleLimits) -> Iterator[Finding]:
    delayed = next((sample for sample in seen.samples if sample.place == "delayed"), None)
    short = [one for one in delayed.unreadable if one.size < MIN_MEMBER_BYTES] if delayed else []
    if short:
        yield Finding(
            Level.CRITICAL,
            "garbage-member",
            f"{count_text(len(short), 'delayed member is', 'delayed members are')} too short for a job;"
            " the released engine's promoters stop for good when one becomes due",
            seen.snapshot.queue,
            {"members": len(short), "due_ms": [one.location for one in short[:MAX_IDS_SHOWN]]},
            chasqui_command("promote", seen.snapshot.queue),
        )


def _bad_specs(seen: QueueSamples, _: SampleLimits) -> Iterator[Finding]:
    queue, tick_ms = seen.snapshot.queue, SchedulerOptions().tick_ms
    for one in seen.specs:
        if not isinstance(one.spec, RepeatSpec):
            yield Finding(
                Level.CRITICAL,
                "unreadable-spec",
                f"the schedule {one.key} cannot be read ({one.spec.reason}); the released engine's schedulers stop on it",
                queue,
                {"key": one.key, "fault": one.spec.reason},
                chasqui_command("repeatable", "remove", queue, one.key),
            )
            continue
        pattern = one.spec.pattern
        if isinstance(pattern, Every) and pattern.interval_ms < tick_ms and isinstance(one.spec.missed_fires, Skip):
            yield Finding(
                Level.WARNING,
                "too-frequent",
                f"the schedule {one.key} repeats every {pattern.interval_ms} ms, but schedulers look every"
                f" {tick_ms} ms and skip what they missed: it hardly ever fires",
                queue,
                {"key": one.key, "interval_ms": pattern.interval_ms, "tick_ms": tick_ms},
                chasqui_command("repeatable", "list", queue),
            )


def _ghosts(seen: QueueSamples, _: SampleLimits) -> Iterator[Finding]:
    for group in seen.groups:
        if group.ghosts:
            yield Finding(
                Level.WARNING,
                "ghosts",
                f"{count_text(len(group.ghosts), 'job is', 'jobs are')} in flight whose entry was deleted; they never end",
                seen.snapshot.queue,
                {
                    "group": group.name,
                    "ghosts": len(group.ghosts),
                    "looked": len(group.pending),
                    "ids": list(group.ghosts[:MAX_IDS_SHOWN]),
                },
                chasqui_command("workers", "prune", seen.snapshot.queue),
            )


def _gone_consumers(seen: QueueSamples, options: SampleLimits) -> Iterator[Finding]:
    for group in seen.groups:
        gone = [one for one in group.consumers if one.idle_ms >= options.gone_ms]
        if not gone:
            continue
        holding = sum(one.pending for one in gone)
        text = f"{count_text(len(gone), 'consumer')} asked for nothing since {duration_text(min(one.idle_ms for one in gone))}"
        yield Finding(
            Level.WARNING if holding else Level.NOTE,
            "gone-consumers",
            f"{text} and hold {count_text(holding, 'job')} in flight" if holding else text,
            seen.snapshot.queue,
            {
                "group": group.name,
                "consumers": len(gone),
                "pending": holding,
                "names": [decode_name_exact(one.name) for one in gone[:MAX_IDS_SHOWN]],
            },
            chasqui_command("workers", "claim" if holding else "prune", seen.snapshot.queue),
        )


def _redelivered(seen: QueueSamples, _: SampleLimits) -> Iterator[Finding]:
    again = [(group.name, one) for group in seen.groups for one in group.pending if one.deliveries > 1]
    if again:
        most = max(one.deliveries for _, one in again)
        yield Finding(
            Level.WARNING,
            "redelivered",
            f"{count_text(len(again), 'job')} in flight {'was' if len(again) == 1 else 'were'} delivered more than once,"
            f" up to {most} times: workers died over them or ran them too long",
            seen.snapshot.queue,
            {
                "jobs": len(again),
                "most_deliveries": most,
                "entry_ids": [one.entry_id.decode() for _, one in again[:MAX_IDS_SHOWN]],
            },
            chasqui_command("workers", "list", seen.snapshot.queue),
        )


def _long_runs(seen: QueueSamples, options: SampleLimits) -> Iterator[Finding]:
    durations = sorted(
        stored.event.duration_us
        for stored in seen.events
        if stored.event.kind == event_entry.COMPLETED and stored.event.duration_us is not None
    )
    if not durations:
        return
    p99_ms = int(percentile(durations, 0.99)) // 1000
    if p99_ms >= _NEAR_CLAIM * options.claim_ms:
        yield Finding(
            Level.WARNING,
            "long-runs",
            f"one run in a hundred takes {duration_text(p99_ms)} or more; the released engine's workers run a job again,"
            f" beside itself, after {duration_text(options.claim_ms)}",
            seen.snapshot.queue,
            {"p99_ms": p99_ms, "runs": len(durations), "claim_ms": options.claim_ms},
            chasqui_command("worker", "run", "MODULE:HANDLER", "--queue", seen.snapshot.queue),
        )


def _double_runs(seen: QueueSamples, _: SampleLimits) -> Iterator[Finding]:
    doubled = double_runs(seen.events)
    if doubled:
        yield Finding(
            Level.WARNING,
            "ran-twice",
            f"{count_text(len(doubled), 'attempt')} of a job began twice with no failure between:"
            " two workers ran it, or one died over it",
            seen.snapshot.queue,
            {"attempts": len(doubled), "job_ids": [job_id for job_id, _ in doubled[:MAX_IDS_SHOWN]]},
            chasqui_command("why", doubled[0][0], "--queue", seen.snapshot.queue),
        )


def double_runs(events: Sequence[StoredEvent]) -> list[tuple[str, int | None]]:
    """Attempts that became active twice. A user's own id may be added again once its job is done."""
    active: dict[str, set[int | None]] = {}
    doubled: dict[tuple[str, int | None], None] = {}
    for event in (stored.event for stored in events):
        if event.job_id is None:
            continue
        if event.kind == event_entry.ACTIVE:
            begun = active.setdefault(event.job_id, set())
            if event.attempt in begun:
                doubled[event.job_id, event.attempt] = None
            begun.add(event.attempt)
        elif event.kind in _RUN_ENDINGS or (event.kind == event_entry.COMPLETED and created_ms(event.job_id) is None):
            active.pop(event.job_id, None)
    return list(doubled)


def _worker_clock(seen: QueueSamples, options: SampleLimits) -> Iterator[Finding]:
    """A worker writes its own time into an event; the time in the entry's id is the server's."""
    apart = [stored.event.ts - time_ms(stored.entry_id) for stored in seen.events if stored.event.ts is not None]
    skew_ms = max(apart, key=abs, default=0)
    if abs(skew_ms) >= options.skew_ms:
        ahead = "ahead of" if skew_ms > 0 else "behind"
        yield Finding(
            Level.WARNING,
            "worker-clock",
            f"a worker's clock is {duration_text(abs(skew_ms))} {ahead} the server's",
            seen.snapshot.queue,
            {"skew_ms": skew_ms, "events": len(apart)},
            "timedatectl set-ntp true",
        )


RULES = (
    _refused_reads,
    _undecodable,
    _garbage_members,
    _bad_specs,
    _ghosts,
    _gone_consumers,
    _redelivered,
    _long_runs,
    _double_runs,
    _worker_clock,
)
