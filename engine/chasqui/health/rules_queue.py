"""Rules over a snapshot: keys, groups, leaders, ages, depths and caps."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from chasqui.health.findings import (
    Finding,
    Level,
    chasqui_command,
    count_text,
    duration_text,
    fill_percent,
    level_of,
    run_rules,
)
from chasqui.health.thresholds import HealthThresholds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.inspect.snapshot import LockHolder, Snapshot

DEFAULTS = HealthThresholds()


def check_queue(snapshot: Snapshot, limits: HealthThresholds = DEFAULTS) -> list[Finding]:
    """Every problem that a snapshot shows, the worst first."""
    return run_rules(RULES, snapshot, limits)


def _wrong_types(seen: Snapshot, _: HealthThresholds) -> Iterator[Finding]:
    for wrong in seen.wrong:
        aside = shlex.join(["redis-cli", "RENAME", wrong.key, f"{wrong.key}.aside"])
        yield Finding(
            Level.CRITICAL,
            "wrong-type",
            f"{wrong.key} holds a {wrong.found} where a {wrong.expected} belongs; nothing that uses it works",
            seen.queue,
            {"key": wrong.key, "found": wrong.found, "expected": wrong.expected},
            aside,
        )


def _endless_locks(seen: Snapshot, _: HealthThresholds) -> Iterator[Finding]:
    locks = (("promoter", "promote", seen.promoter_lock), ("scheduler", "schedule", seen.scheduler_lock))
    for role, verb, lock in locks:
        if lock and lock.ttl_ms is None:
            yield Finding(
                Level.CRITICAL,
                "endless-lock",
                f"the {role} lock of {lock.holder} never ends; once its holder is gone nobody else can lead",
                seen.queue,
                {"role": role, "holder": lock.holder},
                chasqui_command(verb, seen.queue, "--force-unlock"),
            )


def _worker_rules(seen: Snapshot, limits: HealthThresholds) -> Iterator[Finding]:
    run = chasqui_command("worker", "run", "MODULE:HANDLER", "--queue", seen.queue)
    evidence = {"waiting": seen.waiting, "consumers": seen.consumers, "groups": len(seen.groups)}
    if limits.needs_workers and seen.waiting and not seen.groups:
        text = f"{count_text(seen.waiting, 'job waits', 'jobs wait')} and no consumer group exists: no worker has ever read here, or its group was deleted"
        yield Finding(Level.CRITICAL, "no-group", text, seen.queue, evidence, run)
    elif limits.needs_workers and seen.waiting and not seen.consumers:
        text = f"{count_text(seen.waiting, 'job waits', 'jobs wait')} and there are no workers"
        yield Finding(Level.CRITICAL, "no-workers", text, seen.queue, evidence, run)
    level = level_of(limits.idle_ms, seen.longest_idle_ms) if seen.pending else None
    if level:
        yield Finding(
            level,
            "abandoned",
            f"{count_text(seen.pending, 'job')} in flight, one untouched for {duration_text(seen.longest_idle_ms)}:"
            " its worker is gone and nobody has taken it over",
            seen.queue,
            {"pending": seen.pending, "longest_idle_ms": seen.longest_idle_ms},
            chasqui_command("workers", "claim", seen.queue),
        )


def _backlog(seen: Snapshot, limits: HealthThresholds) -> Iterator[Finding]:
    if level := level_of(limits.waiting, seen.waiting):
        text = f"{count_text(seen.waiting, 'job waits', 'jobs wait')}"
        yield Finding(
            level, "backlog", text, seen.queue, {"waiting": seen.waiting}, chasqui_command("watch", seen.queue)
        )
    if level := level_of(limits.age_ms, seen.oldest_waiting_ms):
        text = f"the oldest waiting job has waited for {duration_text(seen.oldest_waiting_ms)}"
        evidence = {"oldest_waiting_ms": seen.oldest_waiting_ms, "waiting": seen.waiting}
        yield Finding(level, "old-backlog", text, seen.queue, evidence, chasqui_command("workers", "list", seen.queue))


def _late_delayed(seen: Snapshot, limits: HealthThresholds) -> Iterator[Finding]:
    lag_ms = seen.oldest_delayed_lag_ms if seen.delayed_due else 0
    late = f"{count_text(seen.delayed_due, 'delayed job is', 'delayed jobs are')} overdue, by up to {duration_text(lag_ms)}"
    evidence = {"delayed_due": seen.delayed_due, "oldest_delayed_lag_ms": lag_ms}
    if _has_no_leader(seen.promoter_lock, lag_ms, limits):
        text = f"{late}, and nobody promotes"
        fix = chasqui_command("promote", seen.queue, "--follow")
        yield Finding(Level.CRITICAL, "no-promoter", text, seen.queue, evidence, fix)
    elif level := level_of(limits.delayed_lag_ms, lag_ms):
        yield Finding(level, "delayed-late", late, seen.queue, evidence, chasqui_command("promote", seen.queue))


def _late_schedules(seen: Snapshot, limits: HealthThresholds) -> Iterator[Finding]:
    first, overdue = seen.next_repeat_ms, seen.repeatable_overdue
    lag_ms = max(0, seen.server_time_ms - first) if first is not None and overdue else 0
    late = (
        f"{count_text(overdue, 'repeatable job is', 'repeatable jobs are')} overdue, by up to {duration_text(lag_ms)}"
    )
    evidence = {"repeatable_overdue": overdue, "oldest_repeat_lag_ms": lag_ms}
    if _has_no_leader(seen.scheduler_lock, lag_ms, limits):
        text = f"{late}, and nobody schedules"
        fix = chasqui_command("schedule", seen.queue, "--follow")
        yield Finding(Level.CRITICAL, "no-scheduler", text, seen.queue, evidence, fix)
    elif level := level_of(limits.repeat_lag_ms, lag_ms):
        yield Finding(level, "cron-overdue", late, seen.queue, evidence, chasqui_command("schedule", seen.queue))


def _has_no_leader(lock: LockHolder | None, lag_ms: int, limits: HealthThresholds) -> bool:
    return limits.needs_leaders and lock is None and lag_ms >= max(1, limits.grace_ms)


def _dead_letters(seen: Snapshot, limits: HealthThresholds) -> Iterator[Finding]:
    if level := level_of(limits.dlq, seen.dlq_depth):
        text = f"{count_text(seen.dlq_depth, 'dead letter')}"
        evidence = {"dlq_depth": seen.dlq_depth}
        yield Finding(level, "dead-letters", text, seen.queue, evidence, chasqui_command("dlq", "groups", seen.queue))


def _nearly_full(seen: Snapshot, limits: HealthThresholds) -> Iterator[Finding]:
    """The events are left out: that stream is full all the time, and meant to be."""
    for name, length, cap, lost, verb in (
        ("stream", seen.stream_depth, seen.caps.stream, "unread jobs", ("workers", "list")),
        ("dead-letter stream", seen.dlq_depth, seen.caps.dlq, "the oldest letters", ("dlq", "export")),
    ):
        full = fill_percent(cap, length)
        if level := level_of(limits.full_percent, full):
            yield Finding(
                level,
                "nearly-full",
                f"the {name} is {full} % full; beyond its cap the released engine deletes {lost}",
                seen.queue,
                {"place": name, "length": length, "cap": cap, "percent": full},
                chasqui_command(*verb, seen.queue),
            )


RULES = (
    _wrong_types,
    _endless_locks,
    _worker_rules,
    _backlog,
    _late_delayed,
    _late_schedules,
    _dead_letters,
    _nearly_full,
)
