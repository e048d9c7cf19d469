"""Jobs: those that wait and those in flight, and any one of them explained by its id."""

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

    from chasqui_cli.tui.views import InFlightRow, JobRow, JobsView
    from chasqui_cli.tui.widgets.row_list import RowList

WAITING_COLUMNS = [
    TableColumn("entry", "ENTRY", 17, drop_order=30),
    TableColumn("id", "JOB", 26, drop_order=10),
    TableColumn("name", "NAME", 14),
    TableColumn("attempt", "RUN", 3, "right", drop_order=20),
    TableColumn("age", "AGE", 6, "right"),
    TableColumn("size", "BYTES", 6, "right", drop_order=40),
    TableColumn("data", "CARRIES", 12, drop_order=50, grow=True),
]
IN_FLIGHT_COLUMNS = [
    TableColumn("entry", "ENTRY", 17),
    TableColumn("consumer", "CONSUMER", 9, grow=True),
    TableColumn("group", "GROUP", 8, drop_order=40),
    TableColumn("idle", "IDLE", 6, "right"),
    TableColumn("runs", "RUN", 3, "right", drop_order=10),
]


class JobsTab(TabBase):
    """What is in the stream."""

    tab = "jobs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "detail", "detail", id="jobs.detail"),
        Binding("f", "find", "find by id", id="jobs.find"),
        Binding("m", "more", "more", id="jobs.more"),
        change_binding("K", "cancel", "cancel job"),
    ]

    def compose(self) -> ComposeResult:
        """Two tables, and what one job carries."""
        yield Static(id="jobs-head", classes="head")
        yield RecordTable(WAITING_COLUMNS, id="waiting")
        yield Static("", id="flying-head", classes="head")
        with Horizontal(classes="lower"):
            yield RecordTable(IN_FLIGHT_COLUMNS, id="flying")
            with VerticalScroll(classes="box detail", id="jobs-detail") as box:
                box.border_title = "job"
                yield Static(id="job-detail")

    def draw(self) -> None:
        view: JobsView = self.view
        seen = view.row.native_snapshot
        more = f"   {seen.waiting:,} waiting"
        more += f", the oldest {len(view.waiting):,} here" if seen.waiting > len(view.waiting) else ""
        self.set_text("#jobs-head", *self.headline(view.row, (more, "dim")))
        self.set_text("#flying-head", (f"{seen.pending:,} in flight", "dim"))
        self.query_one("#waiting", RecordTable).set_rows(
            self.filtered([(row.key, _waiting_cells(row, self.now_ms)) for row in view.waiting])
        )
        self.query_one("#flying", RecordTable).set_rows(
            self.filtered([(f"{row.group} {row.entry_id}", _in_flight_cells(row)) for row in view.in_flight])
        )

    def on_row_list_highlighted(self, event: RowList.Highlighted) -> None:
        """The job under the cursor, opened."""
        row = self._chosen()
        if row is not None:
            self.dashboard.show_details(row.raw, "#job-detail")

    def on_row_list_selected(self) -> None:
        self.action_detail()

    def action_detail(self) -> None:
        """Why this job is where it is."""
        self.dashboard.action_why()

    def action_find(self) -> None:
        """Any job, by its id."""
        self.dashboard.ask_id()

    def action_more(self) -> None:
        self.page += 1
        self.dashboard.load_page()

    def job_id(self) -> str | None:
        """The waiting job under the cursor."""
        row = self._chosen()
        return row.job_id if row else None

    def copy_text(self) -> str | None:
        return self.job_id() or super().copy_text()

    def change_request(self, name: str) -> ChangeRequest | str:
        row = self._chosen()
        if row is None or not row.job_id:
            return "no job is under the cursor"
        return ChangeRequest(f"cancel job {row.job_id}", command_words("job cancel", self.queue, row.job_id))

    def _chosen(self) -> JobRow | None:
        if self.view is None:
            return None
        key = self.query_one("#waiting", RecordTable).current
        return next((row for row in self.view.waiting if row.key == key), None)


def _waiting_cells(row: JobRow, now_ms: int) -> dict[str, Cell]:
    since = int(row.key.partition("-")[0])
    return {
        "entry": Cell(row.key, "dim"),
        "id": Cell(row.job_id or "–", "" if row.job_id else "dim"),
        "name": Cell(row.name or "–", "strong" if row.name else "dim"),
        "attempt": Cell("–" if row.attempt is None else str(row.attempt + 1), "warn" if row.attempt else "dim"),
        "age": Cell(format_duration(max(0, now_ms - since)), "", now_ms - since),
        "size": Cell(short_count(row.size), "dim", row.size),
        "data": Cell(row.preview, "crit" if row.preview.startswith("unreadable") else "dim"),
    }


def _in_flight_cells(row: InFlightRow) -> dict[str, Cell]:
    return {
        "entry": Cell(row.entry_id, "dim"),
        "consumer": Cell(row.consumer),
        "group": Cell(row.group, "dim"),
        "idle": Cell(format_duration(row.idle_ms), "warn" if row.idle_ms > 30_000 else "", row.idle_ms),
        "runs": Cell(str(row.deliveries), "warn" if row.deliveries > 1 else "dim", row.deliveries),
    }
