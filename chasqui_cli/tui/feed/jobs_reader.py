"""The reader for jobs: those that wait, and those in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import entry_order
from chasqui.inspect import jobs_by_state
from chasqui_cli.tui.feed.job_details import job_row
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.views import InFlightRow, JobsView

if TYPE_CHECKING:
    from chasqui_cli.tui.feed.tab_reader import FeedContext
    from chasqui_cli.tui.feed_messages import QueueRow, ReadTarget

PAGE_SIZE = 50


class JobsReader(QueueTabReader):
    """Jobs that wait and jobs in flight. Which are still to be read is known from the tick before."""

    def __init__(self, place: FeedContext) -> None:
        super().__init__(place)
        self._groups: dict[str, list[tuple[str, str]]] = {}

    async def read(self, target: ReadTarget) -> tuple[JobsView, int]:
        """In one round trip, but for the first time."""
        queue, commands = target.queue or "", self.place.commands
        if queue not in self._groups:
            self._remember(queue, (await self.query(queue))[0])
        groups, count = self._groups[queue], PAGE_SIZE * (target.page + 1)
        after = min((last for _, last in groups), key=entry_order, default=None)
        row, now_ms, [waiting, flying] = await self.query(
            queue,
            jobs_by_state.list_waiting(commands, queue_keys(queue), count, after=after),
            jobs_by_state.list_in_flight(commands, queue_keys(queue), [name for name, _ in groups], count),
        )
        self._remember(queue, row)
        flights = [InFlightRow(one.entry_id, one.group, one.consumer, one.idle_ms, one.deliveries) for one in flying]
        rows = [job_row(one.entry_id or "", one.job, one.name, None, one) for one in waiting]
        return JobsView(row, tuple(rows), tuple(flights)), now_ms

    def _remember(self, queue: str, row: QueueRow) -> None:
        groups = row.native_snapshot.groups if row.snapshot else ()
        self._groups[queue] = [(group.name, group.last_id) for group in groups]
