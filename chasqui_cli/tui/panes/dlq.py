"""DLQ: dead letters in groups that died alike, the letters of a group, and one of them opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from chasqui_cli.changes import counted
from chasqui_cli.times import span
from chasqui_cli.tui.lines import words_of
from chasqui_cli.tui.panes.pane import Change, Pane, change
from chasqui_cli.tui.trends import short
from chasqui_cli.tui.widgets.drawing import Cell
from chasqui_cli.tui.widgets.records import Col, RecordTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import DeadView, GroupRow, LetterRow
    from chasqui_cli.tui.widgets.listing import Listing

GROUPS = [
    Col("count", "COUNT", 5, "right"),
    Col("name", "NAME", 12),
    Col("error", "ERROR OR REASON", 16, grow=True),
    Col("age", "LAST", 6, "right", keep=20),
    Col("known", "", 5, keep=30),
]
LETTERS = [
    Col("id", "LETTER", 17),
    Col("job", "JOB", 14, keep=20, full=26, grow=True),
    Col("attempt", "ATTEMPT", 7, "right", keep=30),
    Col("age", "DIED", 6, "right"),
    Col("size", "BYTES", 6, "right", keep=40),
    Col("error", "SAYS", 20, keep=50, grow=True),
]
ALL = "\0all"
CANARY = 3


class DeadTab(Pane):
    """Triage."""

    tab = "dlq"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "into", "into the group", show=False, id="dlq.into"),
        Binding("m", "more", "more", show=False, id="dlq.more"),
        Binding("x", "hex", "hex", show=False, id="dlq.hex"),
        Binding("l", "peek", "list with errors", show=False, id="dlq.peek"),
        change("R", "replay", "replay"),
        change("C", "canary", "canary"),
        change("E", "edit", "edit"),
        change("D", "delete", "delete"),
        Binding("X", "export", "export", id="dlq.export"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._group = ALL
        self._shows_hex = False

    def compose(self) -> ComposeResult:
        """Groups, letters, one letter."""
        yield Static(id="dlq-head", classes="head")
        with Horizontal(classes="columns", id="dlq-panes"):
            with Vertical(id="dlq-tables"):
                yield RecordTable(GROUPS, id="groups")
                yield Static(id="letters-head", classes="head")
                yield RecordTable(LETTERS, can_mark=True, id="letters")
            with VerticalScroll(classes="box detail", id="dlq-detail") as box:
                box.border_title = "letter"
                yield Static(id="letter")

    def forget(self) -> None:
        """Another queue."""
        super().forget()
        self._group = ALL

    def draw(self) -> None:
        """Groups, and the letters of the one that is chosen."""
        view: DeadView = self.view
        seen = view.row.sure
        read = "all" if view.all_read else f"the latest {len(view.letters):,}"
        told = f"   {seen.dlq_depth:,} dead, {read} read" if seen.dlq_depth else "   no dead letters"
        self.say(
            "#dlq-head",
            *self.headline(view.row, (told, "dim"), ("" if view.all_read else "  m reads more", "accent")),
        )
        rows = [(ALL, _all(view, self.now_ms)), *((one.key, _group(one, self.now_ms)) for one in view.groups)]
        groups = self.query_one("#groups", RecordTable)
        groups.show(rows if view.letters else [])
        if self._group not in groups.shown:
            self._group = groups.current or ALL  # the last letter of that group has left
        self._draw_letters()

    def _draw_letters(self) -> None:
        table = self.query_one("#letters", RecordTable)
        kept = self.kept([(one.dead_id, _letter(one, self.now_ms)) for one in self._of_group()])
        table.show(kept)
        marked = f", {len(table.marked):,} marked" if table.marked else ""
        self.say("#letters-head", (f"{len(kept):,} letters{marked}", "dim"))
        self._describe()

    def _of_group(self) -> list[LetterRow]:
        view: DeadView | None = self.view
        letters = view.letters if view else ()
        return [one for one in letters if self._group in (ALL, one.group)]

    def on_listing_highlighted(self, event: Listing.Highlighted) -> None:
        """Another group, or another letter."""
        if event.listing.id == "groups":
            chosen = self.query_one("#groups", RecordTable).current or ALL
            if chosen != self._group:
                self._group = chosen
                self.query_one("#letters", RecordTable).marked.clear()
                self._draw_letters()
        else:
            self._describe()

    def on_listing_selected(self, event: Listing.Selected) -> None:
        """Enter goes into a group; in it, it explains a letter's job."""
        if event.listing.id == "groups":
            self.query_one("#letters").focus()
        else:
            self.dashboard.action_why()

    def action_into(self) -> None:
        """From the groups to the letters."""
        self.query_one("#letters").focus()

    def action_more(self) -> None:
        """Read further back."""
        self.page += 1
        self.dashboard.look_further()

    def action_hex(self) -> None:
        """Raw bytes, or not."""
        self._shows_hex = not self._shows_hex
        self._describe()

    def action_peek(self) -> None:
        """The same on the command line."""
        self.dashboard.look_with("dlq groups", words_of("dlq groups", self.queue))

    def _describe(self) -> None:
        letter = self._chosen()
        if letter is None:
            self.say("#letter", ("", ""))
        else:
            skip = () if self._shows_hex else ("hex",)
            self.dashboard.describe(letter.raw, "#letter", skip=skip, error=letter.error)

    def _chosen(self) -> LetterRow | None:
        key = self.query_one("#letters", RecordTable).current
        return next((one for one in self._of_group() if one.dead_id == key), None)

    def job_id(self) -> str | None:
        """The job of the letter under the cursor."""
        letter = self._chosen()
        return letter.job_id if letter else None

    def yank(self) -> str | None:
        """The letter's id."""
        return self.query_one("#letters", RecordTable).current

    def chosen_ids(self) -> list[str]:
        """What a change is about: the marked letters; else, among groups, all of the group that are shown; else one."""
        table = self.query_one("#letters", RecordTable)
        if table.marked:
            return [key for key in table.shown if key in table.marked]
        if self.query_one("#groups").has_focus:
            return table.shown
        return [table.current] if table.current else []

    def change(self, name: str) -> Change | str:
        """Replay, edit, delete."""
        ids = self.chosen_ids()
        if not ids:
            return "there is no letter to act on"
        count = f"{len(ids):,} dead letter{'s' * (len(ids) != 1)} of {self.queue}"
        if name == "delete":
            return Change(f"delete {count}", words_of("dlq purge", self.queue, *ids), self.queue)
        if name == "edit":
            words = words_of("dlq edit", self.queue, ids[0])
            return Change(
                f"edit letter {ids[0]}",
                words,
                self.queue,
                '--set to="someone else"',
                needs_options=True,
                in_terminal=True,
            )
        few = min(CANARY, len(ids)) if name == "canary" else None
        words = words_of("dlq replay", self.queue, *ids, limit=len(ids), canary=few)
        first = f", {few} of them first" if few else ""
        return Change(f"replay {count}{first}", words, self.queue, "--rps 10  --canary 3  --note TEXT")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A browser gets no files of this machine."""
        return (
            None
            if action == "export" and self.dashboard.confined
            else super().check_action(action, parameters)
        )

    def action_export(self) -> None:
        """Write the chosen letters to a file of this machine; its name is asked for."""
        ids = self.chosen_ids()
        if ids:
            quoted = ", ".join(f"'{one}'" for one in ids)
            chosen = f"contains([{quoted}], dlq_id)"
            self.dashboard.ask_file(words_of("dlq export", self.queue, where=chosen))


def _all(view: DeadView, now_ms: int) -> dict[str, Cell]:
    last = max((one.died_ms for one in view.letters), default=now_ms)
    return {
        "count": Cell(short(len(view.letters)), "strong", len(view.letters)),
        "name": Cell("(all)", "strong"),
        "error": Cell(counted(len(view.groups), "groups"), "dim"),
        "age": Cell(span(max(0, now_ms - last)), "", now_ms - last),
    }


def _group(one: GroupRow, now_ms: int) -> dict[str, Cell]:
    return {
        "count": Cell(short(one.count), "", one.count),
        "name": Cell(one.name or "–", "strong" if one.name else "dim"),
        "error": Cell(f"{one.error or one.reason}", ""),
        "age": Cell(span(max(0, now_ms - one.last_ms)), "", now_ms - one.last_ms),
        "known": Cell("new" if one.is_new else "known", "warn" if one.is_new else "dim"),
    }


def _letter(one: LetterRow, now_ms: int) -> dict[str, Cell]:
    return {
        "id": Cell(one.dead_id, "dim"),
        "job": Cell(one.job_id or "–", "" if one.job_id else "dim"),
        "attempt": Cell("–" if one.attempt is None else str(one.attempt), "", one.attempt),
        "age": Cell(span(max(0, now_ms - one.died_ms)), "", now_ms - one.died_ms),
        "size": Cell(short(one.size), "dim", one.size),
        "error": Cell(one.unreadable or one.error or one.reason, "crit" if one.unreadable else ""),
        "name": Cell(one.name),
        "reason": Cell(one.reason),
    }
