"""The reader for events: the last ones first, then whatever is told, with a line where something is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import events
from chasqui.events import Told
from chasqui_cli.redaction import redacted
from chasqui_cli.times import span
from chasqui_cli.tui.feed.asking import QueueAsker, keys_of
from chasqui_cli.tui.views import EventLine, EventsView

if TYPE_CHECKING:
    from chasqui.events import Gap, Position
    from chasqui_cli.tui.feed.asking import Place
    from chasqui_cli.tui.messages import QueueRow, Target

FIRST = 200
AT_ONCE = 500
_WHY = {
    "trimmed": "trimmed before they could be read",
    "deleted": "the events were deleted",
    "recreated": "the stream was made anew",
    "rewound": "the server was set back to an earlier state",
}


class EventsReader(QueueAsker):
    """Events as they come."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._at: Position | None = None
        self._begins_at = 0
        self._gaps = 0

    async def read(self, target: Target) -> tuple[EventsView, int]:
        """In one round trip once it runs. What comes faster than it can be read is passed over, and that is said."""
        queue, commands = target.queue or "", self.place.commands
        if self._at is None or self._at.keys != keys_of(queue):
            return await self._begin(queue)
        row, now_ms, [[haul]] = await self.ask(queue, events.read_after(commands, [self._at], count=AT_ONCE))
        if haul.error:
            raise haul.error
        lines = [self._line(item, now_ms) for item in haul.items]
        self._at = haul.position
        if haul.more and len(haul.items) >= AT_ONCE:
            [self._at] = await self.place.link.run(events.begin(commands, [keys_of(queue)]))
            self._gaps += 1
            note = "more events than can be shown: the rest was passed over"
            lines.append(EventLine(f"gap-{self._gaps}", now_ms, "gap", "", "", None, note))
        return EventsView(row, tuple(lines), False, _horizon(row, now_ms), haul.more), now_ms

    async def _begin(self, queue: str) -> tuple[EventsView, int]:
        commands, keys = self.place.commands, keys_of(queue)
        row, now_ms, [told] = await self.ask(queue, events.latest(commands, keys, FIRST))
        last = told[-1].entry_id if told else "0-0"
        [self._at] = await self.place.link.run(events.begin(commands, [keys], last))
        return (
            EventsView(
                row, tuple(self._line(one, now_ms) for one in told), True, _horizon(row, now_ms), False
            ),
            now_ms,
        )

    def _line(self, item: Told | Gap, now_ms: int) -> EventLine:
        if not isinstance(item, Told):
            self._gaps += 1
            lost = "some" if item.lost_estimate is None else f"{item.lost_estimate:,}"
            return EventLine(
                f"gap-{self._gaps}", now_ms, "gap", "", "", None, f"{lost} events missing: {_WHY[item.why]}"
            )
        event = item.event
        at_ms = event.ts if event.ts is not None else int(item.entry_id.partition("-")[0])
        return EventLine(
            item.entry_id, at_ms, event.kind, event.name, event.job_id or "", event.attempt, _note(item)
        )


def _note(told: Told) -> str:
    event = told.event
    parts: list[str] = []
    if event.duration_us is not None:
        parts.append(f"ran {event.duration_us / 1000:.1f} ms")
    if event.backoff_ms is not None:
        parts.append(f"again in {span(event.backoff_ms)}")
    if event.delay_ms is not None:
        parts.append(f"delayed {span(event.delay_ms)}")
    if event.reason:
        parts.append(str(redacted(event.reason)))
    return "  ".join(parts)


def _horizon(row: QueueRow, now_ms: int) -> int | None:
    first = row.sure.events.first_id if row.seen else None
    return None if first is None else now_ms - int(first.partition("-")[0])
