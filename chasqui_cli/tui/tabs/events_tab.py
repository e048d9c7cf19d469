"""Events: what happens, as it happens, with a line where something is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.widgets import Static

from chasqui_cli.output.times import format_duration, format_iso
from chasqui_cli.tui.tabs.tab_base import TabBase
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import EventRow, EventsView

MAX_ROWS = 2000
MAX_ROWS_SHOWN = 300
COLUMNS = [
    TableColumn("time", "TIME", 12),
    TableColumn("event", "EVENT", 18),
    TableColumn("name", "NAME", 12, drop_order=20),
    TableColumn("id", "JOB", 26, drop_order=10),
    TableColumn("attempt", "RUN", 3, "right", drop_order=30),
    TableColumn("note", "TELLS", 10, grow=True, drop_order=5),
]
EVENT_STYLES = {
    "completed": ("● completed", "ok"),
    "failed": ("◆ failed", "warn"),
    "dlq": ("▲ dlq", "crit"),
    "retry-scheduled": ("↻ retry-scheduled", "warn"),
    "active": ("▸ active", "accent"),
    "waiting": ("· waiting", "dim"),
    "delayed": ("· delayed", "dim"),
    "drained": ("○ drained", "dim"),
    "gap": ("✂ gap", "crit"),
}


class EventsTab(TabBase):
    """The tail."""

    tab = "events"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "freeze", "freeze", id="events.freeze"),
        Binding("m", "minute(-1)", "a minute back", show=False, id="events.minute-back"),
        Binding("n", "minute(1)", "a minute on", show=False, id="events.minute-on"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[EventRow] = []
        self._frozen: list[EventRow] | None = None
        self._missed = 0

    @property
    def _rows_shown(self) -> list[EventRow]:
        """What is shown: once it is frozen, so much may happen that nothing of it is kept any more."""
        return self._lines if self._frozen is None else self._frozen

    def compose(self) -> ComposeResult:
        """One table, newest below."""
        yield Static(id="events-head", classes="head")
        yield RecordTable(COLUMNS, id="events")

    def clear(self) -> None:
        super().clear()
        self._lines, self._frozen = [], None

    def show(self, view: Any, now_ms: int) -> None:
        """Add the new events; draw them unless frozen."""
        lines: EventsView = view
        known = {line.key for line in self._frozen or ()}
        self._missed = sum(line.key not in known for line in lines.lines) + (0 if lines.restarted else self._missed)
        self._lines = [*([] if lines.restarted else self._lines), *lines.lines][-MAX_ROWS:]
        super().show(view, now_ms)

    def draw(self) -> None:
        """The last lines that the filter lets through."""
        view: EventsView = self.view
        table = self.query_one(RecordTable)
        follows = table.cursor_row >= table.row_count - 1
        rows = self.filtered([(line.key, _event_cells(line)) for line in self._rows_shown])[-MAX_ROWS_SHOWN:]
        table.set_rows(rows, to_end=follows and self._frozen is None)
        reach = "no events yet" if view.horizon_ms is None else f"events reach back {format_duration(view.horizon_ms)}"
        frozen = f"   ⏸ frozen, {self._missed:,} more" if self._frozen is not None else ""
        sampled = "   ✂ too many to show all" if view.sampled else ""
        self.set_text(
            "#events-head", *self.headline(view.row, (f"   {reach}", "dim"), (frozen, "warn"), (sampled, "warn"))
        )

    def action_freeze(self) -> None:
        """Hold what is shown; what comes is kept, and shown afterwards."""
        self._frozen, self._missed = list(self._lines) if self._frozen is None else None, 0
        if self.view is not None:
            self.draw()

    def action_minute(self, by: int) -> None:
        """To the first event of the minute before, or after."""
        table = self.query_one(RecordTable)
        times = {line.key: line.at_ms for line in self._rows_shown}
        keys = table.row_keys
        at = times.get(table.current or "")
        if at is None or not keys:
            return
        wanted = (at // 60_000 + by) * 60_000
        inside = [key for key in keys if wanted <= times[key] < wanted + 60_000]
        beyond = [key for key in keys if (times[key] < wanted if by < 0 else times[key] >= wanted)]
        goal = inside[0] if inside else (beyond[-1] if by < 0 else beyond[0]) if beyond else None
        if goal:
            table.select(goal)

    def on_row_list_selected(self) -> None:
        self.dashboard.action_why()

    def job_id(self) -> str | None:
        """The job an event is about."""
        key = self.query_one(RecordTable).current
        return next((line.job_id for line in self._rows_shown if line.key == key), None) or None

    def copy_text(self) -> str | None:
        return self.job_id()


def _event_cells(line: EventRow) -> dict[str, Cell]:
    shown, style = EVENT_STYLES.get(line.kind, (f"? {line.kind}", ""))
    return {
        "time": Cell(format_iso(line.at_ms)[11:23], "dim"),
        "event": Cell(shown, style),
        "name": Cell(line.name or "–", "" if line.name else "dim"),
        "id": Cell(line.job_id or "–", "" if line.job_id else "dim"),
        "attempt": Cell(
            "" if line.attempt is None else str(line.attempt), "warn" if (line.attempt or 0) > 1 else "dim"
        ),
        "note": Cell(line.note, "crit" if line.kind == "gap" else ""),
    }
