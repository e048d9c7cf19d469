"""The reader for jobs: those that wait, and those in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import jobs
from chasqui_cli.tui.feed.asking import QueueAsker, keys_of
from chasqui_cli.tui.feed.opening import job_row
from chasqui_cli.tui.views import FlightRow, JobsView

if TYPE_CHECKING:
    from chasqui_cli.tui.feed.asking import Place
    from chasqui_cli.tui.messages import QueueRow, Target

PAGE = 50


class JobsReader(QueueAsker):
    """Jobs that wait and jobs in flight. Which are still to be read the tick before has told."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._groups: dict[str, list[tuple[str, str]]] = {}

    async def read(self, target: Target) -> tuple[JobsView, int]:
        """In one round trip, but for the first time."""
        queue, commands = target.queue or "", self.place.commands
        if queue not in self._groups:
            self._remember(queue, (await self.ask(queue))[0])
        groups, count = self._groups[queue], PAGE * (target.page + 1)
        after = min((last for _, last in groups), key=_order, default=None)
        row, now_ms, [waiting, flying] = await self.ask(
            queue,
            jobs.waiting(commands, keys_of(queue), count, after=after),
            jobs.in_flight(commands, keys_of(queue), [name for name, _ in groups], count),
        )
        self._remember(queue, row)
        flights = [
            FlightRow(one.entry_id, one.group, one.consumer, one.idle_ms, one.deliveries) for one in flying
        ]
        rows = [job_row(one.entry_id or "", one.job, one.name, None, one) for one in waiting]
        return JobsView(row, tuple(rows), tuple(flights)), now_ms

    def _remember(self, queue: str, row: QueueRow) -> None:
        groups = row.sure.groups if row.seen else ()
        self._groups[queue] = [(group.name, group.last_id) for group in groups]


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, nth = entry_id.partition("-")
    return int(ms), int(nth or 0)
