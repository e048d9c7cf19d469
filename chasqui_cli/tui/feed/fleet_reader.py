"""The reader for the fleet: which queues there are, ours and other systems', and how each stands, in one round trip per
tick.

At the start the keys are looked through in full, for ours first, while what is known already is shown; afterwards a page
of them rides along with each tick, so that new queues appear and nothing is asked twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chasqui import Keys, as_flow, run_together
from chasqui.errors import ServerError
from chasqui.inspect import discovery, snapshot
from chasqui.inspect.snapshot import SnapshotFailure
from chasqui_cli.queues.queue_names import format_queue_ref, parse_queue_ref, with_ref_name
from chasqui_cli.tui.feed.queue_rows import severity_order
from chasqui_cli.tui.feed_messages import FleetView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Flow
    from chasqui.foreign import ForeignQueues
    from chasqui.inspect.discovery import DiscoveredQueues
    from chasqui_cli.queues.queue_names import AnySnapshot
    from chasqui_cli.queues.queue_names import QueueRef as Where
    from chasqui_cli.tui.feed.tab_reader import FeedContext
    from chasqui_cli.tui.feed_messages import ReadTarget

CLUSTER_RESCAN_TICKS = 15
"""A cluster's nodes have to be looked through one by one, so that is done now and then."""
SAVE_INTERVAL_MS = 60_000
"""Names that are known already are written down this often, to say that they are still true."""


class FleetReader:
    """Every queue."""

    least_s = 0.0

    def __init__(self, place: FeedContext) -> None:
        self._place = place
        cached = place.name_cache.read() if place.name_cache else None
        self._native_names: tuple[str, ...] = cached.queues if cached else ()
        self._foreign_names: tuple[str, ...] = (cached.others if cached else None) or ()
        self._discovery = discovery.DiscoveredQueues(complete=False)
        self._knows_others = False
        self._searching: asyncio.Task[Any] | None = None
        self._is_waiting = False
        self._scan: _KeyScan | None = None
        self._ticks = 0
        self._saved: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self._saved_ms = 0

    def forget(self) -> None:
        """Scan the keys again, page by page."""
        self._scan = None

    def close(self) -> None:
        if self._searching:
            self._searching.cancel()

    async def read(self, target: ReadTarget) -> tuple[FleetView, int]:
        """The fleet, as far as it is known."""
        await self._discover()
        places: list[Where] = [*map(Keys, self._native_names), *map(parse_queue_ref, self._foreign_names)]
        commands = self._place.commands
        seen, now_ms, replies = await self._place.link.run(
            run_together(self._snapshots(places), snapshot.server_time_ms(commands), as_flow(self._scan_calls()))
        )
        for answer in (seen, now_ms):
            if isinstance(answer, ServerError):
                raise answer
        self._take_scan_replies(replies)
        memory = self._place.memory
        there = [(one, where) for one, where in zip(seen, places, strict=True) if _exists(one)]
        rows = sorted(
            (memory.queue_row(format_queue_ref(where), with_ref_name(one, where)) for one, where in there),
            key=severity_order,
        )
        self._discover_foreign()
        progress = self._discovery
        return FleetView(tuple(rows), progress.scanned, progress.total, progress.complete), now_ms

    def _snapshots(self, places: Sequence[Where]) -> Flow[Any]:
        """Where there are only queues of ours, nothing is imported for the others."""
        if not self._foreign_names:
            return snapshot.take_snapshots(self._place.commands, [one for one in places if isinstance(one, Keys)])
        from chasqui import foreign

        return foreign.snapshots(self._place.commands, places, cluster=self._is_cluster)

    async def _discover(self) -> None:
        """Search when it is time, for ours first; wait for the search only while nothing at all is known."""
        self._ticks += 1
        if self._is_cluster and self._discovery.complete and not self._ticks % CLUSTER_RESCAN_TICKS:
            self._discovery, self._knows_others = discovery.DiscoveredQueues(complete=False), False
        if self._searching is None and not self._discovery.complete:
            search = discovery.discover_queues_async(self._place.link, progress=self._progress)
            self._searching = asyncio.create_task(search)
        if self._searching and not self._native_names and not self._foreign_names:
            self._is_waiting = True
            await asyncio.wait({self._searching}, timeout=1.0)
            self._is_waiting = False
        if self._searching and self._searching.done():
            done, self._searching = self._searching, None
            found = done.result()
            if found is not None:
                self._discovery, self._native_names = found, found.queues

    def _discover_foreign(self) -> None:
        """After ours are known: it takes another walk through the keys, and code that not everybody needs."""
        if self._searching is None and self._discovery.complete and not self._knows_others:
            self._searching = asyncio.create_task(self._read_foreign())

    async def _read_foreign(self) -> None:
        from chasqui import foreign

        before = self._foreign_names
        self._set_foreign(await foreign.discover_async(self._place.link))
        if self._foreign_names != before:
            self._place.request_read()

    def _set_foreign(self, found: ForeignQueues) -> None:
        self._foreign_names = (*map(format_queue_ref, found.rsmq), *map(format_queue_ref, found.joblists))
        self._knows_others = True

    def _progress(self, progress: DiscoveredQueues) -> None:
        """A page was looked through; what is new on it is shown at once: by the tick that waits for it, or by another."""
        self._discovery = progress
        if not set(progress.queues) <= set(self._native_names):
            self._native_names = tuple(sorted({*self._native_names, *progress.queues}))
            if not self._is_waiting:
                self._place.request_read()

    @property
    def _is_cluster(self) -> bool:
        return bool(self._place.link.address.kind == "cluster")

    def _scan_calls(self) -> Sequence[Any]:
        """A page of keys, once the first search is over."""
        if not self._discovery.complete or not self._knows_others or self._is_cluster:
            return []
        if self._scan is None:
            self._scan = _KeyScan()
        return self._scan.calls

    def _take_scan_replies(self, replies: object) -> None:
        if self._scan is None or not isinstance(replies, list) or not replies:
            return
        found = self._scan.advance(replies)
        if found is None:
            return
        self._scan = None
        ours, others = found
        if not isinstance(others, ServerError):
            self._set_foreign(others)
        if not isinstance(ours, ServerError):
            self._discovery, self._native_names = ours, ours.queues
            self._save_names(ours.total)

    def _save_names(self, total: int) -> None:
        """For the next start: what is new at once, what is known already now and then."""
        found, now_ms = (self._native_names, self._foreign_names), self._place.clock_ms()
        if self._place.name_cache and (found != self._saved or now_ms - self._saved_ms >= SAVE_INTERVAL_MS):
            self._place.name_cache.write(now_ms, total, *found)
            self._saved, self._saved_ms = found, now_ms


def _exists(seen: AnySnapshot) -> bool:
    """A queue that was deleted, key by key, is no more; one that could not be looked at may be."""
    return isinstance(seen, SnapshotFailure) or seen.exists


class _KeyScan:
    """Scans one node's keys, for our queues and the others' in one pass; the caller sends the calls."""

    def __init__(self) -> None:
        from chasqui.foreign import foreign_discovery as foreign_discovery

        self._flow = run_together(discovery.discover_on_node(), foreign_discovery.discover_on_node())
        self.calls = next(self._flow)

    def advance(self, replies: list[object]) -> tuple[Any, ...] | None:
        """Hand over replies; the results when that was the end."""
        try:
            self.calls = self._flow.send(replies)
            while not self.calls:
                self.calls = self._flow.send([])
        except StopIteration as end:
            found: tuple[Any, ...] = end.value
            return found
        return None
