"""Workers: who reads the queue, what each holds, and whether it still lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.widgets import Static

from chasqui_cli.changes import counted
from chasqui_cli.times import span
from chasqui_cli.tui.lines import words_of
from chasqui_cli.tui.panes.pane import Change, Pane, change
from chasqui_cli.tui.widgets.drawing import Cell
from chasqui_cli.tui.widgets.records import Col, RecordTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import WorkerRow, WorkersView

COLUMNS = [
    Col("verdict", "VERDICT", 13),
    Col("name", "CONSUMER", 14, grow=True),
    Col("group", "GROUP", 10, keep=40),
    Col("pending", "HOLDS", 5, "right"),
    Col("oldest", "OLDEST", 6, "right", keep=20),
    Col("idle", "IDLE", 6, "right"),
    Col("inactive", "INACTIVE", 8, "right", keep=30),
    Col("again", "AGAIN", 5, "right", keep=25),
]
VERDICTS = {
    "working": ("● working", "ok", 2),
    "waiting": ("○ waiting", "idle", 3),
    "not polling": ("◆ not polling", "warn", 1),
    "gone": ("▲ gone", "crit", 0),
}


class WorkersTab(Pane):
    """The crew."""

    tab = "workers"
    BINDINGS: ClassVar[list[BindingType]] = [
        change("P", "prune", "prune gone"),
        change("C", "claim", "claim jobs"),
    ]

    def compose(self) -> ComposeResult:
        """One table."""
        yield Static(id="workers-head", classes="head")
        yield RecordTable(COLUMNS, can_mark=True, id="workers")

    def draw(self) -> None:
        """Rows, worst first."""
        view: WorkersView = self.view
        seen = view.row.sure
        told = f"   {counted(len(view.workers), 'consumers')}, {seen.pending:,} in flight"
        self.say("#workers-head", *self.headline(view.row, (told, "dim")))
        self.query_one(RecordTable).show(self.kept([(_key(row), _worker(row)) for row in view.workers]))

    def yank(self) -> str | None:
        """The consumer's name."""
        row = self._chosen()
        return row.name if row else None

    def change(self, name: str) -> Change | str:
        """Prune consumers that are gone, or let others have what one holds."""
        if name == "prune":
            marked = self._marked()
            chosen = marked or [row for row in self._rows() if row.verdict == "gone"]
            gone = [row.name for row in chosen if not row.pending]
            if not gone:
                return "nobody here is gone and holds nothing; mark one with space to remove it all the same"
            return Change(
                f"remove {len(gone):,} consumer{'s' * (len(gone) != 1)} of {self.queue}",
                words_of("workers prune", self.queue, *gone),
                self.queue,
                "--gone-after 10m  --note TEXT",
            )
        chosen = self._marked() or ([row] if (row := self._chosen()) else [])
        holding = [row.name for row in chosen if row.pending]
        if not holding:
            return "that consumer holds nothing"
        return Change(
            f"let others have what {', '.join(holding)} holds",
            words_of("workers claim", self.queue, *holding),
            self.queue,
        )

    def _rows(self) -> list[WorkerRow]:
        return list(self.view.workers) if self.view else []

    def _marked(self) -> list[WorkerRow]:
        marked = self.query_one(RecordTable).marked
        return [row for row in self._rows() if _key(row) in marked]

    def _chosen(self) -> WorkerRow | None:
        key = self.query_one(RecordTable).current
        return next((row for row in self._rows() if _key(row) == key), None)


def _key(row: WorkerRow) -> str:
    return f"{row.group}\0{row.name}"


def _worker(row: WorkerRow) -> dict[str, Cell]:
    return {
        "verdict": Cell(*VERDICTS.get(row.verdict, (row.verdict, "", 9))),
        "name": Cell(row.name),
        "group": Cell(row.group, "dim"),
        "pending": Cell(str(row.pending), "" if row.pending else "dim", row.pending),
        "oldest": Cell("–" if row.oldest_ms is None else span(row.oldest_ms), "", row.oldest_ms),
        "idle": Cell(span(row.idle_ms), "", row.idle_ms),
        "inactive": Cell("–" if row.inactive_ms is None else span(row.inactive_ms), "dim", row.inactive_ms),
        "again": Cell(str(row.redelivered), "warn" if row.redelivered else "dim", row.redelivered),
    }
