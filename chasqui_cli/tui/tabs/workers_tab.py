"""Workers: who reads the queue, what each holds, and whether it still lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.widgets import Static

from chasqui_cli.changes.confirm import plural
from chasqui_cli.output.times import format_duration
from chasqui_cli.tui.command_line import command_words
from chasqui_cli.tui.tabs.tab_base import ChangeRequest, TabBase, change_binding
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import WorkerRow, WorkersView

COLUMNS = [
    TableColumn("verdict", "VERDICT", 13),
    TableColumn("name", "CONSUMER", 14, grow=True),
    TableColumn("group", "GROUP", 10, drop_order=40),
    TableColumn("pending", "HOLDS", 5, "right"),
    TableColumn("oldest", "OLDEST", 6, "right", drop_order=20),
    TableColumn("idle", "IDLE", 6, "right"),
    TableColumn("inactive", "INACTIVE", 8, "right", drop_order=30),
    TableColumn("again", "AGAIN", 5, "right", drop_order=25),
]
STATUS_STYLES = {
    "working": ("● working", "ok", 2),
    "waiting": ("○ waiting", "idle", 3),
    "not polling": ("◆ not polling", "warn", 1),
    "gone": ("▲ gone", "crit", 0),
}


class WorkersTab(TabBase):
    """The crew."""

    tab = "workers"
    BINDINGS: ClassVar[list[BindingType]] = [
        change_binding("P", "prune", "prune gone"),
        change_binding("C", "claim", "claim jobs"),
    ]

    def compose(self) -> ComposeResult:
        yield Static(id="workers-head", classes="head")
        yield RecordTable(COLUMNS, can_mark=True, id="workers")

    def draw(self) -> None:
        view: WorkersView = self.view
        seen = view.row.native_snapshot
        summary = f"   {plural(len(view.workers), 'consumers')}, {seen.pending:,} in flight"
        self.set_text("#workers-head", *self.headline(view.row, (summary, "dim")))
        self.query_one(RecordTable).set_rows(
            self.filtered([(_row_key(row), _worker_cells(row)) for row in view.workers])
        )

    def copy_text(self) -> str | None:
        row = self._chosen()
        return row.name if row else None

    def change_request(self, name: str) -> ChangeRequest | str:
        """Prune consumers that are gone, or let others have what one holds."""
        if name == "prune":
            marked = self._marked()
            chosen = marked or [row for row in self._rows() if row.state == "gone"]
            gone = [row.name for row in chosen if not row.pending]
            if not gone:
                return "nobody here is gone and holds nothing; mark one with space to remove it all the same"
            return ChangeRequest(
                f"remove {len(gone):,} consumer{'s' * (len(gone) != 1)} of {self.queue}",
                command_words("workers prune", self.queue, *gone),
            )
        chosen = self._marked() or ([row] if (row := self._chosen()) else [])
        holding = [row.name for row in chosen if row.pending]
        if not holding:
            return "that consumer holds nothing"
        return ChangeRequest(
            f"let others have what {', '.join(holding)} holds", command_words("workers claim", self.queue, *holding)
        )

    def _rows(self) -> list[WorkerRow]:
        return list(self.view.workers) if self.view else []

    def _marked(self) -> list[WorkerRow]:
        marked = self.query_one(RecordTable).marked
        return [row for row in self._rows() if _row_key(row) in marked]

    def _chosen(self) -> WorkerRow | None:
        key = self.query_one(RecordTable).current
        return next((row for row in self._rows() if _row_key(row) == key), None)


def _row_key(row: WorkerRow) -> str:
    return f"{row.group}\0{row.name}"


def _worker_cells(row: WorkerRow) -> dict[str, Cell]:
    return {
        "verdict": Cell(*STATUS_STYLES.get(row.state, (row.state, "", 9))),
        "name": Cell(row.name),
        "group": Cell(row.group, "dim"),
        "pending": Cell(str(row.pending), "" if row.pending else "dim", row.pending),
        "oldest": Cell("–" if row.oldest_ms is None else format_duration(row.oldest_ms), "", row.oldest_ms),
        "idle": Cell(format_duration(row.idle_ms), "", row.idle_ms),
        "inactive": Cell("–" if row.inactive_ms is None else format_duration(row.inactive_ms), "dim", row.inactive_ms),
        "again": Cell(str(row.redelivered), "warn" if row.redelivered else "dim", row.redelivered),
    }
