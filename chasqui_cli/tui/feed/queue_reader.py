"""The reader for one queue: its state, and the stats of its last events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.inspect import events
from chasqui.inspect.event_stats import event_stats
from chasqui_cli.queues.queue_names import is_native
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.views import QueueView

if TYPE_CHECKING:
    from chasqui_cli.tui.feed_messages import ReadTarget
    from chasqui_cli.tui.views import ForeignQueueView

MAX_EVENTS = 200
PACE_CELLS, PACE_MS = 20, 600_000


class QueueReader(QueueTabReader):
    """One queue, and the stats of its last events."""

    async def read(self, target: ReadTarget) -> tuple[QueueView | ForeignQueueView, int]:
        """In one round trip."""
        queue = target.queue or ""
        if not is_native(queue):
            from chasqui_cli.tui.feed.foreign_queue import read_foreign_view

            return await read_foreign_view(self.place, queue)
        latest = events.latest_events(self.place.commands, queue_keys(queue), MAX_EVENTS)
        row, now_ms, [latest_events] = await self.query(queue, latest)
        came, left = self.place.memory.trend(queue).throughput_history(PACE_CELLS, PACE_MS)
        return QueueView(row, event_stats(latest_events), tuple(came), tuple(left)), now_ms
