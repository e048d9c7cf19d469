"""`chasqui metrics`: numbers for Prometheus, printed once or served on a port while events are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.completing import place_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.output import print_line
from chasqui_cli.safe import safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui import Link
    from chasqui.events import Told
    from chasqui.foreign import ForeignSnapshot
    from chasqui.snapshot import Snapshot

app = typer.Typer(add_completion=False, rich_markup_mode=None)

MOST_NAMES = 500
"""Pairs of queue and job name that get series of their own: whoever makes up names must not fill a monitor's disk."""
BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


@app.command()
@at_desk()
def metrics(
    desk: Desk,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=place_names),
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
    from chasqui_cli import exposition

    exposition.client()
    if port is None:
        with desk.session() as session:
            print_line(exposition.text(*exposition.families(_seen(desk, session.link, queues))).rstrip("\n"))
        return
    import asyncio

    asyncio.run(_serve(desk, queues or [], host, port))


def _seen(desk: Desk, link: Link, queues: list[str] | None) -> list[Snapshot | ForeignSnapshot]:
    from chasqui.snapshot import Unseen
    from chasqui_cli.finding import seen_queues
    from chasqui_cli.session import Session

    return [one for one in seen_queues(desk, Session(link), queues) if not isinstance(one, Unseen)]


class _Queues:
    """Asks the server when somebody scrapes. One that is away is told as such, and not as empty queues."""

    def __init__(self, desk: Desk, link: Link, queues: list[str]) -> None:
        self._desk, self._link, self._queues = desk, link, queues

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        from chasqui import ServerError
        from chasqui_cli import exposition

        up = GaugeMetricFamily("chasqui_up", "Whether the queue server answers.")
        try:
            seen = _seen(self._desk.quietly(), self._link, self._queues)
        except ServerError as error:
            self._desk.say(f"scrape failed: {error}")
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from exposition.families(seen)


class _Counts:
    """Counts events; job names beyond the first many are counted as one."""

    def __init__(self, registry: Any) -> None:
        from prometheus_client import Counter, Histogram

        labels = ["queue", "name"]
        self._events = Counter(
            "chasqui_events", "Events seen while serving.", [*labels, "event"], registry=registry
        )
        self._lost = Counter("chasqui_events_lost", "Events trimmed unseen.", ["queue"], registry=registry)
        self._durations = Histogram(
            "chasqui_run_duration_seconds", "Run time.", labels, registry=registry, buckets=BUCKETS
        )
        self._names: set[tuple[str, str]] = set()

    def lost(self, queue: str, count: int) -> None:
        self._lost.labels(safe(queue)).inc(count)

    def take(self, told: Told) -> None:
        event = told.event
        labels = self._labels(told.queue, event.name)
        self._events.labels(*labels, safe(event.kind, 40)).inc()
        if event.kind == "completed" and event.duration_us is not None:
            self._durations.labels(*labels).observe(event.duration_us / 1_000_000)

    def _labels(self, queue: str, name: str) -> tuple[str, str]:
        labels = (safe(queue), safe(name, 200))
        if labels not in self._names and len(self._names) >= MOST_NAMES:
            return (safe(queue), "(other)")
        self._names.add(labels)
        return labels


async def _serve(desk: Desk, queues: list[str], host: str, port: int) -> None:
    """Serve until interrupted; the numbers of queues are asked for by whoever scrapes, in the server's threads."""
    import asyncio

    from prometheus_client import CollectorRegistry, start_http_server

    from chasqui.events import Gap
    from chasqui.queue_events import Tail
    from chasqui_cli.following import join_new
    from chasqui_cli.places import is_ours, own_name

    with desk.link() as link:
        known = queues or [one.queue for one in _seen(desk, link, None)]
        names = [own_name(name) for name in known if is_ours(name)]
        registry = CollectorRegistry()
        registry.register(_Queues(desk, link, queues))
        counts = _Counts(registry)
        served, thread = start_http_server(port, host, registry)
        desk.say(f"serving http://{host}:{served.server_port}/metrics; Ctrl-C ends it")
        try:
            async with desk.async_link() as events:
                tail = Tail(events, names)
                watcher = None if queues else asyncio.ensure_future(join_new(events, tail, set(names)))
                try:
                    async for item in tail:
                        if isinstance(item, Gap):
                            counts.lost(item.queue, item.lost_estimate or 0)
                        else:
                            counts.take(item)
                finally:
                    if watcher:
                        watcher.cancel()
        finally:
            served.shutdown()
            thread.join()
