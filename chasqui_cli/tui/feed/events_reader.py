"""The reader for events: the last ones first, then new ones as they come, with a line where some are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import entry_time_ms
from chasqui.inspect import events
from chasqui.inspect.events import StoredEvent
from chasqui_cli.output.redaction import redacted
from chasqui_cli.output.times import format_duration
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.views import EventRow, EventsView

if TYPE_CHECKING:
    from chasqui.inspect.events import EventPosition, Gap
    from chasqui_cli.tui.feed.tab_reader import FeedContext
    from chasqui_cli.tui.feed_messages import QueueRow, ReadTarget

INITIAL_EVENTS = 200
PAGE_SIZE = 500
_GAP_REASONS = {
    "trimmed": "trimmed before they could be read",
    "deleted": "the events were deleted",
    "recreated": "the stream was made anew",
    "rewound": "the server was set back to an earlier state",
}


class EventsReader(QueueTabReader):
    """Events as they come."""

    def __init__(self, place: FeedContext) -> None:
        super().__init__(place)
        self._position: EventPosition | None = None
        self._begins_at = 0
        self._gaps = 0

    async def read(self, target: ReadTarget) -> tuple[EventsView, int]:
        """In one round trip once it runs. What comes faster than it can be read is passed over, and that is said."""
        queue, commands = target.queue or "", self.place.commands
        if self._position is None or self._position.keys != queue_keys(queue):
            return await self._read_latest(queue)
        row, now_ms, [[haul]] = await self.query(queue, events.read_after(commands, [self._position], count=PAGE_SIZE))
        if haul.error:
            raise haul.error
        lines = [self._event_row(item, now_ms) for item in haul.items]
        self._position = haul.position
        if haul.more and len(haul.items) >= PAGE_SIZE:
            [self._position] = await self.place.link.run(events.start_positions(commands, [queue_keys(queue)]))
            self._gaps += 1
            note = "more events than can be shown: the rest was passed over"
            lines.append(EventRow(f"gap-{self._gaps}", now_ms, "gap", "", "", None, note))
        return EventsView(row, tuple(lines), False, _reach_ms(row, now_ms), haul.more), now_ms

    async def _read_latest(self, queue: str) -> tuple[EventsView, int]:
        commands, keys = self.place.commands, queue_keys(queue)
        row, now_ms, [stored] = await self.query(queue, events.latest_events(commands, keys, INITIAL_EVENTS))
        last = stored[-1].entry_id if stored else "0-0"
        [self._position] = await self.place.link.run(events.start_positions(commands, [keys], last))
        return (
            EventsView(row, tuple(self._event_row(one, now_ms) for one in stored), True, _reach_ms(row, now_ms), False),
            now_ms,
        )

    def _event_row(self, item: StoredEvent | Gap, now_ms: int) -> EventRow:
        if not isinstance(item, StoredEvent):
            self._gaps += 1
            lost = "some" if item.lost_estimate is None else f"{item.lost_estimate:,}"
            return EventRow(
                f"gap-{self._gaps}", now_ms, "gap", "", "", None, f"{lost} events missing: {_GAP_REASONS[item.why]}"
            )
        event = item.event
        at_ms = event.ts if event.ts is not None else entry_time_ms(item.entry_id)
        return EventRow(item.entry_id, at_ms, event.kind, event.name, event.job_id or "", event.attempt, _note(item))


def _note(stored: StoredEvent) -> str:
    event = stored.event
    parts: list[str] = []
    if event.duration_us is not None:
        parts.append(f"ran {event.duration_us / 1000:.1f} ms")
    if event.backoff_ms is not None:
        parts.append(f"again in {format_duration(event.backoff_ms)}")
    if event.delay_ms is not None:
        parts.append(f"delayed {format_duration(event.delay_ms)}")
    if event.reason:
        parts.append(str(redacted(event.reason)))
    return "  ".join(parts)


def _reach_ms(row: QueueRow, now_ms: int) -> int | None:
    first = row.native_snapshot.events.first_id if row.snapshot else None
    return None if first is None else now_ms - entry_time_ms(first)
