"""Fleet: every queue in a line, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.widgets import Static

from chasqui_cli.times import span
from chasqui_cli.tui.panes.pane import LOOKS, Pane
from chasqui_cli.tui.trends import HOUR_MS, forecast, per_second, short, spark
from chasqui_cli.tui.widgets.drawing import Cell
from chasqui_cli.tui.widgets.records import Col, RecordTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.messages import FleetView, QueueRow

KINDS = {"chasquimq": "cmq", "joblist": "list"}


def columns(died: str = "+1h") -> list[Col]:
    """The columns; `died` is the title of the one that tells what died while we watched, and says since when."""
    return [
        Col("state", "●", 1),
        Col("queue", "QUEUE", 14, grow=True),
        Col("kind", "KIND", 4, keep=55),
        Col("waiting", "WAIT", 6, "right"),
        Col("age", "AGE", 6, "right"),
        Col("flight", "FLIGHT", 6, "right", keep=50),
        Col("in", "IN/s", 5, "right", keep=30),
        Col("out", "OUT/s", 5, "right", keep=30),
        Col("forecast", "FORECAST", 14, keep=5),
        Col("dlq", "DLQ", 5, "right", keep=10),
        Col("died", died, 6, "right", keep=60),
        Col("delayed", "DELAY", 6, "right", keep=40),
        Col("due", "DUE", 4, "right", keep=45),
        Col("cron", "CRON!", 5, "right", keep=70),
        Col("workers", "WORK", 4, "right", keep=20),
        Col("line", "▁▂▃ 10m", 10, keep=80),
    ]


class Fleet(Pane):
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

    def on_listing_selected(self) -> None:
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
        """Rows, worst first."""
        view: FleetView = self.view
        table = self.query_one(RecordTable)
        watched = max((row.watched_ms for row in view.rows), default=0)
        table.retitle(columns("+1h" if watched >= HOUR_MS * 0.98 else f"+{watched // 60_000 or 1}m"))
        rows = [row for row in view.rows if row.level >= 2 or not self.hides_healthy]
        kept = self.kept([(row.queue, cells(row)) for row in rows])
        table.show(kept)
        self.say("#fleet-note", *self._note(view, len(kept)))

    def _note(self, view: FleetView, shown: int) -> list[tuple[object, str]]:
        if not view.rows and view.complete:
            return [
                ("no queue among the ", "dim"),
                (f"{view.total:,}", "strong"),
                (" keys of this server; add a job with: ", "dim"),
                ("chasqui add QUEUE", "accent"),
            ]
        parts: list[tuple[object, str]] = []
        if not view.complete:
            parts.append((f"looking through the keys: {view.looked:,} of {view.total:,}  ", "warn"))
        if shown != len(view.rows):
            hidden = " (healthy ones hidden: h)" if self.hides_healthy else ""
            parts.append((f"{shown:,} of {len(view.rows):,} queues{hidden}", "dim"))
        return parts


def cells(row: QueueRow) -> dict[str, Cell]:
    """One queue."""
    look = LOOKS[row.level]
    state = Cell(row.glyph, "idle" if row.word == "idle" else look, -row.level)
    if row.seen is None:
        return {"state": state, "queue": Cell(row.queue, "crit"), "forecast": Cell(row.error or "", "crit")}
    seen, rates = row.seen, row.rates
    later = "–" if seen.kind == "joblist" else "…"
    told = forecast(seen.waiting, rates, unknown=later)
    bad = told == "stalled" or told.startswith("grows")
    late = seen.repeatable_overdue
    return {
        "state": state,
        "queue": Cell(row.queue, "strong" if row.level >= 2 else ""),
        "kind": Cell(KINDS.get(seen.kind, seen.kind), "dim"),
        "waiting": _count(seen.waiting),
        "age": Cell(span(seen.oldest_waiting_ms) if seen.waiting else "–", "", seen.oldest_waiting_ms),
        "flight": _count(seen.pending),
        "in": Cell(per_second(rates.arriving) if rates else later, "", rates.arriving if rates else -1),
        "out": Cell(per_second(rates.leaving) if rates else later, "", rates.leaving if rates else -1),
        "forecast": Cell(
            told, look if bad and row.level >= 2 else "warn" if bad else "dim" if told == "–" else ""
        ),
        "dlq": _count(seen.dlq_depth, "warn"),
        "died": _died(row),
        "delayed": _count(seen.delayed_depth),
        "due": _count(seen.delayed_due, "warn"),
        "cron": Cell(f"{late}!", "warn", late) if late else _count(seen.repeatable_count, "dim"),
        "workers": _count(seen.consumers),
        "line": Cell(spark(list(row.line)), "accent"),
    }


def _died(row: QueueRow) -> Cell:
    """Only our dead letters are counted as they come."""
    if row.seen is None or row.seen.kind != "chasquimq":
        return Cell("–", "dim", -1)
    return Cell(f"+{short(row.died)}" if row.died else "0", "warn" if row.died else "dim", row.died)


def _count(number: int | None, style: str = "") -> Cell:
    """A dash where a system has no such idea."""
    if number is None:
        return Cell("–", "dim", -1)
    return Cell(short(number), style if number else "dim", number)
