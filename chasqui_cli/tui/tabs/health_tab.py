"""Health: the findings about the server and the queue, each with the command that fixes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from chasqui_cli.tui.command_line import command_words
from chasqui_cli.tui.tabs.tab_base import LEVEL_GLYPHS, LEVEL_STYLES, TabBase
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.feed_messages import FindingRow
    from chasqui_cli.tui.views import HealthView
    from chasqui_cli.tui.widgets.row_list import RowList

COLUMNS = [
    TableColumn("level", "LEVEL", 10),
    TableColumn("code", "CODE", 16, drop_order=20),
    TableColumn("text", "FINDING", 20, grow=True),
]
LEVEL_WORDS = ("ok", "note", "warning", "critical")


class HealthTab(TabBase):
    """The doctor."""

    tab = "health"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "doctor", "doctor", id="health.doctor")]

    def compose(self) -> ComposeResult:
        """Facts, findings, and the one under the cursor in full."""
        yield Static(id="health-head", classes="note")
        yield RecordTable(COLUMNS, id="findings-table")
        with VerticalScroll(classes="box detail", id="health-detail") as box:
            box.border_title = "finding"
            yield Static(id="finding")

    def draw(self) -> None:
        view: HealthView = self.view
        parts: list[tuple[object, str]] = []
        for name, value in view.facts:
            parts += [(f"{name} ", "dim"), (value, "warn" if _is_bad(name, value) else ""), ("   ", "")]
        self.set_text("#health-head", *parts)
        rows = [(f"{nth}", _finding_cells(one)) for nth, one in enumerate(view.findings)]
        self.query_one(RecordTable).set_rows(self.filtered(rows))
        self._draw_one()

    def on_row_list_highlighted(self, event: RowList.Highlighted) -> None:
        self._draw_one()

    def on_row_list_selected(self) -> None:
        self.action_doctor()

    def action_doctor(self) -> None:
        """The same on the command line."""
        queue = self.dashboard.queue  # with its prefix: the doctor takes queues of every kind
        self.dashboard.show_output("doctor", command_words("doctor", *([queue] if queue else [])))

    def copy_text(self) -> str | None:
        """The command that fixes it."""
        one = self._chosen()
        return one.fix if one else None

    def _draw_one(self) -> None:
        view: HealthView | None = self.view
        one = self._chosen()
        if view is not None and not view.findings:
            about = f"the server and {view.queue}" if view.queue else "the server"
            self.set_text("#finding", (f"● nothing is the matter with {about}", "ok"))
        elif one is None:
            self.set_text("#finding", ("", ""))
        else:
            fix: list[tuple[object, str]] = [("\n", ""), ("→ ", "dim"), (one.fix, "accent")] if one.fix else []
            self.set_text("#finding", (one.text, ""), *fix)

    def _chosen(self) -> FindingRow | None:
        key = self.query_one(RecordTable).current
        return self.view.findings[int(key)] if self.view and key and int(key) < len(self.view.findings) else None


def _is_bad(name: str, value: str) -> bool:
    return (name == "eviction" and value not in ("noeviction", "–")) or (name == "persistence" and value == "none")


def _finding_cells(one: FindingRow) -> dict[str, Cell]:
    return {
        "level": Cell(
            f"{LEVEL_GLYPHS[one.level]} {LEVEL_WORDS[one.level]}",
            LEVEL_STYLES[one.level] if one.level > 1 else "dim",
            -one.level,
        ),
        "code": Cell(one.code, "dim"),
        "text": Cell(one.text),
    }
