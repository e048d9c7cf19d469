"""Whether queues of other systems are well, and how fast they move: judgement on snapshots, in our own findings' words.

Only what those systems know is judged: RSMQ has no workers and no dead letters, a list no delays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.foreign.cluster_slots import SPLIT_MESSAGE
from chasqui.foreign.rsmq.keys import NAMESPACE
from chasqui.health.findings import Finding, Level, chasqui_command, count_text, duration_text, level_of, run_rules
from chasqui.health.thresholds import HealthThresholds
from chasqui.inspect import throughput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.foreign.foreign_snapshots import ForeignSnapshot
    from chasqui.inspect.throughput import Throughput

DEFAULTS = HealthThresholds()


def foreign_findings(seen: ForeignSnapshot, limits: HealthThresholds = DEFAULTS) -> list[Finding]:
    """Everything that is wrong with a queue as far as its snapshot shows, the worst first."""
    return run_rules(RULES, seen, limits)


def throughput_between(before: ForeignSnapshot, after: ForeignSnapshot) -> Throughput | None:
    """The rates between two snapshots. Only RSMQ counts what was sent and received; for lists they are unknown."""
    over_ms = after.server_time_ms - before.server_time_ms
    if before.attributes is None or after.attributes is None or over_ms <= 0:
        return None
    added = after.attributes.sent - before.attributes.sent
    read = after.attributes.received - before.attributes.received
    if added < 0 or read < 0:
        return None
    return throughput.Throughput(
        over_ms, added, read, 0, throughput.forecast_backlog(after.waiting, added, read, over_ms)
    )


def _fix_command(seen: ForeignSnapshot, *words: str) -> str:
    space = ["--ns", seen.namespace] if seen.namespace and seen.namespace != NAMESPACE else []
    return chasqui_command(seen.kind, words[0], seen.keys.queue, *words[1:], *space)


def _key_findings(seen: ForeignSnapshot, _: HealthThresholds) -> Iterator[Finding]:
    for wrong in seen.wrong:
        text = f"{wrong.key} holds a {wrong.found} where a {wrong.expected} belongs; nothing that uses it works"
        evidence = {"key": wrong.key, "found": wrong.found, "expected": wrong.expected}
        yield Finding(Level.CRITICAL, "wrong-type", text, seen.queue, evidence, _fix_command(seen, "doctor"))
    if seen.split:
        look = "peek" if seen.kind == "rsmq" else "list"
        yield Finding(Level.WARNING, "split", SPLIT_MESSAGE, seen.queue, {}, _fix_command(seen, look))
    if seen.parked:
        text = f"{count_text(seen.parked, 'message is', 'messages are')} on the way to another server"
        yield Finding(Level.NOTE, "parked", text, seen.queue, {"parked": seen.parked}, _fix_command(seen, "doctor"))


def _backlog_findings(seen: ForeignSnapshot, limits: HealthThresholds) -> Iterator[Finding]:
    look = _fix_command(seen, "peek" if seen.kind == "rsmq" else "list")
    if level := level_of(limits.waiting, seen.waiting):
        text = count_text(seen.waiting, "message waits", "messages wait")
        yield Finding(level, "backlog", text, seen.queue, {"waiting": seen.waiting}, look)
    if level := level_of(limits.age_ms, seen.oldest_waiting_ms):
        text = f"the oldest waiting message has waited for {duration_text(seen.oldest_waiting_ms)}"
        evidence = {"oldest_waiting_ms": seen.oldest_waiting_ms, "waiting": seen.waiting}
        yield Finding(level, "old-backlog", text, seen.queue, evidence, look)


def _claim_findings(seen: ForeignSnapshot, limits: HealthThresholds) -> Iterator[Finding]:
    idle_ms = seen.longest_idle_ms or 0
    level = level_of(limits.idle_ms, idle_ms) if seen.pending else None
    if level or seen.stale:
        text = f"{count_text(seen.pending or 0, 'job')} in flight, one claimed {duration_text(idle_ms)} ago"
        if seen.stale:
            text += f"; {count_text(seen.stale, 'claim is', 'claims are')} stale"
        evidence = {"pending": seen.pending, "longest_idle_ms": idle_ms, "stale": seen.stale}
        yield Finding(
            level or Level.WARNING, "abandoned", text, seen.queue, evidence, _fix_command(seen, "reclaim", "--dry-run")
        )
    if level := level_of(limits.dlq, seen.dlq_depth or 0):
        text = count_text(seen.dlq_depth or 0, "failed job")
        evidence = {"dlq_depth": seen.dlq_depth}
        fix = _fix_command(seen, "list", "--list", "failed")
        yield Finding(level, "dead-letters", text, seen.queue, evidence, fix)


def _listing_findings(seen: ForeignSnapshot, _: HealthThresholds) -> Iterator[Finding]:
    if seen.kind != "rsmq" or seen.wrong:
        return
    lacks = seen.attributes is None or seen.attributes.vt_s is None
    if lacks and (seen.stream_depth or seen.attributes):
        text = "it has no attributes: no client sees its messages"
        evidence = {"messages": seen.stream_depth}
        yield Finding(Level.WARNING, "ghost", text, seen.queue, evidence, _fix_command(seen, "doctor", "--repair"))
    elif lacks:
        text = "it is listed, but there is no such queue"
        yield Finding(Level.NOTE, "phantom", text, seen.queue, {}, _fix_command(seen, "doctor", "--repair"))
    elif not seen.listed:
        text = "no client lists it"
        yield Finding(Level.WARNING, "unlisted", text, seen.queue, {}, _fix_command(seen, "doctor", "--repair"))


RULES = (_key_findings, _backlog_findings, _claim_findings, _listing_findings)
