"""Jobs: those that wait and those in flight, and any one of them explained by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from chasqui_cli.times import span
from chasqui_cli.tui.lines import words_of
from chasqui_cli.tui.panes.pane import Change, Pane, change
from chasqui_cli.tui.trends import short
from chasqui_cli.tui.widgets.drawing import Cell
from chasqui_cli.tui.widgets.records import Col, RecordTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import FlightRow, JobRow, JobsView
    from chasqui_cli.tui.widgets.listing import Listing

WAITING = [
    Col("entry", "ENTRY", 17, keep=30),
    Col("id", "JOB", 26, keep=10),
    Col("name", "NAME", 14),
    Col("attempt", "RUN", 3, "right", keep=20),
    Col("age", "AGE", 6, "right"),
    Col("size", "BYTES", 6, "right", keep=40),
    Col("data", "CARRIES", 12, keep=50, grow=True),
]
FLYING = [
    Col("entry", "ENTRY", 17),
    Col("consumer", "CONSUMER", 9, grow=True),
    Col("group", "GROUP", 8, keep=40),
    Col("idle", "IDLE", 6, "right"),
    Col("runs", "RUN", 3, "right", keep=10),
]


class JobsTab(Pane):
    """What is in the stream."""

    tab = "jobs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "detail", "detail", id="jobs.detail"),
        Binding("f", "find", "find by id", id="jobs.find"),
        Binding("m", "more", "more", id="jobs.more"),
        change("K", "cancel", "cancel job"),
    ]

    def compose(self) -> ComposeResult:
        """Two tables, and what one job carries."""
        yield Static(id="jobs-head", classes="head")
        yield RecordTable(WAITING, id="waiting")
        yield Static("", id="flying-head", classes="head")
        with Horizontal(classes="lower"):
            yield RecordTable(FLYING, id="flying")
            with VerticalScroll(classes="box detail", id="jobs-detail") as box:
                box.border_title = "job"
                yield Static(id="job-detail")

    def draw(self) -> None:
        """Both tables."""
        view: JobsView = self.view
        seen = view.row.sure
        more = f"   {seen.waiting:,} waiting"
        more += f", the oldest {len(view.waiting):,} here" if seen.waiting > len(view.waiting) else ""
        self.say("#jobs-head", *self.headline(view.row, (more, "dim")))
        self.say("#flying-head", (f"{seen.pending:,} in flight", "dim"))
        self.query_one("#waiting", RecordTable).show(
            self.kept([(row.key, _waiting(row, self.now_ms)) for row in view.waiting])
        )
        self.query_one("#flying", RecordTable).show(
            self.kept([(f"{row.group} {row.entry_id}", _flying(row)) for row in view.in_flight])
        )

    def on_listing_highlighted(self, event: Listing.Highlighted) -> None:
        """The job under the cursor, opened."""
        row = self._chosen()
        if row is not None:
            self.dashboard.describe(row.raw, "#job-detail")

    def on_listing_selected(self) -> None:
        """Enter."""
        self.action_detail()

    def action_detail(self) -> None:
        """Why this job is where it is."""
        self.dashboard.action_why()

    def action_find(self) -> None:
        """Any job, by its id."""
        self.dashboard.ask_id()

    def action_more(self) -> None:
        """Another page."""
        self.page += 1
        self.dashboard.look_further()

    def job_id(self) -> str | None:
        """The waiting job under the cursor."""
        row = self._chosen()
        return row.job_id if row else None

    def yank(self) -> str | None:
        """Its id."""
        return self.job_id() or super().yank()

    def change(self, name: str) -> Change | str:
        """Cancel a job."""
        row = self._chosen()
        if row is None or not row.job_id:
            return "no job is under the cursor"
        return Change(
            f"cancel job {row.job_id}",
            words_of("job cancel", self.queue, row.job_id),
            self.queue,
        )

    def _chosen(self) -> JobRow | None:
        if self.view is None:
            return None
        key = self.query_one("#waiting", RecordTable).current
        return next((row for row in self.view.waiting if row.key == key), None)


def _waiting(row: JobRow, now_ms: int) -> dict[str, Cell]:
    since = int(row.key.partition("-")[0])
    return {
        "entry": Cell(row.key, "dim"),
        "id": Cell(row.job_id or "–", "" if row.job_id else "dim"),
        "name": Cell(row.name or "–", "strong" if row.name else "dim"),
        "attempt": Cell(
            "–" if row.attempt is None else str(row.attempt + 1), "warn" if row.attempt else "dim"
        ),
        "age": Cell(span(max(0, now_ms - since)), "", now_ms - since),
        "size": Cell(short(row.size), "dim", row.size),
        "data": Cell(row.preview, "crit" if row.preview.startswith("unreadable") else "dim"),
    }


def _flying(row: FlightRow) -> dict[str, Cell]:
    return {
        "entry": Cell(row.entry_id, "dim"),
        "consumer": Cell(row.consumer),
        "group": Cell(row.group, "dim"),
        "idle": Cell(span(row.idle_ms), "warn" if row.idle_ms > 30_000 else "", row.idle_ms),
        "runs": Cell(str(row.deliveries), "warn" if row.deliveries > 1 else "dim", row.deliveries),
    }
