"""Delayed: when jobs fall due, and each of the next ones, to be run now, cancelled or moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from chasqui_cli.output.times import format_duration, format_iso
from chasqui_cli.tui.command_line import command_words
from chasqui_cli.tui.tabs.tab_base import ChangeRequest, TabBase, change_binding
from chasqui_cli.tui.trends import gauge, short_count
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import DelayedView, JobRow
    from chasqui_cli.tui.widgets.row_list import RowList

COLUMNS = [
    TableColumn("due", "DUE", 11),
    TableColumn("id", "JOB", 26),
    TableColumn("name", "NAME", 12, drop_order=10),
    TableColumn("attempt", "RUN", 3, "right", drop_order=30),
    TableColumn("size", "BYTES", 6, "right", drop_order=40),
    TableColumn("data", "CARRIES", 10, drop_order=50, grow=True),
]
BAR_WIDTH = 24


class DelayedTab(TabBase):
    """What waits for its time."""

    tab = "delayed"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "more", "more", show=False, id="delayed.more"),
        change_binding("N", "now", "run now"),
        change_binding("K", "cancel", "cancel"),
        change_binding("M", "move", "move"),
    ]

    def compose(self) -> ComposeResult:
        """A histogram next to the list."""
        yield Static(id="delayed-head", classes="head")
        with Horizontal(classes="columns", id="delayed-panes"):
            yield RecordTable(COLUMNS, can_mark=True, id="delayed")
            with VerticalScroll(id="delayed-side"):
                with VerticalScroll(classes="box", id="delayed-histogram") as box:
                    box.border_title = "fall due"
                    yield Static(id="histogram")
                with VerticalScroll(classes="box detail", id="delayed-detail") as box:
                    box.border_title = "job"
                    yield Static(id="delayed-job")

    def draw(self) -> None:
        view: DelayedView = self.view
        seen = view.row.native_snapshot
        count = f"   {seen.delayed_depth:,} delayed"
        late = (
            f", {seen.delayed_due:,} due for {format_duration(seen.oldest_delayed_lag_ms)}" if seen.delayed_due else ""
        )
        self.set_text("#delayed-head", *self.headline(view.row, (count, "dim"), (late, "warn")))
        self.query_one(RecordTable).set_rows(
            self.filtered([(row.key, _job_cells(row, self.now_ms)) for row in view.jobs])
        )
        self.set_text("#histogram", *histogram_lines(view, self.now_ms))

    def on_row_list_highlighted(self, event: RowList.Highlighted) -> None:
        """The job under the cursor, opened."""
        row = self._chosen()
        if row is not None:
            self.dashboard.show_details(row.raw, "#delayed-job", skip=("hex",))

    def on_row_list_selected(self) -> None:
        self.dashboard.action_why()

    def action_more(self) -> None:
        self.page += 1
        self.dashboard.load_page()

    def job_id(self) -> str | None:
        """The job under the cursor."""
        row = self._chosen()
        return row.job_id if row else None

    def copy_text(self) -> str | None:
        return self.job_id()

    def change_request(self, name: str) -> ChangeRequest | str:
        """Run now, cancel, move."""
        table = self.query_one(RecordTable)
        keys = [key for key in table.row_keys if key in table.marked] or [table.current or ""]
        rows = {row.key: row for row in self.view.jobs} if self.view else {}
        ids = [rows[key].job_id for key in keys if key in rows and rows[key].job_id]
        if not ids:
            return "no job is under the cursor"
        count = f"{len(ids):,} delayed job{'s' * (len(ids) != 1)} of {self.queue}"
        title = {"now": "run", "cancel": "cancel", "move": "move"}[name]
        words = command_words(f"delayed {name}", self.queue, *ids)
        if name == "move":
            return ChangeRequest(f"{title} {count}", words, needs_options=True)
        return ChangeRequest(f"{title} {count}", words)

    def _chosen(self) -> JobRow | None:
        key = self.query_one(RecordTable).current
        return next((row for row in self.view.jobs if row.key == key), None) if self.view else None


def histogram_lines(view: DelayedView, now_ms: int) -> list[tuple[object, str]]:
    """How many fall due when."""
    most = max((count for *_, count in view.buckets), default=0)
    if not most:
        return [("nothing is delayed", "dim")]
    parts: list[tuple[object, str]] = []
    for begin, end, count in view.buckets:
        if begin is None and not count:
            continue
        when = "overdue" if begin is None else f"later than {_clock(begin)}" if end is None else _clock(begin)
        style = "warn" if begin is None else "accent"
        parts += [
            (f"{when:<9.9}", style if begin is None else "dim"),
            (gauge(count / most, BAR_WIDTH) if count else "·".ljust(BAR_WIDTH), style if count else "dim"),
            (f" {count:,}", "" if count else "dim"),
            ("\n", ""),
        ]
    return parts


def _clock(ms: int) -> str:
    return format_iso(ms)[11:19] if ms >= 0 else str(ms)


def _job_cells(row: JobRow, now_ms: int) -> dict[str, Cell]:
    due = row.due_ms or 0
    late = due <= now_ms
    when = f"! {format_duration(now_ms - due)} late" if late else f"in {format_duration(due - now_ms)}"
    return {
        "due": Cell(when, "warn" if late else "", due),
        "id": Cell(row.job_id or "–", "" if row.job_id else "dim"),
        "name": Cell(row.name or "–", "strong" if row.name else "dim"),
        "attempt": Cell("–" if row.attempt is None else str(row.attempt + 1), "warn" if row.attempt else "dim"),
        "size": Cell(short_count(row.size), "dim", row.size),
        "data": Cell(row.preview, "crit" if row.preview.startswith("unreadable") else "dim"),
    }
