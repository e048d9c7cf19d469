"""Queues of any kind, judged by the rules of their own system."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chasqui.foreign import ForeignSnapshot
    from chasqui.health import Finding
    from chasqui.health.thresholds import HealthThresholds
    from chasqui.inspect.snapshot import Snapshot
    from chasqui.inspect.throughput import Throughput


def queue_findings(seen: Snapshot | ForeignSnapshot, limits: HealthThresholds | None = None) -> list[Finding]:
    """Everything wrong with a queue that its snapshot shows, the worst first."""
    from chasqui.health.thresholds import HealthThresholds
    from chasqui.inspect.snapshot import Snapshot

    if isinstance(seen, Snapshot):
        from chasqui import health
        from chasqui_cli.queues.queue_names import strip_native_prefix

        # The commands that findings name are for queues of ours only: they take the name without a prefix.
        bare = replace(seen, queue=strip_native_prefix(seen.queue))
        return health.check_queue(bare, limits or HealthThresholds())
    from chasqui.foreign import health_rules as foreign_health

    return foreign_health.foreign_findings(seen, limits or HealthThresholds())


def throughput_between(before: Snapshot | ForeignSnapshot, after: Snapshot | ForeignSnapshot) -> Throughput | None:
    """The change from one snapshot to the next; None if unknown."""
    from chasqui.foreign import health_rules as foreign_health
    from chasqui.inspect import throughput
    from chasqui.inspect.snapshot import Snapshot

    if isinstance(before, Snapshot) and isinstance(after, Snapshot):
        return throughput.throughput_between(before, after)
    if isinstance(before, Snapshot) or isinstance(after, Snapshot):
        return None
    return foreign_health.throughput_between(before, after)
