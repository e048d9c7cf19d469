"""The reader for workers: who reads the queue, and whether each still lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.operate import consumers
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.views import WorkerRow, WorkersView

if TYPE_CHECKING:
    from chasqui_cli.tui.feed.tab_reader import FeedContext
    from chasqui_cli.tui.feed_messages import ReadTarget


class WorkersReader(QueueTabReader):
    """Who reads the queue."""

    def __init__(self, place: FeedContext) -> None:
        super().__init__(place)
        self._groups: dict[str, tuple[bytes, ...]] = {}

    async def read(self, target: ReadTarget) -> tuple[WorkersView, int]:
        """In one round trip, but for the first time and when groups come or go: the groups of the tick before are used."""
        queue = target.queue or ""
        known = self._groups.pop(queue, None)
        listing = consumers.list_consumers(
            self.place.commands, queue_keys(queue), max_entries=consumers.PAGE_SIZE, groups=known
        )
        row, now_ms, [found] = await self.query(queue, listing)
        if len(found.groups) == len(row.native_snapshot.groups):
            self._groups[queue] = found.groups
        workers = [
            WorkerRow(
                one.group,
                one.name,
                one.in_flight,
                one.longest_idle_ms if one.in_flight else None,
                one.idle_ms,
                one.inactive_ms,
                one.redelivered,
                one.state,
            )
            for one in found.consumers
        ]
        order = ("gone", "not polling", "working", "waiting")
        workers.sort(key=lambda one: (order.index(one.state), -one.pending, one.name))
        return WorkersView(row, tuple(workers)), now_ms
