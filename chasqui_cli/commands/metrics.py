"""`chasqui metrics`: numbers for Prometheus, printed once or served on a port while events are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_any_queue
from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.writer import print_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui import Link
    from chasqui.foreign import ForeignSnapshot
    from chasqui.inspect.events import StoredEvent
    from chasqui.inspect.snapshot import Snapshot


MAX_LABEL_PAIRS = 500
"""Pairs of queue and job name that get series of their own: invented names must not fill a monitor's disk."""
DURATION_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


@command("metrics", effect=Effect.RUNS)
def metrics(
    ctx: CommandContext,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=complete_any_queue),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="Serve them here until Ctrl-C.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Which of our addresses to serve on.")] = "127.0.0.1",
) -> None:
    """Numbers for Prometheus: depths, ages, leaders, fullness of every queue.

    Printed once; with --port served until Ctrl-C, one look at the server per scrape, and then events are counted per
    queue, job name and kind, and run times as a histogram per job name.
    """
    from chasqui_cli.output import prometheus

    prometheus.require_client_library()
    if port is None:
        with ctx.session() as session:
            print_line(
                prometheus.render_metrics(
                    *prometheus.metric_families(_read_snapshots(ctx, session.link, queues))
                ).rstrip("\n")
            )
        return
    import asyncio

    asyncio.run(_serve(ctx, queues or [], host, port))


def _read_snapshots(ctx: CommandContext, link: Link, queues: list[str] | None) -> list[Snapshot | ForeignSnapshot]:
    from chasqui.inspect.snapshot import SnapshotFailure
    from chasqui_cli.context.session import Session
    from chasqui_cli.queues.targets import queue_snapshots

    return [one for one in queue_snapshots(ctx, Session(link), queues) if not isinstance(one, SnapshotFailure)]


class _SnapshotCollector:
    """Reads the server at each scrape. An unreachable one is reported as such, and not as empty queues."""

    def __init__(self, ctx: CommandContext, link: Link, queues: list[str]) -> None:
        self._ctx, self._link, self._queues = ctx, link, queues

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        from chasqui import ServerError
        from chasqui_cli.output import prometheus

        up = GaugeMetricFamily("chasqui_up", "Whether the queue server answers.")
        try:
            seen = _read_snapshots(self._ctx.quiet_copy(), self._link, self._queues)
        except ServerError as error:
            self._ctx.info(f"scrape failed: {error}")
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from prometheus.metric_families(seen)


class _EventCounters:
    """Counts events; job names beyond the first many are counted as one."""

    def __init__(self, registry: Any) -> None:
        from prometheus_client import Counter, Histogram

        labels = ["queue", "name"]
        self._events = Counter("chasqui_events", "Events seen while serving.", [*labels, "event"], registry=registry)
        self._lost = Counter("chasqui_events_lost", "Events trimmed unseen.", ["queue"], registry=registry)
        self._durations = Histogram(
            "chasqui_run_duration_seconds", "Run time.", labels, registry=registry, buckets=DURATION_BUCKETS_S
        )
        self._names: set[tuple[str, str]] = set()

    def count_lost(self, queue: str, count: int) -> None:
        self._lost.labels(safe(queue)).inc(count)

    def count_event(self, stored: StoredEvent) -> None:
        event = stored.event
        labels = self._labels(stored.queue, event.name)
        self._events.labels(*labels, safe(event.kind, 40)).inc()
        if event.kind == "completed" and event.duration_us is not None:
            self._durations.labels(*labels).observe(event.duration_us / 1_000_000)

    def _labels(self, queue: str, name: str) -> tuple[str, str]:
        labels = (safe(queue), safe(name, 200))
        if labels not in self._names and len(self._names) >= MAX_LABEL_PAIRS:
            return (safe(queue), "(other)")
        self._names.add(labels)
        return labels


async def _serve(ctx: CommandContext, queues: list[str], host: str, port: int) -> None:
    """Serve until interrupted; the numbers of queues are read at each scrape, in the server's threads."""
    import asyncio

    from prometheus_client import CollectorRegistry, start_http_server

    from chasqui.inspect.events import Gap
    from chasqui.queue_events import EventFollower
    from chasqui_cli.queues.follow_new_queues import follow_new_queues
    from chasqui_cli.queues.queue_names import is_native, strip_native_prefix

    with ctx.link() as link:
        known = queues or [one.queue for one in _read_snapshots(ctx, link, None)]
        names = [strip_native_prefix(name) for name in known if is_native(name)]
        registry = CollectorRegistry()
        registry.register(_SnapshotCollector(ctx, link, queues))
        counts = _EventCounters(registry)
        served, thread = start_http_server(port, host, registry)
        ctx.info(f"serving http://{host}:{served.server_port}/metrics; Ctrl-C ends it")
        try:
            async with ctx.async_link() as events:
                tail = EventFollower(events, names)
                watcher = None if queues else asyncio.ensure_future(follow_new_queues(events, tail, set(names)))
                try:
                    async for item in tail:
                        if isinstance(item, Gap):
                            counts.count_lost(item.queue, item.lost_estimate or 0)
                        else:
                            counts.count_event(item)
                finally:
                    if watcher:
                        watcher.cancel()
        finally:
            served.shutdown()
            thread.join()
