"""The reader for the fleet: which queues there are, ours and other systems', and how each stands, in one round trip per
tick.

At the start the keys are looked through in full, for ours first, while what is known already is shown; afterwards a page
of them rides along with each tick, so that new queues appear and nothing is asked twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chasqui import Keys, discovery, snapshot
from chasqui.errors import ServerError
from chasqui.snapshot import Unseen
from chasqui.together import ride, together
from chasqui_cli.places import LIST, OURS, RSMQ, name_of, named, place_of
from chasqui_cli.tui.feed.rows import rank
from chasqui_cli.tui.messages import FleetView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Flow
    from chasqui.discovery import Discovered
    from chasqui.foreign import ForeignQueues
    from chasqui_cli.places import Place as Where
    from chasqui_cli.places import Seen
    from chasqui_cli.tui.feed.asking import Place
    from chasqui_cli.tui.messages import Target

CLUSTER_TICKS = 15
"""A cluster's nodes have to be looked through one by one, so that is done now and then."""
KEEP_MS = 60_000
"""Names that are known already are written down this often, to say that they are still true."""


class FleetReader:
    """Every queue."""

    least_s = 0.0

    def __init__(self, place: Place) -> None:
        self._place = place
        kept = place.names.read() if place.names else None
        self._ours: tuple[str, ...] = kept.queues if kept else ()
        self._others: tuple[str, ...] = (kept.others if kept else None) or ()
        self._told = discovery.Discovered(complete=False)
        self._knows_others = False
        self._searching: asyncio.Task[Any] | None = None
        self._waits = False
        self._walk: _Walk | None = None
        self._ticks = 0
        self._kept: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self._kept_ms = 0

    def forget(self) -> None:
        """Look through the keys anew, page by page."""
        self._walk = None

    def close(self) -> None:
        """Search no further."""
        if self._searching:
            self._searching.cancel()

    async def read(self, target: Target) -> tuple[FleetView, int]:
        """The fleet, as far as it is known."""
        await self._find()
        places: list[Where] = [*map(Keys, self._ours), *map(place_of, self._others)]
        commands = self._place.commands
        seen, now_ms, replies = await self._place.link.run(
            together(self._look(places), snapshot.now(commands), ride(self._riding()))
        )
        for answer in (seen, now_ms):
            if isinstance(answer, ServerError):
                raise answer
        self._walked(replies)
        memory = self._place.memory
        there = [(one, where) for one, where in zip(seen, places, strict=True) if _is_there(one)]
        rows = sorted((memory.row(_shown(where), named(one, where)) for one, where in there), key=rank)
        self._look_for_others()
        told = self._told
        return FleetView(tuple(rows), told.looked, told.total, told.complete), now_ms

    def _look(self, places: Sequence[Where]) -> Flow[Any]:
        """Where there are only queues of ours, nothing is imported for the others."""
        if not self._others:
            return snapshot.many(self._place.commands, [one for one in places if isinstance(one, Keys)])
        from chasqui import foreign

        return foreign.snapshots(self._place.commands, places, cluster=self._is_cluster)

    async def _find(self) -> None:
        """Search when it is time, for ours first; wait for the search only while nothing at all is known."""
        self._ticks += 1
        if self._is_cluster and self._told.complete and not self._ticks % CLUSTER_TICKS:
            self._told, self._knows_others = discovery.Discovered(complete=False), False
        if self._searching is None and not self._told.complete:
            search = discovery.discover_async(self._place.link, progress=self._progress)
            self._searching = asyncio.create_task(search)
        if self._searching and not self._ours and not self._others:
            self._waits = True
            await asyncio.wait({self._searching}, timeout=1.0)
            self._waits = False
        if self._searching and self._searching.done():
            done, self._searching = self._searching, None
            found = done.result()
            if found is not None:
                self._told, self._ours = found, found.queues

    def _look_for_others(self) -> None:
        """After ours are known: it takes another walk through the keys, and code that not everybody needs."""
        if self._searching is None and self._told.complete and not self._knows_others:
            self._searching = asyncio.create_task(self._find_others())

    async def _find_others(self) -> None:
        from chasqui import foreign

        before = self._others
        self._know_others(await foreign.discover_async(self._place.link))
        if self._others != before:
            self._place.nudge()

    def _know_others(self, found: ForeignQueues) -> None:
        self._others = (*map(name_of, found.rsmq), *map(name_of, found.joblists))
        self._knows_others = True

    def _progress(self, told: Discovered) -> None:
        """A page was looked through; what is new on it is shown at once: by the tick that waits for it, or by another."""
        self._told = told
        if not set(told.queues) <= set(self._ours):
            self._ours = tuple(sorted({*self._ours, *told.queues}))
            if not self._waits:
                self._place.nudge()

    @property
    def _is_cluster(self) -> bool:
        return bool(self._place.link.address.kind == "cluster")

    def _riding(self) -> Sequence[Any]:
        """A page of keys, once the first search is over."""
        if not self._told.complete or not self._knows_others or self._is_cluster:
            return []
        if self._walk is None:
            self._walk = _Walk()
        return self._walk.calls

    def _walked(self, replies: object) -> None:
        if self._walk is None or not isinstance(replies, list) or not replies:
            return
        found = self._walk.on(replies)
        if found is None:
            return
        self._walk = None
        ours, others = found
        if not isinstance(others, ServerError):
            self._know_others(others)
        if not isinstance(ours, ServerError):
            self._told, self._ours = ours, ours.queues
            self._keep(ours.total)

    def _keep(self, total: int) -> None:
        """For the next start: what is new at once, what is known already now and then."""
        found, now_ms = (self._ours, self._others), self._place.clock_ms()
        if self._place.names and (found != self._kept or now_ms - self._kept_ms >= KEEP_MS):
            self._place.names.write(now_ms, total, *found)
            self._kept, self._kept_ms = found, now_ms


def _is_there(seen: Seen) -> bool:
    """A queue that was deleted, key by key, is no more; one that could not be looked at may be."""
    return isinstance(seen, Unseen) or seen.exists


def _shown(where: Where) -> str:
    """The name on the screen: one of ours that looks like another system's is told from it."""
    if not isinstance(where, Keys):
        return name_of(where)
    return f"{OURS}{where.queue}" if where.queue.startswith((OURS, RSMQ, LIST)) else where.queue


class _Walk:
    """Searches through one node's keys, for ours and the others side by side, that somebody else carries on."""

    def __init__(self) -> None:
        from chasqui.foreign import discovery as foreign_discovery

        self._flow = together(discovery.on_node(), foreign_discovery.on_node())
        self.calls = next(self._flow)

    def on(self, replies: list[object]) -> tuple[Any, ...] | None:
        """Hand over replies; the results when that was the end."""
        try:
            self.calls = self._flow.send(replies)
            while not self.calls:
                self.calls = self._flow.send([])
        except StopIteration as end:
            found: tuple[Any, ...] = end.value
            return found
        return None
