"""The reader for one queue: how it stands, and what its last events tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import events
from chasqui.figures import figures
from chasqui_cli.places import is_ours
from chasqui_cli.tui.feed.asking import QueueAsker, keys_of
from chasqui_cli.tui.views import QueueView

if TYPE_CHECKING:
    from chasqui_cli.tui.messages import Target
    from chasqui_cli.tui.views import OtherView

EVENTS = 200
PACE_CELLS, PACE_MS = 20, 600_000


class QueueReader(QueueAsker):
    """One queue, and what its last events tell."""

    async def read(self, target: Target) -> tuple[QueueView | OtherView, int]:
        """In one round trip."""
        queue = target.queue or ""
        if not is_ours(queue):
            from chasqui_cli.tui.feed.others import read_other

            return await read_other(self.place, queue)
        latest = events.latest(self.place.commands, keys_of(queue), EVENTS)
        row, now_ms, [told] = await self.ask(queue, latest)
        came, left = self.place.memory.trend(queue).pace(PACE_CELLS, PACE_MS)
        return QueueView(row, figures(told), tuple(came), tuple(left)), now_ms
