"""A table of records that changes cell by cell: rows come, go and move, and the cursor stays with its row.

A pane says which columns there are and what stands in each row; how many columns fit is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.widgets import DataTable

from chasqui_cli.safe import safe
from chasqui_cli.tui.widgets.drawing import Cell, fitted, style_of

if TYPE_CHECKING:
    from textual import events
    from textual.binding import BindingType

MARK = "✔"


@dataclass(frozen=True, slots=True)
class Col:
    """A column. keep: the higher, the sooner it goes when the screen is narrow; 0 always stays. full: how wide
    it is where there is room. grow: the last of these takes what is left.
    """

    key: str
    title: str
    width: int
    align: str = "left"
    keep: int = 0
    grow: bool = False
    full: int = 0


Row = tuple[str, Mapping[str, Cell]]
_NOTHING = Cell("")


class RecordTable(DataTable[Text]):
    """Rows by key. `show` makes the table say what it is given, and touches only what differs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "down", show=False, id="table.down"),
        Binding("k", "cursor_up", "up", show=False, id="table.up"),
        Binding("g", "scroll_top", "first", show=False, id="table.first"),
        Binding("G", "scroll_bottom", "last", show=False, id="table.last"),
        Binding("ctrl+d", "half_page(1)", "half a page down", show=False, id="table.half-down"),
        Binding("ctrl+u", "half_page(-1)", "half a page up", show=False, id="table.half-up"),
        Binding("space", "mark", "mark", show=False, id="table.mark"),
        Binding("a", "mark_all", "mark all", show=False, id="table.mark-all"),
        Binding("i", "mark_others", "invert marks", show=False, id="table.mark-others"),
        Binding("s", "sort_next", "sort by the next column", show=False, id="table.sort"),
        Binding("S", "sort_back", "sort the other way", show=False, id="table.sort-back"),
    ]

    def __init__(self, columns: Sequence[Col], *, can_mark: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(cursor_type="row", zebra_stripes=False, cell_padding=0, id=id)
        self._cols = list(columns)
        self._fitting: list[tuple[Col, int]] = []
        self._drawn: dict[str, dict[str, Cell]] = {}
        self._rows: list[Row] = []
        self._to_end = False
        self._sorted_by: int | None = None
        self._backwards = False
        self.can_mark = can_mark
        self.marked: set[str] = set()

    @property
    def current(self) -> str | None:
        """The key of the row under the cursor."""
        if not self.is_valid_row_index(self.cursor_row):
            return None
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value

    @property
    def shown(self) -> list[str]:
        """The keys of all rows, in order."""
        return [key for key, _ in self._ordered()]

    def retitle(self, columns: Sequence[Col]) -> None:
        """Other columns, or other titles; the rows stay."""
        if list(columns) == self._cols:
            return
        keeps = [replace(col, title="") for col in columns] == [replace(col, title="") for col in self._cols]
        self._cols = list(columns)
        if not keeps:
            self._lay_out()
            return
        by_key = {col.key: col for col in self._cols}
        self._fitting = [(by_key[col.key], width) for col, width in self._fitting]
        for key, column in self.columns.items():
            col, width = next(one for one in self._fitting if one[0].key == key.value)
            column.label = self._title(col, width)
        self._update_count += 1
        self.refresh()

    def show(self, rows: Sequence[Row], *, to_end: bool = False) -> None:
        """Let the table say this. to_end: and put the cursor on the last row."""
        self._rows, self._to_end = list(rows), to_end
        self.marked &= {key for key, _ in self._rows}
        if self._fitting:
            self._draw()

    def select(self, key: str) -> None:
        """Put the cursor on this row, if it is there."""
        if key in self.shown:
            self.move_cursor(row=self.shown.index(key))

    def redraw(self) -> None:
        """Draw every cell again, in the colours of the theme there is now."""
        self._lay_out()

    def forget(self) -> None:
        """Let go of drawings: Textual keeps thousands of them, of cells that are long gone too."""
        self._clear_caches()

    def on_resize(self, event: events.Resize) -> None:
        """Another width, perhaps other columns."""
        if self._widths() != [(col.key, width) for col, width in self._fitting]:
            self._lay_out()

    def action_half_page(self, direction: int) -> None:
        """Half a screen up or down."""
        step = max(1, self.size.height // 2) * direction
        self.move_cursor(row=max(0, min(self.row_count - 1, self.cursor_row + step)))

    def action_mark(self) -> None:
        """Mark the row, or take the mark away, and go on."""
        if self.can_mark and self.current is not None:
            self.marked ^= {self.current}
            self._draw()
            self.action_cursor_down()

    def action_mark_all(self) -> None:
        """Mark every row that is shown; once more takes all marks away."""
        if self.can_mark:
            everything = set(self.shown)
            self.marked = set() if self.marked == everything else everything
            self._draw()

    def action_mark_others(self) -> None:
        """What was marked is not, and the other way round."""
        if self.can_mark:
            self.marked ^= set(self.shown)
            self._draw()

    def action_sort_next(self) -> None:
        """By the next column; after the last one, as it came."""
        place = -1 if self._sorted_by is None else self._sorted_by
        self._sorted_by = place + 1 if place + 1 < len(self._cols) else None
        self._lay_out()

    def action_sort_back(self) -> None:
        """The other way round."""
        self._backwards = not self._backwards
        self._lay_out()

    def _ordered(self) -> list[Row]:
        if self._sorted_by is None:
            return self._rows[::-1] if self._backwards else self._rows
        key = self._cols[self._sorted_by].key
        return sorted(self._rows, key=lambda row: _order(row[1].get(key, _NOTHING)), reverse=self._backwards)

    def _widths(self) -> list[tuple[str, int]]:
        """Which columns fit, and how wide each is."""
        room = self.size.width - self.styles.scrollbar_size_vertical
        if room <= 0:
            return []
        chosen = list(self._cols)
        while len(chosen) > 1 and sum(col.width + 1 for col in chosen) > room:
            last = max(chosen, key=lambda col: col.keep)
            if not last.keep:
                break
            chosen.remove(last)
        left = max(0, room - sum(col.width + 1 for col in chosen))
        widths = {col.key: col.width for col in chosen}
        for col in chosen:
            more = min(left, max(0, col.full - col.width))
            widths[col.key], left = widths[col.key] + more, left - more
        growing = next((col for col in reversed(chosen) if col.grow), None)
        if growing:
            widths[growing.key] += left
        return list(widths.items())

    def _lay_out(self) -> None:
        """Columns anew, on a new width, theme or order only: the one time everything is drawn again."""
        at, top = self.current, self.scroll_y
        by_key = {col.key: col for col in self._cols}
        self._fitting = [(by_key[key], width) for key, width in self._widths()]
        self.clear(columns=True)
        self._drawn.clear()
        for col, width in self._fitting:
            self.add_column(self._title(col, width), width=width + 1, key=col.key)
        if self._fitting:
            self._draw()
        if at is not None and not self._to_end:
            self.select(at)
            self.scroll_to(y=top, animate=False)

    def _title(self, col: Col, width: int) -> Text:
        arrow = ""
        if self._sorted_by is not None and self._cols[self._sorted_by].key == col.key:
            arrow = "▼" if self._backwards else "▲"
        return Text(fitted(arrow + col.title, width, col.align) + " ", style="bold", end="", no_wrap=True)

    def _draw(self) -> None:
        rows, at = self._ordered(), self.current
        wanted = {key for key, _ in rows}
        for key in [key for key in self._drawn if key not in wanted]:
            self.remove_row(key)
            del self._drawn[key]
        for key, cells in rows:
            self._draw_row(key, cells)
        if [key for key, _ in rows] != [row.key.value for row in self.ordered_rows]:
            self._arrange([key for key, _ in rows])
        if self._to_end:
            self.move_cursor(row=len(rows) - 1)
        elif at is not None and at != self.current and at in wanted:
            self.move_cursor(row=self.get_row_index(at), scroll=False)

    def _draw_row(self, key: str, cells: Mapping[str, Cell]) -> None:
        shown = {col.key: self._cell(key, col, cells) for col, _ in self._fitting}
        before = self._drawn.get(key)
        self._drawn[key] = shown
        if before is None:
            self.add_row(*(self._text(shown[col.key], col, width) for col, width in self._fitting), key=key)
            return
        for col, width in self._fitting:
            if shown[col.key] != before[col.key]:
                self.update_cell(key, col.key, self._text(shown[col.key], col, width))

    def _cell(self, key: str, col: Col, cells: Mapping[str, Cell]) -> Cell:
        cell = cells.get(col.key, _NOTHING)
        if col is self._fitting[0][0] and key in self.marked:
            return Cell(f"{MARK}{cell.text}", "mark")
        return cell

    def _text(self, cell: Cell, col: Col, width: int) -> Text:
        drawn = fitted(safe(cell.text, 4 * width + 4), width, col.align)
        return Text(drawn + " ", style=style_of(self.app.theme, cell.style), end="", no_wrap=True)

    def _arrange(self, keys: Sequence[str]) -> None:
        """Rows in this order. `sort` hands out cells, so each row's first one is asked for its place."""
        first = self._fitting[0][0].key
        places = {id(self.get_cell(key, first)): place for place, key in enumerate(keys)}
        self.sort(first, key=lambda cell: places[id(cell)])


def _order(cell: Cell) -> tuple[int, float, str]:
    return (0, cell.order, "") if cell.order is not None else (1, 0.0, cell.text)
