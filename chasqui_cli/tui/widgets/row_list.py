"""Rows of one line each below a head, with a cursor for keys and mouse. What the rows say, a subclass knows.

Textual's own table draws every cell through Rich, seen or not, and all of them again when one differs. Here a row is made
when it is seen, and made again when it has changed.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.style import Style
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.message_pump import _MessagePumpMeta
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from rich.segment import Segment
    from textual import events
    from textual.binding import BindingType
    from textual.geometry import Region

HEADER_LINES = 1
"""The lines above the first row."""


class AbstractMeta(ABCMeta, _MessagePumpMeta):
    """Textual's widgets have a metaclass of their own, so that of abstract classes has to be joined with it."""


class LineStyle(NamedTuple):
    """How a line is drawn: below the style of each of its texts, and above."""

    under: Style
    over: Style

    def style(self, own: str) -> Style:
        """Of a text that has this style of its own."""
        return self.under + Style.parse(own) + self.over


class _RowListMessage(Message):
    def __init__(self, listing: RowList) -> None:
        super().__init__()
        self.listing = listing

    @property
    def control(self) -> RowList:
        """The list that sent it."""
        return self.listing


class RowList(ScrollView, can_focus=True, metaclass=AbstractMeta):
    """Draws rows, and moves a cursor over them."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"listing--head", "listing--cursor", "listing--hover"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "choose", show=False),
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "a page up", show=False),
        Binding("pagedown", "page(1)", "a page down", show=False),
        Binding("home,ctrl+home", "first", "first", show=False),
        Binding("end,ctrl+end", "last", "last", show=False),
    ]

    class Highlighted(_RowListMessage):
        """Another row is under the cursor."""

    class Selected(_RowListMessage):
        """Enter, or a click on the row under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.row_count = 0
        self.cursor_row = 0
        self._hovered: int | None = None
        self._highlighted_key: str | None = None
        self._plain = Style.null()

    @property
    @abstractmethod
    def current(self) -> str | None:
        """The key of the row under the cursor."""

    @abstractmethod
    def render_header(self, look: LineStyle) -> list[Segment]:
        """The line above all rows."""

    @abstractmethod
    def render_row(self, row: int, look: LineStyle) -> list[Segment]:
        """One row."""

    @property
    def page_rows(self) -> int:
        """How many rows are in sight."""
        return max(0, self.scrollable_content_region.height - HEADER_LINES)

    def set_size(self, rows: int, width: int) -> None:
        """Set the number of rows, and their width."""
        self.row_count = rows
        self.virtual_size = Size(width, rows + HEADER_LINES)

    def render_lines(self, crop: Region) -> list[Strip]:
        """What is in sight. Textual builds the style of a widget again each time it is asked for."""
        self._plain = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """A line as it is seen."""
        left, top = self.scroll_offset
        row = y - HEADER_LINES + top
        if y < HEADER_LINES:
            look = LineStyle(self.get_component_rich_style("listing--head"), Style.null())
            segments = self.render_header(look)
        elif row < self.row_count:
            look = self._line_style(row)
            segments = self.render_row(row, look)
        else:
            return Strip.blank(self.size.width, self._plain)
        return Strip(segments).crop_extend(left, left + self.size.width, look.under).simplify()

    def _line_style(self, row: int) -> LineStyle:
        """The cursor has a colour for all texts, so that each can be read on it."""
        under, over = self._plain, Style.null()
        if row == self._hovered:
            under += self.get_component_rich_style("listing--hover")
        if row == self.cursor_row:
            cursor = self.get_component_rich_style("listing--cursor")
            under, over = under + cursor, Style.from_color(cursor.color)
        return LineStyle(under, over)

    def refresh_row(self, row: int) -> None:
        """Draw a row again, if it is in sight."""
        if 0 <= row - self.scroll_offset.y < self.size.height:
            self.refresh_line(row + HEADER_LINES)

    def move_to(self, row: int, *, scroll: bool = True) -> None:
        """Put the cursor there, or as near as there is a row. scroll: and bring it in sight."""
        row = max(0, min(row, self.row_count - 1))
        if row != self.cursor_row:
            before, self.cursor_row = self.cursor_row, row
            self.refresh_row(before)
            self.refresh_row(row)
        if scroll:
            self.scroll_to_cursor()
        self._post_highlighted()

    def scroll_to_cursor(self) -> None:
        """Bring the cursor in sight."""
        top, rows = self.scroll_offset.y, self.page_rows
        if rows and not top <= self.cursor_row < top + rows:
            goal = self.cursor_row if self.cursor_row < top else self.cursor_row - rows + 1
            self.scroll_to(y=goal, animate=False, force=True)

    def _post_highlighted(self) -> None:
        """Post a message about another row under the cursor, also where the cursor stood still and the rows moved."""
        if self.current != self._highlighted_key:
            self._highlighted_key = self.current
            if self._highlighted_key is not None:
                self.post_message(self.Highlighted(self))

    # Keys.

    def action_move(self, by: int) -> None:
        """Move the cursor by this many rows."""
        self._hover(None)
        self.move_to(self.cursor_row + by)

    def action_page(self, direction: int) -> None:
        """As many rows as are in sight."""
        self.scroll_to(y=self.scroll_offset.y + direction * self.page_rows, animate=False, force=True)
        self.action_move(direction * self.page_rows)

    def action_half_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.page_rows // 2))

    def action_first(self) -> None:
        """To the first row."""
        self.action_move(-self.row_count)

    def action_last(self) -> None:
        """To the last one."""
        self.action_move(self.row_count)

    def action_choose(self) -> None:
        self._hover(None)
        if self.current is not None:
            self.post_message(self.Selected(self))

    # The mouse.

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show what a click would be about."""
        self._hover(self._row_at(event.y))

    def on_leave(self) -> None:
        """The mouse is elsewhere."""
        self._hover(None)

    def on_click(self, event: events.Click) -> None:
        """The cursor comes; where it is, the row is chosen."""
        row = self._row_at(event.y)
        if row is None:
            return
        event.stop()
        if row == self.cursor_row:
            self.action_choose()
        else:
            self.move_to(row)

    def _row_at(self, y: int) -> int | None:
        row = y - HEADER_LINES + self.scroll_offset.y
        return row if y >= HEADER_LINES and row < self.row_count else None

    def _hover(self, row: int | None) -> None:
        if row != self._hovered:
            before, self._hovered = self._hovered, row
            for one in (before, row):
                if one is not None:
                    self.refresh_row(one)
