"""The reader for workers: who reads the queue, and whether each still lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import Keys, crew
from chasqui_cli.tui.feed.asking import QueueAsker
from chasqui_cli.tui.views import WorkerRow, WorkersView

if TYPE_CHECKING:
    from chasqui_cli.tui.messages import Target


class WorkersReader(QueueAsker):
    """Who reads the queue."""

    async def read(self, target: Target) -> tuple[WorkersView, int]:
        """In two round trips: the groups, then their consumers."""
        queue = target.queue or ""
        row, now_ms, [found] = await self.ask(queue, crew.muster(self.place.commands, Keys(queue), scan=1000))
        workers = [
            WorkerRow(
                one.group,
                one.name,
                one.in_flight,
                one.oldest_ms if one.in_flight else None,
                one.idle_ms,
                one.inactive_ms,
                one.again,
                one.verdict,
            )
            for one in found.members
        ]
        order = ("gone", "not polling", "working", "waiting")
        workers.sort(key=lambda one: (order.index(one.verdict), -one.pending, one.name))
        return WorkersView(row, tuple(workers)), now_ms
