"""A table of records: rows come, go and move, and the cursor stays with its row.

The tab defines the columns and the cells of each row; how many columns fit is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.binding import Binding

from chasqui_cli.output.escape_text import safe
from chasqui_cli.tui.widgets.row_list import RowList
from chasqui_cli.tui.widgets.styled_text import Cell, fit_width, style_of

if TYPE_CHECKING:
    from textual.binding import BindingType

    from chasqui_cli.tui.widgets.row_list import LineStyle

MARK = "✔"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. keep: the higher, the sooner it goes when the screen is narrow; 0 always stays. full: how wide
    it is where there is room. grow: the last of these takes what is left.
    """

    key: str
    title: str
    width: int
    align: str = "left"
    drop_order: int = 0
    grow: bool = False
    max_width: int = 0


Row = tuple[str, Mapping[str, Cell]]
_NOTHING = Cell("")


class RecordTable(RowList):
    """Rows by key. `show` makes the table say what it is given, and draws only what differs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "down", show=False, id="table.down"),
        Binding("k", "move(-1)", "up", show=False, id="table.up"),
        Binding("g", "first", "first", show=False, id="table.first"),
        Binding("G", "last", "last", show=False, id="table.last"),
        Binding("ctrl+d", "half_page(1)", "half a page down", show=False, id="table.half-down"),
        Binding("ctrl+u", "half_page(-1)", "half a page up", show=False, id="table.half-up"),
        Binding("space", "mark", "mark", show=False, id="table.mark"),
        Binding("a", "mark_all", "mark all", show=False, id="table.mark-all"),
        Binding("i", "mark_others", "invert marks", show=False, id="table.mark-others"),
        Binding("s", "sort_next", "sort by the next column", show=False, id="table.sort"),
        Binding("S", "sort_back", "sort the other way", show=False, id="table.sort-back"),
    ]

    def __init__(
        self,
        columns: Sequence[TableColumn],
        *,
        can_mark: bool = False,
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        super().__init__(id=id)
        self._cols = list(columns)
        self._fitting: list[tuple[TableColumn, int]] = []
        self._given: list[Row] = []
        self._rows: list[Row] = []
        self._to_end = False
        self._sorted_by: int | None = None
        self._backwards = False
        self.can_mark = can_mark
        self.marked: set[str] = set()

    @property
    def current(self) -> str | None:
        """The key of the row under the cursor."""
        return self._rows[self.cursor_row][0] if self.cursor_row < len(self._rows) else None

    @property
    def row_keys(self) -> list[str]:
        """The keys of all rows, in order."""
        return [key for key, _ in self._rows]

    def set_columns(self, columns: Sequence[TableColumn]) -> None:
        """Other columns, or other titles; the rows stay."""
        if list(columns) != self._cols:
            self._cols = list(columns)
            self._fit()

    def set_rows(self, rows: Sequence[Row], *, to_end: bool = False) -> None:
        """Let the table say this. to_end: and put the cursor on the last row."""
        self._given, self._to_end = list(rows), to_end
        self.marked &= {key for key, _ in self._given}
        self._reorder()

    def select(self, key: str) -> None:
        """Put the cursor on this row, if it is there."""
        if key in self.row_keys:
            self.move_to(self.row_keys.index(key))

    def on_resize(self) -> None:
        """Other room. Where the end is followed, it stays in sight."""
        self._fit()
        self.scroll_to_cursor()

    def action_mark(self) -> None:
        """Mark the row, or take the mark away, and go on."""
        if self.can_mark and self.current is not None:
            self._mark(self.marked ^ {self.current})
            self.action_move(1)

    def action_mark_all(self) -> None:
        """Mark every row that is shown; once more takes all marks away."""
        everything = set(self.row_keys)
        self._mark(set() if self.marked == everything else everything)

    def action_mark_others(self) -> None:
        """What was marked is not, and the other way round."""
        self._mark(self.marked ^ set(self.row_keys))

    def _mark(self, keys: set[str]) -> None:
        if self.can_mark:
            self.marked = keys
            self.refresh()

    def action_sort_next(self) -> None:
        """By the next column; after the last one, as it came."""
        place = -1 if self._sorted_by is None else self._sorted_by
        self._sorted_by = place + 1 if place + 1 < len(self._cols) else None
        self._sort()

    def action_sort_back(self) -> None:
        """The other way round."""
        self._backwards = not self._backwards
        self._sort()

    def _sort(self) -> None:
        self._reorder()
        self.scroll_to_cursor()
        self.refresh()

    def _ordered(self) -> list[Row]:
        if self._sorted_by is None:
            return self._given[::-1] if self._backwards else self._given
        key = self._cols[self._sorted_by].key
        return sorted(self._given, key=lambda row: _sort_key(row[1].get(key, _NOTHING)), reverse=self._backwards)

    def _reorder(self) -> None:
        """Rows in their order, the cursor where its row is now, and what is seen of it drawn again where it differs."""
        before, at = self._rows, self.current
        self._rows = self._ordered()
        self._extend()
        top = self.scroll_offset.y
        for row in range(top, top + self.page_rows):
            if not _has_same_texts(before[row : row + 1], self._rows[row : row + 1]):
                self.refresh_row(row)
        keys = self.row_keys
        row = len(keys) - 1 if self._to_end else keys.index(at) if at in keys else self.cursor_row
        self.move_to(row, scroll=self._to_end)

    def _fit(self) -> None:
        """As many columns as there is room for."""
        by_key = {col.key: col for col in self._cols}
        fitting = [(by_key[key], width) for key, width in self._widths()]
        if fitting != self._fitting:
            self._fitting = fitting
            self._extend()
            self.refresh()

    def _extend(self) -> None:
        self.set_size(len(self._rows), sum(width + 1 for _, width in self._fitting))

    def _widths(self) -> list[tuple[str, int]]:
        """Which columns fit, and how wide each is."""
        room = self.size.width - self.styles.scrollbar_size_vertical
        if room <= 0:
            return []
        chosen = list(self._cols)
        while len(chosen) > 1 and sum(col.width + 1 for col in chosen) > room:
            last = max(chosen, key=lambda col: col.drop_order)
            if not last.drop_order:
                break
            chosen.remove(last)
        left = max(0, room - sum(col.width + 1 for col in chosen))
        widths = {col.key: col.width for col in chosen}
        for col in chosen:
            more = min(left, max(0, col.max_width - col.width))
            widths[col.key], left = widths[col.key] + more, left - more
        growing = next((col for col in reversed(chosen) if col.grow), None)
        if growing:
            widths[growing.key] += left
        return list(widths.items())

    def render_header(self, look: LineStyle) -> list[Segment]:
        style = look.style("bold")
        return [Segment(self._title(col, width) + " ", style) for col, width in self._fitting]

    def _title(self, col: TableColumn, width: int) -> str:
        arrow = ""
        if self._sorted_by is not None and self._cols[self._sorted_by].key == col.key:
            arrow = "▼" if self._backwards else "▲"
        return fit_width(arrow + col.title, width, col.align)

    def render_row(self, row: int, look: LineStyle) -> list[Segment]:
        """What stands in each column."""
        key, cells = self._rows[row]
        drawn: list[Segment] = []
        for place, (col, width) in enumerate(self._fitting):
            cell = cells.get(col.key, _NOTHING)
            if place == 0 and key in self.marked:
                cell = Cell(f"{MARK}{cell.text}", "mark")
            text = fit_width(safe(cell.text, 4 * width + 4), width, col.align)
            drawn.append(Segment(text + " ", look.style(style_of(self.app.theme, cell.style))))
        return drawn


def _has_same_texts(before: Sequence[Row], after: Sequence[Row]) -> bool:
    """Whether rows are drawn the same: what they are sorted by is not seen."""
    return [_visible_texts(row) for row in before] == [_visible_texts(row) for row in after]


def _visible_texts(row: Row) -> tuple[str, list[tuple[str, tuple[str, str]]]]:
    return row[0], [(column, cell[:2]) for column, cell in row[1].items()]


def _sort_key(cell: Cell) -> tuple[int, float, str]:
    return (0, cell.order, "") if cell.order is not None else (1, 0.0, cell.text)
