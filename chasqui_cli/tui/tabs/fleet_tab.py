"""Fleet: every queue in a line, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.widgets import Static

from chasqui_cli.output.times import format_duration
from chasqui_cli.tui.tabs.tab_base import LEVEL_STYLES, TabBase
from chasqui_cli.tui.trends import HOUR_MS, forecast_text, format_rate, short_count, sparkline
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.feed_messages import FleetView, QueueRow

KINDS = {"chasquimq": "cmq", "joblist": "list"}


def columns(died: str = "+1h") -> list[TableColumn]:
    """The columns. died: title of the column of jobs that died while the queue was watched; it has the time span."""
    return [
        TableColumn("state", "●", 1),
        TableColumn("queue", "QUEUE", 14, grow=True),
        TableColumn("kind", "KIND", 4, drop_order=55),
        TableColumn("waiting", "WAIT", 6, "right"),
        TableColumn("age", "AGE", 6, "right"),
        TableColumn("flight", "FLIGHT", 6, "right", drop_order=50),
        TableColumn("in", "IN/s", 5, "right", drop_order=30),
        TableColumn("out", "OUT/s", 5, "right", drop_order=30),
        TableColumn("forecast", "FORECAST", 14, drop_order=5),
        TableColumn("dlq", "DLQ", 5, "right", drop_order=10),
        TableColumn("died", died, 6, "right", drop_order=60),
        TableColumn("delayed", "DELAY", 6, "right", drop_order=40),
        TableColumn("due", "DUE", 4, "right", drop_order=45),
        TableColumn("cron", "CRON!", 5, "right", drop_order=70),
        TableColumn("workers", "WORK", 4, "right", drop_order=20),
        TableColumn("line", "▁▂▃ 10m", 10, drop_order=80),
    ]


class FleetTab(TabBase):
    """The opening screen."""

    tab = "fleet"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", id="fleet.open"),
        Binding("h,ctrl+z", "hide_healthy", "hide healthy", id="fleet.hide-healthy"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.hides_healthy = False

    def compose(self) -> ComposeResult:
        """A table, and a line for when it has nothing to say."""
        yield RecordTable(columns(), id="fleet")
        yield Static(id="fleet-note", classes="note")

    def on_row_list_selected(self) -> None:
        """Enter, or a second click."""
        self.action_open()

    def action_open(self) -> None:
        """Look at the queue under the cursor."""
        chosen = self.query_one(RecordTable).current
        if chosen is not None:
            self.dashboard.open_queue(chosen)

    def action_hide_healthy(self) -> None:
        """Only those that are not well, or all again."""
        self.hides_healthy = not self.hides_healthy
        if self.view is not None:
            self.draw()

    def draw(self) -> None:
        view: FleetView = self.view
        table = self.query_one(RecordTable)
        watched = max((row.watched_ms for row in view.rows), default=0)
        table.set_columns(columns("+1h" if watched >= HOUR_MS * 0.98 else f"+{watched // 60_000 or 1}m"))
        rows = [row for row in view.rows if row.level >= 2 or not self.hides_healthy]
        shown = self.filtered([(row.queue, queue_cells(row)) for row in rows])
        table.set_rows(shown)
        self.set_text("#fleet-note", *self._note(view, len(shown)))

    def _note(self, view: FleetView, shown: int) -> list[tuple[object, str]]:
        if not view.rows and view.complete:
            return [
                ("no queue among the ", "dim"),
                (f"{view.keys_total:,}", "strong"),
                (" keys of this server; add a job with: ", "dim"),
                ("chasqui add QUEUE", "accent"),
            ]
        parts: list[tuple[object, str]] = []
        if not view.complete:
            parts.append((f"looking through the keys: {view.keys_scanned:,} of {view.keys_total:,}  ", "warn"))
        if shown != len(view.rows):
            hidden = " (healthy ones hidden: h)" if self.hides_healthy else ""
            parts.append((f"{shown:,} of {len(view.rows):,} queues{hidden}", "dim"))
        return parts


def queue_cells(row: QueueRow) -> dict[str, Cell]:
    look = LEVEL_STYLES[row.level]
    state = Cell(row.glyph, "idle" if row.state == "idle" else look, -row.level)
    if row.snapshot is None:
        return {"state": state, "queue": Cell(row.queue, "crit"), "forecast": Cell(row.error or "", "crit")}
    seen, rates = row.snapshot, row.rates
    later = "–" if seen.kind == "joblist" else "…"
    forecast = forecast_text(seen.waiting, rates, unknown=later)
    bad = forecast == "stalled" or forecast.startswith("grows")
    late = seen.repeatable_overdue
    return {
        "state": state,
        "queue": Cell(row.queue, "strong" if row.level >= 2 else ""),
        "kind": Cell(KINDS.get(seen.kind, seen.kind), "dim"),
        "waiting": _count_cell(seen.waiting),
        "age": Cell(format_duration(seen.oldest_waiting_ms) if seen.waiting else "–", "", seen.oldest_waiting_ms),
        "flight": _count_cell(seen.pending),
        "in": Cell(format_rate(rates.arriving) if rates else later, "", rates.arriving if rates else -1),
        "out": Cell(format_rate(rates.leaving) if rates else later, "", rates.leaving if rates else -1),
        "forecast": Cell(
            forecast, look if bad and row.level >= 2 else "warn" if bad else "dim" if forecast == "–" else ""
        ),
        "dlq": _count_cell(seen.dlq_depth, "warn"),
        "died": _died_cell(row),
        "delayed": _count_cell(seen.delayed_depth),
        "due": _count_cell(seen.delayed_due, "warn"),
        "cron": Cell(f"{late}!", "warn", late) if late else _count_cell(seen.repeatable_count, "dim"),
        "workers": _count_cell(seen.consumers),
        "line": Cell(sparkline(list(row.waiting_history)), "accent"),
    }


def _died_cell(row: QueueRow) -> Cell:
    """Only our dead letters are counted as they come."""
    if row.snapshot is None or row.snapshot.kind != "chasquimq":
        return Cell("–", "dim", -1)
    return Cell(f"+{short_count(row.died)}" if row.died else "0", "warn" if row.died else "dim", row.died)


def _count_cell(number: int | None, style: str = "") -> Cell:
    """A dash where a system has no such idea."""
    if number is None:
        return Cell("–", "dim", -1)
    return Cell(short_count(number), style if number else "dim", number)
