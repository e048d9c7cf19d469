"""What a snapshot alone shows: keys, groups, leaders, ages, depths and caps."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from chasqui.health.finding import Finding, Level, amount, lasted, line, over, percent_of
from chasqui.options import Health

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.snapshot import LockHolder, Snapshot

DEFAULTS = Health()


def of_queue(snapshot: Snapshot, limits: Health = DEFAULTS) -> list[Finding]:
    """Everything that is wrong with a queue as far as its snapshot tells, the worst first."""
    places = (_keys, _locks, _workers, _backlog, _delayed, _repeats, _dead, _caps)
    found = [finding for look in places for finding in look(snapshot, limits)]
    return sorted(found, key=lambda finding: -finding.level)


def _keys(seen: Snapshot, _: Health) -> Iterator[Finding]:
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


def _locks(seen: Snapshot, _: Health) -> Iterator[Finding]:
    locks = (("promoter", "promote", seen.promoter_lock), ("scheduler", "schedule", seen.scheduler_lock))
    for role, verb, lock in locks:
        if lock and lock.ttl_ms is None:
            yield Finding(
                Level.CRITICAL,
                "endless-lock",
                f"the {role} lock of {lock.holder} never ends; once its holder is gone nobody else can lead",
                seen.queue,
                {"role": role, "holder": lock.holder},
                line(verb, seen.queue, "--force-unlock"),
            )


def _workers(seen: Snapshot, limits: Health) -> Iterator[Finding]:
    run = line("worker", "run", "MODULE:HANDLER", "--queue", seen.queue)
    evidence = {"waiting": seen.waiting, "consumers": seen.consumers, "groups": len(seen.groups)}
    if limits.needs_workers and seen.waiting and not seen.groups:
        text = f"{amount(seen.waiting, 'job waits', 'jobs wait')} and no consumer group exists: no worker has ever read here, or its group was deleted"
        yield Finding(Level.CRITICAL, "no-group", text, seen.queue, evidence, run)
    elif limits.needs_workers and seen.waiting and not seen.consumers:
        text = f"{amount(seen.waiting, 'job waits', 'jobs wait')} and there are no workers"
        yield Finding(Level.CRITICAL, "no-workers", text, seen.queue, evidence, run)
    level = over(limits.idle_ms, seen.longest_idle_ms) if seen.pending else None
    if level:
        yield Finding(
            level,
            "abandoned",
            f"{amount(seen.pending, 'job')} in flight, one untouched for {lasted(seen.longest_idle_ms)}:"
            " its worker is gone and nobody has taken it over",
            seen.queue,
            {"pending": seen.pending, "longest_idle_ms": seen.longest_idle_ms},
            line("workers", "claim", seen.queue),
        )


def _backlog(seen: Snapshot, limits: Health) -> Iterator[Finding]:
    if level := over(limits.waiting, seen.waiting):
        text = f"{amount(seen.waiting, 'job waits', 'jobs wait')}"
        yield Finding(
            level, "backlog", text, seen.queue, {"waiting": seen.waiting}, line("watch", seen.queue)
        )
    if level := over(limits.age_ms, seen.oldest_waiting_ms):
        text = f"the oldest waiting job has waited for {lasted(seen.oldest_waiting_ms)}"
        evidence = {"oldest_waiting_ms": seen.oldest_waiting_ms, "waiting": seen.waiting}
        yield Finding(level, "old-backlog", text, seen.queue, evidence, line("workers", "list", seen.queue))


def _delayed(seen: Snapshot, limits: Health) -> Iterator[Finding]:
    lag_ms = seen.oldest_delayed_lag_ms if seen.delayed_due else 0
    late = (
        f"{amount(seen.delayed_due, 'delayed job is', 'delayed jobs are')} overdue, by up to {lasted(lag_ms)}"
    )
    evidence = {"delayed_due": seen.delayed_due, "oldest_delayed_lag_ms": lag_ms}
    if _has_no_leader(seen.promoter_lock, lag_ms, limits):
        text = f"{late}, and nobody promotes"
        mend = line("promote", seen.queue, "--follow")
        yield Finding(Level.CRITICAL, "no-promoter", text, seen.queue, evidence, mend)
    elif level := over(limits.delayed_lag_ms, lag_ms):
        yield Finding(level, "delayed-late", late, seen.queue, evidence, line("promote", seen.queue))


def _repeats(seen: Snapshot, limits: Health) -> Iterator[Finding]:
    first, overdue = seen.next_repeat_ms, seen.repeatable_overdue
    lag_ms = max(0, seen.server_time_ms - first) if first is not None and overdue else 0
    late = f"{amount(overdue, 'repeatable job is', 'repeatable jobs are')} overdue, by up to {lasted(lag_ms)}"
    evidence = {"repeatable_overdue": overdue, "oldest_repeat_lag_ms": lag_ms}
    if _has_no_leader(seen.scheduler_lock, lag_ms, limits):
        text = f"{late}, and nobody schedules"
        mend = line("schedule", seen.queue, "--follow")
        yield Finding(Level.CRITICAL, "no-scheduler", text, seen.queue, evidence, mend)
    elif level := over(limits.repeat_lag_ms, lag_ms):
        yield Finding(level, "cron-overdue", late, seen.queue, evidence, line("schedule", seen.queue))


def _has_no_leader(lock: LockHolder | None, lag_ms: int, limits: Health) -> bool:
    return limits.needs_leaders and lock is None and lag_ms >= max(1, limits.grace_ms)


def _dead(seen: Snapshot, limits: Health) -> Iterator[Finding]:
    if level := over(limits.dlq, seen.dlq_depth):
        text = f"{amount(seen.dlq_depth, 'dead letter')}"
        evidence = {"dlq_depth": seen.dlq_depth}
        yield Finding(level, "dead-letters", text, seen.queue, evidence, line("dlq", "groups", seen.queue))


def _caps(seen: Snapshot, limits: Health) -> Iterator[Finding]:
    """The events are left out: that stream is full all the time, and meant to be."""
    for name, length, cap, lost, verb in (
        ("stream", seen.stream_depth, seen.caps.stream, "unread jobs", ("workers", "list")),
        ("dead-letter stream", seen.dlq_depth, seen.caps.dlq, "the oldest letters", ("dlq", "export")),
    ):
        full = percent_of(cap, length)
        if level := over(limits.full_percent, full):
            yield Finding(
                level,
                "nearly-full",
                f"the {name} is {full} % full; beyond its cap the released engine deletes {lost}",
                seen.queue,
                {"place": name, "length": length, "cap": cap, "percent": full},
                line(*verb, seen.queue),
            )
