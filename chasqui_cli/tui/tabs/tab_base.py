"""What every tab is: something that is shown views, can be filtered, and offers changes of what is chosen in it.

A change is a command line that the tab makes; the app asks for confirmation and runs it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Static

from chasqui_cli.output.escape_text import safe
from chasqui_cli.queues.queue_names import strip_native_prefix
from chasqui_cli.tui.row_filter import RowFilter
from chasqui_cli.tui.widgets.record_table import RecordTable
from chasqui_cli.tui.widgets.row_list import AbstractMeta
from chasqui_cli.tui.widgets.styled_text import Cell, styled_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.binding import BindingType

    from chasqui_cli.tui.dashboard import DashboardApp
    from chasqui_cli.tui.feed_messages import QueueRow
    from chasqui_cli.tui.widgets.record_table import Row


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A requested change: its command line. needs_options: options have to be added.

    in_terminal: it asks questions of its own (an editor, a difference), so it gets the terminal where there is one.
    """

    title: str
    words: Sequence[str]
    needs_options: bool = False
    in_terminal: bool = False


def change_binding(key: str, name: str, title: str) -> BindingType:
    """A binding for an upper-case key: greyed where nothing may be changed."""
    return Binding(key, f"change('{name}')", title, id=f"change.{name}")


class TabBase(Vertical, metaclass=AbstractMeta):
    """A tab's contents. `view` is what it was shown last."""

    tab: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(id=f"pane-{self.tab}")
        self.filter = RowFilter()
        self.view: Any = None
        self.now_ms = 0
        self.page = 0
        self._texts: dict[str, object] = {}

    @property
    def dashboard(self) -> DashboardApp:
        """The app, by its own name."""
        return cast("DashboardApp", self.app)

    @property
    def queue(self) -> str:
        """The queue this tab is about, as the command line's verbs know it."""
        return strip_native_prefix(self.dashboard.queue or "")

    def show(self, view: Any, now_ms: int) -> None:
        self.view, self.now_ms = view, now_ms
        self.draw()

    @abstractmethod
    def draw(self) -> None:
        """Draw the view."""

    def clear(self) -> None:
        """Another queue: what was shown is not about it."""
        self.view = None
        for table in self.query(RecordTable):
            table.marked.clear()
            table.set_rows([])

    def redraw(self) -> None:
        """The theme or the width is another."""
        for table in self.query(RecordTable):
            table.refresh()
        if self.view is not None:
            self.draw()

    def apply_filter(self, text: str) -> None:
        """Filter by what was typed."""
        self.filter = RowFilter.parse(text)
        if self.view is not None:
            self.draw()

    def focus_first(self) -> None:
        """Where keys go when the tab is opened."""
        tables = self.query(RecordTable)
        if tables:
            tables.first().focus()
        else:
            self.can_focus = True
            self.focus()

    def change_request(self, name: str) -> ChangeRequest | str:
        """The change behind a key, or why there is none just now."""
        return f"{name} is not offered here"

    def after_change(self) -> None:
        """Something was changed from here: what was marked is dealt with."""
        for table in self.query(RecordTable):
            table.marked.clear()

    def job_id(self) -> str | None:
        """The job under the cursor, where there is one."""
        return None

    def copy_text(self) -> str | None:
        tables = self.query(RecordTable)
        return tables.first().current if tables else None

    def action_change(self, name: str) -> None:
        """An upper-case key: ask for consent."""
        wanted = self.change_request(name)
        if isinstance(wanted, str):
            self.notify(safe(wanted), severity="warning", markup=False)
        else:
            self.dashboard.request_change(wanted)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Greyed, not hidden: also a user without the right to change sees what could be changed."""
        if action == "change" and self.dashboard.read_only:
            return None
        return True

    def filtered(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that the filter lets through."""
        return [row for row in rows if self.filter.keeps(_cell_texts(row[1]))] if self.filter.rules else list(rows)

    def set_text(self, widget: str, *parts: tuple[object, str]) -> None:
        """Set the text of a widget, if it differs: Textual lays out the whole screen for it."""
        drawn = (self.app.theme, parts)
        if self._texts.get(widget) != drawn:
            self._texts[widget] = drawn
            self.query_one(widget, Static).update(styled_text(parts, theme=self.app.theme))

    def headline(self, row: QueueRow, *more: tuple[object, str]) -> list[tuple[object, str]]:
        """The queue this is about and how it fares, for a tab's first line."""
        return [
            (f"{row.glyph} {row.state}  ", LEVEL_STYLES[row.level]),
            (row.queue, "strong"),
            *((part, style) for part, style in more),
        ]


ANY_TAB: type[TabBase] = TabBase  # type: ignore[type-abstract]  # to ask for, not to make
LEVEL_STYLES, LEVEL_GLYPHS = ("ok", "ok", "warn", "crit"), "●·◆▲"


def _cell_texts(cells: Mapping[str, Cell]) -> dict[str, str]:
    return {key: cell.text for key, cell in cells.items()}
