"""DLQ: dead letters in groups with the same error, those of one group, and the details of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from chasqui_cli.changes.confirm import plural
from chasqui_cli.output.times import format_duration
from chasqui_cli.tui.command_line import command_words
from chasqui_cli.tui.tabs.tab_base import ChangeRequest, TabBase, change_binding
from chasqui_cli.tui.trends import short_count
from chasqui_cli.tui.widgets.record_table import RecordTable, TableColumn
from chasqui_cli.tui.widgets.styled_text import Cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from chasqui_cli.tui.views import DeadLetterGroupRow, DeadLetterRow, DlqView
    from chasqui_cli.tui.widgets.row_list import RowList

GROUP_COLUMNS = [
    TableColumn("count", "COUNT", 5, "right"),
    TableColumn("name", "NAME", 12),
    TableColumn("error", "ERROR OR REASON", 16, grow=True),
    TableColumn("age", "LAST", 6, "right", drop_order=20),
    TableColumn("known", "", 5, drop_order=30),
]
DEAD_LETTER_COLUMNS = [
    TableColumn("id", "LETTER", 17),
    TableColumn("job", "JOB", 14, drop_order=20, max_width=26, grow=True),
    TableColumn("attempt", "ATTEMPT", 7, "right", drop_order=30),
    TableColumn("age", "DIED", 6, "right"),
    TableColumn("size", "BYTES", 6, "right", drop_order=40),
    TableColumn("error", "SAYS", 20, drop_order=50, grow=True),
]
ALL = "\0all"
CANARY_SIZE = 3


class DlqTab(TabBase):
    """Triage."""

    tab = "dlq"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "into", "into the group", show=False, id="dlq.into"),
        Binding("m", "more", "more", show=False, id="dlq.more"),
        Binding("x", "hex", "hex", show=False, id="dlq.hex"),
        Binding("l", "peek", "list with errors", show=False, id="dlq.peek"),
        change_binding("R", "replay", "replay"),
        change_binding("C", "canary", "canary"),
        change_binding("E", "edit", "edit"),
        change_binding("D", "delete", "delete"),
        Binding("X", "export", "export", id="dlq.export"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._group = ALL
        self._shows_hex = False

    def compose(self) -> ComposeResult:
        """Groups, dead letters, one of them."""
        yield Static(id="dlq-head", classes="head")
        with Horizontal(classes="columns", id="dlq-panes"):
            with Vertical(id="dlq-tables"):
                yield RecordTable(GROUP_COLUMNS, id="groups")
                yield Static(id="letters-head", classes="head")
                yield RecordTable(DEAD_LETTER_COLUMNS, can_mark=True, id="letters")
            with VerticalScroll(classes="box detail", id="dlq-detail") as box:
                box.border_title = "letter"
                yield Static(id="letter")

    def clear(self) -> None:
        super().clear()
        self._group = ALL

    def draw(self) -> None:
        """Groups, and the dead letters of the chosen one."""
        view: DlqView = self.view
        seen = view.row.native_snapshot
        read = "all" if view.all_read else f"the latest {len(view.letters):,}"
        summary = f"   {seen.dlq_depth:,} dead, {read} read" if seen.dlq_depth else "   no dead letters"
        self.set_text(
            "#dlq-head",
            *self.headline(view.row, (summary, "dim"), ("" if view.all_read else "  m reads more", "accent")),
        )
        rows = [
            (ALL, _all_cells(view, self.now_ms)),
            *((one.key, _group_cells(one, self.now_ms)) for one in view.groups),
        ]
        groups = self.query_one("#groups", RecordTable)
        groups.set_rows(rows if view.letters else [])
        if self._group not in groups.row_keys:
            self._group = groups.current or ALL  # the group is empty now
        self._draw_letters()

    def _draw_letters(self) -> None:
        table = self.query_one("#letters", RecordTable)
        rows = self.filtered(
            [(one.dead_id, _dead_letter_cells(one, self.now_ms)) for one in self._dead_letters_of_group()]
        )
        table.set_rows(rows)
        marked = f", {len(table.marked):,} marked" if table.marked else ""
        self.set_text("#letters-head", (f"{len(rows):,} letters{marked}", "dim"))
        self._describe()

    def _dead_letters_of_group(self) -> list[DeadLetterRow]:
        view: DlqView | None = self.view
        letters = view.letters if view else ()
        return [one for one in letters if self._group in (ALL, one.group)]

    def on_row_list_highlighted(self, event: RowList.Highlighted) -> None:
        """Another group or dead letter is under the cursor."""
        if event.listing.id == "groups":
            chosen = self.query_one("#groups", RecordTable).current or ALL
            if chosen != self._group:
                self._group = chosen
                self.query_one("#letters", RecordTable).marked.clear()
                self._draw_letters()
        else:
            self._describe()

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        """Enter goes into a group; in it, it explains the job of a dead letter."""
        if event.listing.id == "groups":
            self.query_one("#letters").focus()
        else:
            self.dashboard.action_why()

    def action_into(self) -> None:
        """From the groups to the dead letters."""
        self.query_one("#letters").focus()

    def action_more(self) -> None:
        self.page += 1
        self.dashboard.load_page()

    def action_hex(self) -> None:
        """Raw bytes, or not."""
        self._shows_hex = not self._shows_hex
        self._describe()

    def action_peek(self) -> None:
        """The same on the command line."""
        self.dashboard.show_output("dlq peek", command_words("dlq peek", self.queue))

    def _describe(self) -> None:
        letter = self._chosen()
        if letter is None:
            self.set_text("#letter", ("", ""))
        else:
            skip = () if self._shows_hex else ("hex",)
            self.dashboard.show_details(letter.raw, "#letter", skip=skip, error=letter.error)

    def _chosen(self) -> DeadLetterRow | None:
        key = self.query_one("#letters", RecordTable).current
        return next((one for one in self._dead_letters_of_group() if one.dead_id == key), None)

    def job_id(self) -> str | None:
        """The job of the dead letter under the cursor."""
        letter = self._chosen()
        return letter.job_id if letter else None

    def copy_text(self) -> str | None:
        """The id of the dead letter."""
        return self.query_one("#letters", RecordTable).current

    def chosen_ids(self) -> list[str]:
        """What a change is about: the marked dead letters; else, among groups, those shown of the group; else one."""
        table = self.query_one("#letters", RecordTable)
        if table.marked:
            return [key for key in table.row_keys if key in table.marked]
        if self.query_one("#groups").has_focus:
            return table.row_keys
        return [table.current] if table.current else []

    def change_request(self, name: str) -> ChangeRequest | str:
        ids = self.chosen_ids()
        if not ids:
            return "there is no letter to act on"
        count = f"{len(ids):,} dead letter{'s' * (len(ids) != 1)} of {self.queue}"
        if name == "delete":
            return ChangeRequest(f"delete {count}", command_words("dlq purge", self.queue, *ids))
        if name == "edit":
            words = command_words("dlq edit", self.queue, ids[0])
            return ChangeRequest(f"edit letter {ids[0]}", words, needs_options=True, in_terminal=True)
        few = min(CANARY_SIZE, len(ids)) if name == "canary" else None
        words = command_words("dlq replay", self.queue, *ids, limit=len(ids), canary=few)
        first = f", {few} of them first" if few else ""
        return ChangeRequest(f"replay {count}{first}", words)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A browser gets no files of this machine."""
        return None if action == "export" and self.dashboard.is_web else super().check_action(action, parameters)

    def action_export(self) -> None:
        """Write the chosen dead letters to a file of this machine; its name is asked for."""
        ids = self.chosen_ids()
        if ids:
            quoted = ", ".join(f"'{one}'" for one in ids)
            chosen = f"contains([{quoted}], dlq_id)"
            self.dashboard.ask_file(command_words("dlq export", self.queue, where=chosen))


