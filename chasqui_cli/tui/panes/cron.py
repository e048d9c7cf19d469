"""Cron: repeatable jobs in words, their next fires, and which of them are overdue."""

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

    from chasqui_cli.tui.views import CronView, SpecRow
    from chasqui_cli.tui.widgets.listing import Listing

LATE_MS = 5_000
COLUMNS = [
    Col("state", "", 9),
    Col("key", "KEY", 14),
    Col("name", "NAME", 12, keep=50),
    Col("words", "FIRES", 30, keep=10, grow=True),
    Col("next", "NEXT", 10),
    Col("fired", "FIRED", 6, "right", keep=30),
    Col("limit", "OF", 5, "right", keep=40),
]


class CronTab(Pane):
    """What comes again."""

    tab = "cron"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "preview", "next fires", id="cron.preview"),
        change("N", "run", "run once"),
        change("D", "remove", "remove"),
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
        seen = view.row.sure
        late = f", {seen.repeatable_overdue:,} overdue" if seen.repeatable_overdue else ""
        count = f"   {seen.repeatable_count:,} schedule{'s' * (seen.repeatable_count != 1)}"
        self.say("#cron-head", *self.headline(view.row, (count, "dim"), (late, "warn")))
        self.query_one(RecordTable).show(
            self.kept([(row.key, _spec(row, self.now_ms)) for row in view.specs])
        )
        self._draw_fires()

    def on_listing_highlighted(self, event: Listing.Highlighted) -> None:
        """Another schedule."""
        self._draw_fires()

    def on_listing_selected(self) -> None:
        """Enter."""
        self.action_preview()

    def action_preview(self) -> None:
        """The next fires as the command line tells them, with notes on clock changes."""
        row = self._chosen()
        if row is not None:
            self.dashboard.look_with("preview", words_of("repeatable preview", self.queue, row.key))

    def _draw_fires(self) -> None:
        row = self._chosen()
        if row is None:
            self.say("#fires", ("", ""))
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
                f"{span(self.now_ms - fire.at_ms)} late" if late else f"in {span(fire.at_ms - self.now_ms)}"
            )
            parts += [(fire.local, ""), (f"  {when}", "warn" if late else "dim"), ("\n", "")]
            if fire.note:
                parts += [(f"  {fire.note}", "warn"), ("\n", "")]
        self.say("#fires", *parts)

    def yank(self) -> str | None:
        """The key."""
        return self.query_one(RecordTable).current

    def change(self, name: str) -> Change | str:
        """Run once, remove."""
        row = self._chosen()
        if row is None:
            return "no schedule is under the cursor"
        verb, title = ("run", "run once") if name == "run" else ("remove", "remove")
        return Change(
            f"{title}: {row.key} of {self.queue}",
            words_of(f"repeatable {verb}", self.queue, row.key),
            self.queue,
        )

    def _chosen(self) -> SpecRow | None:
        key = self.query_one(RecordTable).current
        return next((row for row in self.view.specs if row.key == key), None) if self.view else None


def _spec(row: SpecRow, now_ms: int) -> dict[str, Cell]:
    late_ms = now_ms - row.next_ms
    state = Cell("● ok", "ok", 1)
    if late_ms > LATE_MS:
        state = Cell("◆ overdue", "warn", 0)
    if row.unreadable:
        state = Cell("▲ broken", "crit", -1)
    when = f"in {span(-late_ms)}" if late_ms < 0 else f"{span(late_ms)} late"
    return {
        "state": state,
        "key": Cell(row.key),
        "name": Cell(row.name or "–", "strong" if row.name else "dim"),
        "words": Cell(row.unreadable or row.words, "crit" if row.unreadable else ""),
        "next": Cell(when, "warn" if late_ms > LATE_MS else "", row.next_ms),
        "fired": Cell(short(row.fired), "dim", row.fired),
        "limit": Cell("–" if row.limit is None else short(row.limit), "dim", row.limit),
    }
