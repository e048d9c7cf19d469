"""Tables, tabs and keys as they are drawn here, line by line: what keys and mouse do to them, and how little is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from textual.app import App

from chasqui import AsyncLink, Link
from chasqui_cli.tui.feed import Feed
from chasqui_cli.tui.feed_messages import ViewReady
from chasqui_cli.tui.widgets.bars import KeyBar, TabBar
from chasqui_cli.tui.widgets.record_table import RecordTable, Row, TableColumn
from chasqui_cli.tui.widgets.row_list import HEADER_LINES
from chasqui_cli.tui.widgets.styled_text import DARK, Cell
from tests.support.seeds import dashboard_queues
from tests.support.tui.fixed_views import fixed_dashboard

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.message import Message
    from textual.pilot import Pilot

    from tests.support.servers.server import Server

COLUMNS = (
    TableColumn("name", "NAME", 8),
    TableColumn("size", "SIZE", 5, "right"),
    TableColumn("note", "NOTE", 6, drop_order=1, grow=True),
)
SEEN = 5


def rows(count: int, **sizes: int) -> list[Row]:
    return [
        (f"r{nth}", {"name": Cell(f"r{nth}"), "size": Cell("x", "", sizes.get(f"r{nth}", nth))}) for nth in range(count)
    ]


class Drawn(RecordTable):
    """Notes which rows it draws."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        super().__init__(columns, can_mark=True)
        self.drawn: list[int] = []

    def render_row(self, row: int, look: object) -> list[object]:  # type: ignore[override]  # only handed on
        self.drawn.append(row)
        return super().render_row(row, look)  # type: ignore[arg-type,return-value]


class Shown(App[None]):
    """One table, and the messages it posts."""

    CSS = "Drawn > .listing--hover { background: blue; } Drawn > .listing--cursor { background: red; }"

    def __init__(self) -> None:
        super().__init__()
        self.table = Drawn(COLUMNS)
        self.messages: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.table

    def on_row_list_highlighted(self, event: RecordTable.Highlighted) -> None:
        self.messages.append(f"at {event.control.current}")

    def on_row_list_selected(self, event: RecordTable.Selected) -> None:
        self.messages.append(f"chose {event.control.current}")


async def shown(pilot: Pilot[None], app: Shown, given: Sequence[Row], *, to_end: bool = False) -> list[int]:
    """Show rows; which of them were drawn for it."""
    await pilot.pause()
    app.table.drawn.clear()
    app.table.set_rows(given, to_end=to_end)
    await pilot.pause()
    return sorted(set(app.table.drawn))


async def test_only_rows_in_sight_that_look_different_are_drawn() -> None:
    app = Shown()
    async with app.run_test(size=(40, SEEN + HEADER_LINES)) as pilot:
        assert await shown(pilot, app, rows(300)) == [0, 1, 2, 3, 4]
        assert await shown(pilot, app, rows(300)) == []
        assert await shown(pilot, app, rows(300, r1=77)) == [], "what it is sorted by is not seen"
        others = rows(300)
        others[2] = ("r2", {"name": Cell("other")})
        others[200] = ("r200", {"name": Cell("other")})
        assert await shown(pilot, app, others) == [2]
        assert app.table.row_count == 300


async def test_the_cursor_stays_with_its_row_and_posts_another() -> None:
    app = Shown()
    async with app.run_test(size=(40, SEEN + HEADER_LINES)) as pilot:
        await shown(pilot, app, rows(20))
        await pilot.press("down", "j", "k")
        assert app.messages == ["at r0", "at r1", "at r2", "at r1"]
        await shown(pilot, app, rows(20)[::-1])
        assert (app.table.current, app.table.cursor_row) == ("r1", 18)
        assert app.messages[4:] == [], "the row moved; it is the same"
        await shown(pilot, app, rows(1))
        assert app.messages[4:] == ["at r0"], "its row is gone"
        await shown(pilot, app, [])
        await pilot.press("down", "pagedown", "end", "enter", "space", "a", "s")
        assert app.table.current is None
        assert app.messages[5:] == []


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        ("pagedown", 5), ("pagedown pagedown pageup", 5), ("end", 19), ("end home", 0), ("G", 19), ("G g", 0),
        ("ctrl+d", 2), ("ctrl+d ctrl+d ctrl+u", 2), ("up", 0), ("end down", 19), ("ctrl+end pageup", 14),
    ],
)  # fmt: skip
async def test_keys_move_the_cursor_and_keep_it_in_sight(keys: str, row: int) -> None:
    app = Shown()
    async with app.run_test(size=(40, SEEN + HEADER_LINES)) as pilot:
        await shown(pilot, app, rows(20))
        await pilot.press(*keys.split())
        table = app.table
        assert table.cursor_row == row
        assert table.scroll_offset.y <= row < table.scroll_offset.y + SEEN