def _all_cells(view: DlqView, now_ms: int) -> dict[str, Cell]:
    last = max((one.died_ms for one in view.letters), default=now_ms)
    return {
        "count": Cell(short_count(len(view.letters)), "strong", len(view.letters)),
        "name": Cell("(all)", "strong"),
        "error": Cell(plural(len(view.groups), "groups"), "dim"),
        "age": Cell(format_duration(max(0, now_ms - last)), "", now_ms - last),
    }


def _group_cells(one: DeadLetterGroupRow, now_ms: int) -> dict[str, Cell]:
    return {
        "count": Cell(short_count(one.count), "", one.count),
        "name": Cell(one.name or "–", "strong" if one.name else "dim"),
        "error": Cell(f"{one.error or one.reason}", ""),
        "age": Cell(format_duration(max(0, now_ms - one.last_ms)), "", now_ms - one.last_ms),
        "known": Cell("new" if one.is_new else "known", "warn" if one.is_new else "dim"),
    }


def _dead_letter_cells(one: DeadLetterRow, now_ms: int) -> dict[str, Cell]:
    return {
        "id": Cell(one.dead_id, "dim"),
        "job": Cell(one.job_id or "–", "" if one.job_id else "dim"),
        "attempt": Cell("–" if one.attempt is None else str(one.attempt + 1), "", one.attempt),
        "age": Cell(format_duration(max(0, now_ms - one.died_ms)), "", now_ms - one.died_ms),
        "size": Cell(short_count(one.size), "dim", one.size),
        "error": Cell(one.unreadable or one.error or one.reason, "crit" if one.unreadable else ""),
        "name": Cell(one.name),
        "reason": Cell(one.reason),
    }
