"""The reader for the fleet: which queues there are, and how each stands, in one round trip per tick.

At the start the keys are looked through in full, while what is known already is shown; afterwards one page of them
rides along with each tick, so that new queues appear and nothing is asked twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chasqui import Keys, discovery, snapshot
from chasqui.errors import ServerError
from chasqui.snapshot import Unseen
from chasqui.together import ride, together
from chasqui_cli.tui.feed.rows import rank
from chasqui_cli.tui.messages import FleetView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.discovery import Discovered
    from chasqui.snapshot import Snapshot
    from chasqui_cli.tui.feed.asking import Place
    from chasqui_cli.tui.messages import Target

CLUSTER_TICKS = 15
"""A cluster's nodes have to be looked through one by one, so that is done now and then."""


class FleetReader:
    """Every queue."""

    least_s = 0.0

    def __init__(self, place: Place) -> None:
        self._place = place
        kept = place.names.read() if place.names else None
        self._names: tuple[str, ...] = kept.queues if kept else ()
        self._told = discovery.Discovered(complete=False)
        self._searching: asyncio.Task[Discovered] | None = None
        self._walk: _Walk | None = None
        self._ticks = 0

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
        keys = [Keys(name) for name in self._names]
        link, commands = self._place.link, self._place.commands
        riding = self._riding()
        seen, now_ms, replies = await link.run(
            together(snapshot.many(commands, keys), snapshot.now(commands), ride(riding))
        )
        for answer in (seen, now_ms):
            if isinstance(answer, ServerError):
                raise answer
        self._walked(replies)
        rows = sorted((self._place.memory.row(one) for one in self._there(seen)), key=rank)
        told = self._told
        return FleetView(tuple(rows), told.looked, told.total, told.complete), now_ms

    async def _find(self) -> None:
        """Search when it is time; wait for the search only while nothing at all is known."""
        self._ticks += 1
        is_cluster = self._place.link.address.kind == "cluster"
        again = is_cluster and self._told.complete and not self._ticks % CLUSTER_TICKS
        if self._searching is None and (not self._told.complete or again):
            self._searching = asyncio.create_task(
                discovery.discover_async(self._place.link, progress=self._progress)
            )
        if self._searching and not self._names:
            await asyncio.wait({self._searching}, timeout=1.0)
        if self._searching and self._searching.done():
            done, self._searching = self._searching, None
            self._found(done.result())

    def _progress(self, told: Discovered) -> None:
        """A page was looked through; what is new on it is shown at once."""
        self._told = told
        if not set(told.queues) <= set(self._names):
            self._names = tuple(sorted({*self._names, *told.queues}))
            self._place.nudge()

    def _found(self, told: Discovered) -> None:
        self._told, self._names = told, told.queues

    def _riding(self) -> Sequence[Any]:
        """A page of keys, once the first search is over."""
        if not self._told.complete or self._place.link.address.kind == "cluster":
            return []
        if self._walk is None:
            self._walk = _Walk()
        return self._walk.calls

    def _walked(self, replies: object) -> None:
        if self._walk is None or not isinstance(replies, list) or not replies:
            return
        found = self._walk.on(replies)
        if found is not None:
            self._walk = None
            self._found(found)
            if self._place.names:
                self._place.names.write(self._place.clock_ms(), found.total, found.queues)

    def _there(self, seen: Sequence[Snapshot | Unseen]) -> list[Snapshot | Unseen]:
        """A queue that was deleted, key by key, is no more; one that could not be looked at may be."""
        return [one for one in seen if isinstance(one, Unseen) or one.exists]


class _Walk:
    """A search through one node's keys that somebody else carries on, a batch at a time."""

    def __init__(self) -> None:
        self._flow = discovery.on_node()
        self.calls = next(self._flow)

    def on(self, replies: list[object]) -> Discovered | None:
        """Hand over replies; the result when that was the end."""
        try:
            self.calls = self._flow.send(replies)
        except StopIteration as end:
            found: Discovered = end.value
            return found
        return None
