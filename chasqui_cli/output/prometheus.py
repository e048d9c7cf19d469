"""Numbers of queues as Prometheus metrics; `commands/metrics.py` serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_cli.output.escape_text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chasqui.foreign import ForeignSnapshot
    from chasqui.inspect.snapshot import Snapshot

_NOT_INSTALLED = "prometheus-client is not installed"
_INSTALL_HINT = "pip install 'chasqui-cli[metrics]'"

_GAUGES = {
    "waiting": ("waiting", 1, "Jobs in the stream that nobody has read."),
    "oldest_waiting_seconds": ("oldest_waiting_ms", 1000, "Age of the oldest waiting job."),
    "in_flight": ("pending", 1, "Jobs delivered and not settled."),
    "longest_idle_seconds": ("longest_idle_ms", 1000, "Longest time a job in flight showed no sign of life."),
    "consumers": ("consumers", 1, "Consumers known to the groups."),
    "dead_letters": ("dlq_depth", 1, "Dead letters."),
    "delayed": ("delayed_depth", 1, "Jobs that wait for their time."),
    "delayed_due": ("delayed_due", 1, "Delayed jobs that are due."),
    "delayed_lag_seconds": ("oldest_delayed_lag_ms", 1000, "How late the latest delayed job is."),
    "repeatable": ("repeatable_count", 1, "Repeatable jobs."),
    "repeatable_overdue": ("repeatable_overdue", 1, "Repeatable jobs that should have fired."),
    "events": ("events_depth", 1, "Events kept."),
}
_COUNTERS = {
    "added": ("stream", "Entries ever added to the stream."),
    "buried": ("dlq", "Entries ever added to the dead letters."),
}


def require_client_library() -> Any:
    """The library, if it is there."""
    from chasqui.errors import ConfigError

    try:
        import prometheus_client
    except ImportError:
        raise ConfigError(_NOT_INSTALLED, hint=_INSTALL_HINT) from None
    return prometheus_client


def metric_families(snapshots: Iterable[Snapshot | ForeignSnapshot]) -> Iterator[Any]:
    """Every number of these queues, as families of samples; other systems' queues have those that they know."""
    require_client_library()
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from chasqui.inspect.snapshot import Snapshot

    everything = list(snapshots)
    queues = [one for one in everything if isinstance(one, Snapshot)]
    others = [one for one in everything if not isinstance(one, Snapshot)]
    for name, (field, unit, about) in _GAUGES.items():
        family = GaugeMetricFamily(f"chasqui_{name}", about, labels=["queue"])
        for any_one in everything:
            value = getattr(any_one, field)
            if value is not None:
                family.add_metric([safe(any_one.queue)], value / unit)
        yield family
    full = GaugeMetricFamily("chasqui_fullness_ratio", "Length of a stream by its cap.", labels=["queue", "place"])
    leads = GaugeMetricFamily("chasqui_has_leader", "Whether somebody promotes or schedules.", labels=["queue", "role"])
    for one in queues:
        for place, length, cap in (
            ("stream", one.stream_depth, one.caps.stream),
            ("dlq", one.dlq_depth, one.caps.dlq),
            ("events", one.events_depth, one.caps.events),
        ):
            full.add_metric([safe(one.queue), place], length / cap)
        leads.add_metric([safe(one.queue), "promoter"], float(one.promoter_lock is not None))
        leads.add_metric([safe(one.queue), "scheduler"], float(one.scheduler_lock is not None))
    yield from (full, leads)
    for name, (place, about) in _COUNTERS.items():
        counter = CounterMetricFamily(f"chasqui_{name}", about, labels=["queue"])
        for one in queues:
            counter.add_metric([safe(one.queue)], getattr(one, place).added)
        for other in others if name == "added" else ():
            if other.attributes is not None:
                counter.add_metric([safe(other.queue)], other.attributes.sent)
        yield counter


def render_metrics(*collected: Any) -> str:
    """The exposition of these families."""
    library = require_client_library()

    class Collected:
        def collect(self) -> Any:
            return iter(collected)

    registry = library.CollectorRegistry()
    registry.register(Collected())
    text: str = library.generate_latest(registry).decode()
    return text
