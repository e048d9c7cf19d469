"""A dashboard on a real server with somebody at its keys, who waits for what he expects and never for a while."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from textual.widgets import Input, Static

from chasqui_cli.commands.top import dashboard_of
from chasqui_cli.desk import Desk
from chasqui_cli.settings import Given
from chasqui_cli.tui.dialogs import ChangeDialog
from chasqui_cli.tui.widgets.frame import Frame
from chasqui_cli.tui.widgets.records import RecordTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

    from chasqui_cli.tui.app import ChasquiApp

PATIENCE_S = 30.0
POLL_S = 0.05
PLAIN_CSS = "ChangeDialog, OutputDialog, HelpDialog { background: black; }"
"""To draw the dashboard through a dialog, at every key, would cost more than all else."""


class Cockpit:
    """What a person does and sees."""

    def __init__(self, app: ChasquiApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self.pilot.press(*(_key(char) for char in text))

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        left = PATIENCE_S
        while left > 0:
            if condition():
                return
            await self.pilot.pause(POLL_S)
            left -= POLL_S
        raise AssertionError(
            f"waited {PATIENCE_S:g} s in vain until {what}; the screen says:\n{self.screen()}"
        )

    async def sees(self, *texts: str) -> None:
        """Wait until all of it is on the screen."""
        await self.until(lambda: all(text in self.screen() for text in texts), f"{texts} could be seen")

    async def open(self, tab: str, queue: str) -> None:
        """Choose a queue in the fleet and open a tab of it."""
        await self.until(lambda: queue in self.table("#fleet").shown, f"{queue} was found")
        self.table("#fleet").select(queue)
        await self.press(tab)
        await self.until(lambda: self.app.pane.view is not None, "the tab had something to show")
        await self.pilot.pause()

    def table(self, name: str) -> RecordTable:
        return self.app.home.query_one(name, RecordTable)

    def screen(self) -> str:
        """Everything that can be read right now, line by line."""
        width = self.app.size.width
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text[:width].rstrip() for strip in strips)

    @property
    def frame(self) -> str:
        return self.app.home.query_one(Frame).render().plain

    @property
    def dialog(self) -> ChangeDialog:
        found = self.app.screen
        assert isinstance(found, ChangeDialog), f"no dialog is open:\n{self.screen()}"
        return found

    async def previewed(self) -> list[str]:
        """Wait for the dry run; the words of the line that it tried."""
        await self.until(lambda: isinstance(self.app.screen, ChangeDialog), "a dialog opened")
        dialog = self.dialog
        await self.until(lambda: dialog._previewed is not None, "the dry run had a result")
        return list(dialog._previewed or [])

    async def consents(self, code: int = 0) -> Any:
        """Say yes, wait for the end, close; what the command printed."""
        dialog = self.dialog
        if dialog.must_type:
            dialog.query_one("#typed", Input).value = dialog._change.queue
            dialog.set_focus(None)
        await self.press("y")
        await self.until(lambda: dialog._ended is not None, "the change was made")
        ended = dialog._ended
        assert ended
        assert ended.code == code, ended
        await self.pilot.pause()
        await self.press("escape")
        await self.until(lambda: len(self.app.screen_stack) == 1, "the dialog closed")
        return json.loads(ended.out)

    async def output(self) -> str:
        """What a command showed in a window."""
        told = self.app.screen.query_one("#told", Static)
        await self.until(lambda: str(told.render()).strip(), "the command had said something")
        return str(told.render())


@asynccontextmanager
async def cockpit(
    url: str,
    *,
    size: tuple[int, int] = (120, 40),
    interval_s: float = 0.5,
    read_only: bool = False,
    queue: str | None = None,
) -> AsyncIterator[Cockpit]:
    """Open a dashboard, and close it."""
    desk = Desk(given=Given(redis_url=url, read_only=read_only))
    app = dashboard_of(desk, queue, interval_s, light=False, keep_awake=False)
    app.stylesheet.add_source(PLAIN_CSS, read_from=("tests", "plain"))
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Cockpit(app, pilot)


def _key(char: str) -> str:
    from textual.keys import _character_to_key

    return _character_to_key(char)
