"""Cron: repeatable jobs in words, their next fires, and which of them are overdue."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from chasqui_cli.output.times import format_duration
from chasqui_cli.tui.command_line import command_words
from chasqui_cli.tui.tabs.tab_base import ChangeRequest, TabBase, change_binding
from chasqui_cli.tui.trends import short_count
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import CronView, ScheduleRow
    from chasqui_cli.tui.widgets.row_list import RowList

LATE_MS = 5_000
COLUMNS = [
    TableColumn("state", "", 9),
    TableColumn("key", "KEY", 14),
    TableColumn("name", "NAME", 12, drop_order=50),
    TableColumn("words", "FIRES", 30, drop_order=10, grow=True),
    TableColumn("next", "NEXT", 10),
    TableColumn("fired", "FIRED", 6, "right", drop_order=30),
    TableColumn("limit", "OF", 5, "right", drop_order=40),
]


class CronTab(TabBase):
    """What comes again."""

    tab = "cron"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "preview", "next fires", id="cron.preview"),
        change_binding("N", "run", "run once"),
        change_binding("D", "remove", "remove"),
    ]

    def compose(self) -> ComposeResult:
        """Schedules, and the next fires of one."""
        yield Static(id="cron-head", classes="head")
        with Horizontal(classes="columns", id="cron-panes"):
            yield RecordTable(COLUMNS, can_mark=False, id="specs")
            with VerticalScroll(classes="box detail", id="cron-detail") as box:
                box.border_title = "next fires"
                yield Static(id="fires")

    def draw(self) -> None:
        """Rows, and the fires of the one under the cursor."""
        view: CronView = self.view
        seen = view.row.native_snapshot
        late = f", {seen.repeatable_overdue:,} overdue" if seen.repeatable_overdue else ""
        count = f"   {seen.repeatable_count:,} schedule{'s' * (seen.repeatable_count != 1)}"
        self.set_text("#cron-head", *self.headline(view.row, (count, "dim"), (late, "warn")))
        self.query_one(RecordTable).set_rows(
            self.filtered([(row.key, _schedule_cells(row, self.now_ms)) for row in view.specs])
        )
        self._draw_fires()

    def on_row_list_highlighted(self, event: RowList.Highlighted) -> None:
        self._draw_fires()

    def on_row_list_selected(self) -> None:
        self.action_preview()

    def action_preview(self) -> None:
        """The next fires as the command line prints them, with notes on clock changes."""
        row = self._chosen()
        if row is not None:
            self.dashboard.show_output("preview", command_words("repeatable preview", self.queue, row.key))

    def _draw_fires(self) -> None:
        row = self._chosen()
        if row is None:
            self.set_text("#fires", ("", ""))
            return
        parts: list[tuple[object, str]] = [
            (row.name or row.key, "strong"),
            ("\n", ""),
            (row.words, "accent"),
            ("\n", ""),
        ]
        if row.unreadable:
            parts += [("unreadable: ", "crit"), (row.unreadable, "crit")]
        for fire in row.fires:
            late = fire.at_ms <= self.now_ms
            when = (
                f"{format_duration(self.now_ms - fire.at_ms)} late"
                if late
                else f"in {format_duration(fire.at_ms - self.now_ms)}"
            )
            parts += [(fire.local, ""), (f"  {when}", "warn" if late else "dim"), ("\n", "")]
            if fire.note:
                parts += [(f"  {fire.note}", "warn"), ("\n", "")]
        self.set_text("#fires", *parts)

    def copy_text(self) -> str | None:
        return self.query_one(RecordTable).current

    def change_request(self, name: str) -> ChangeRequest | str:
        row = self._chosen()
        if row is None:
            return "no schedule is under the cursor"
        verb, title = ("run", "run once") if name == "run" else ("remove", "remove")
        return ChangeRequest(
            f"{title}: {row.key} of {self.queue}", command_words(f"repeatable {verb}", self.queue, row.key)
        )

    def _chosen(self) -> ScheduleRow | None:
        key = self.query_one(RecordTable).current
        return next((row for row in self.view.specs if row.key == key), None) if self.view else None


def _schedule_cells(row: ScheduleRow, now_ms: int) -> dict[str, Cell]:
    late_ms = now_ms - row.next_ms
    state = Cell("● ok", "ok", 1)
    if late_ms > LATE_MS:
        state = Cell("◆ overdue", "warn", 0)
    if row.unreadable:
        state = Cell("▲ broken", "crit", -1)
    when = f"in {format_duration(-late_ms)}" if late_ms < 0 else f"{format_duration(late_ms)} late"
    return {
        "state": state,
        "key": Cell(row.key),
        "name": Cell(row.name or "–", "strong" if row.name else "dim"),
        "words": Cell(row.unreadable or row.words, "crit" if row.unreadable else ""),
        "next": Cell(when, "warn" if late_ms > LATE_MS else "", row.next_ms),
        "fired": Cell(short_count(row.fired), "dim", row.fired),
        "limit": Cell("–" if row.limit is None else short_count(row.limit), "dim", row.limit),
    }