async def test_a_click_brings_the_cursor_and_a_second_one_chooses() -> None:
    app = Shown()
    async with app.run_test(size=(40, SEEN + HEADER_LINES)) as pilot:
        await shown(pilot, app, rows(3))
        await pilot.click(offset=(3, 0))
        assert app.messages == ["at r0"], "the head is no row"
        await pilot.click(offset=(3, HEADER_LINES + 2))
        await pilot.click(offset=(3, HEADER_LINES + 2))
        await pilot.click(offset=(3, HEADER_LINES + 4))
        assert app.messages == ["at r0", "at r2", "chose r2"], "below the last row there is none"
        await pilot.hover(offset=(3, HEADER_LINES + 1))
        hovered = app.table.render_line(HEADER_LINES + 1)
        await pilot.press("enter")
        assert app.table.render_line(HEADER_LINES + 1) != hovered, "a key takes the mouse's mark away"
        assert app.messages[3:] == ["chose r2"]


async def test_the_end_is_followed_and_room_decides_which_columns_are_seen() -> None:
    app = Shown()
    async with app.run_test(size=(40, SEEN + HEADER_LINES)) as pilot:
        await shown(pilot, app, rows(20), to_end=True)
        assert app.table.render_line(SEEN).text.startswith("r19 ")
        assert "NOTE" in app.table.render_line(0).text
        await pilot.resize_terminal(20, 3 + HEADER_LINES)
        await pilot.pause()
        assert app.table.render_line(3).text.startswith("r19 ")
        assert app.table.render_line(0).text.split() == ["NAME", "SIZE"]


async def test_tabs_and_keys_can_be_clicked() -> None:
    app = fixed_dashboard(DARK)
    async with app.run_test(size=(120, 40)) as pilot:
        tabs, keys = app.main_screen.query_one(TabBar), app.main_screen.query_one(KeyBar)
        await pilot.click(tabs, offset=(tabs.render_line(0).text.index("DLQ"), 0))
        await pilot.pause()
        assert (app.current_tab.tab, tabs.active) == ("dlq", "dlq")
        plain = keys.render_line(0)
        assert plain.text.rstrip().endswith("palette")
        await pilot.hover(keys, offset=(plain.text.index("filter"), 0))
        assert keys.render_line(0) != plain
        await pilot.click(keys, offset=(plain.text.index("filter"), 0))
        await pilot.pause()
        assert app.prompt.asking == "filter"
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert tabs.render_line(0).text.split() == ["1", "2", "3", "4", "DLQ", "5", "6", "7", "8", "9"]
        assert "palette" not in keys.render_line(0).text


async def test_a_greyed_key_does_nothing_when_it_is_clicked() -> None:
    app = fixed_dashboard(DARK, read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        keys = app.main_screen.query_one(KeyBar)
        await pilot.click(keys, offset=(keys.render_line(0).text.index("replay"), 0))
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_the_first_picture_is_read_once(one_server: Server) -> None:
    """One tick finds every queue and shows it; what is learned meanwhile asks for no other."""
    with Link.open(one_server.url) as link:
        for nth in range(3):
            dashboard_queues.add_waiting(link, f"first-{nth}", 1)
    seen: list[Message] = []
    app = Waiting(Feed(lambda: AsyncLink.open(one_server.url), interval_s=0.5), seen)
    async with app.run_test() as pilot:
        while len([one for one in seen if isinstance(one, ViewReady)]) < 2:
            await pilot.pause(0.02)
        first, second = (one for one in seen if isinstance(one, ViewReady))
    assert len(first.view.rows) == 3  # type: ignore[union-attr]  # the fleet's
    assert second.now_ms - first.now_ms >= 400


class Waiting(App[None]):
    """Receives the messages of a feed."""

    def __init__(self, feed: Feed, seen: list[Message]) -> None:
        super().__init__()
        feed.set_listener(seen.append)
        self._feed = feed

    def on_mount(self) -> None:
        self.run_worker(self._feed.run())
