"""A dashboard on a real server and a user at its keys, who waits for what he expects and never for a time."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from textual import events
from textual._compositor import Compositor
from textual.keys import _character_to_key, key_to_character
from textual.widgets import Input, Static

from chasqui import SystemClock
from chasqui_cli.commands.top import build_dashboard
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.settings import ConnectionOptions
from chasqui_cli.tui.dialogs import ChangeDialog
from chasqui_cli.tui.widgets.record_table import RecordTable
from chasqui_cli.tui.widgets.status_header import StatusHeader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from textual.app import App
    from textual.pilot import Pilot
    from textual.screen import Screen

    from chasqui_cli.tui.dashboard import DashboardApp

CLOCK = SystemClock()
PATIENCE_S = 30.0
POLL_S = 0.02
CALM = 4
"""The number of looks in a row that must find all queues empty before the dashboard counts as idle."""
PLAIN_CSS = "ChangeDialog, OutputDialog, HelpDialog { background: black !important; }"
"""To draw the dashboard through a dialog, at every key, would cost more than all else."""


class DashboardDriver:
    """What a person does and sees."""

    def __init__(self, app: DashboardApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        """One key after the other, each when all that came of the one before has happened."""
        for key in keys:
            await self.press_at_once(key)

    async def press_at_once(self, *keys: str) -> None:
        """Keys as a terminal hands them over when they came faster than they were drawn."""
        await self._send((key, key_to_character(key)) for key in keys)

    async def type(self, text: str) -> None:
        await self._send((_character_to_key(char), char) for char in text)

    async def _send(self, keys: Iterable[tuple[str, str | None]]) -> None:
        assert self.app._driver
        for key, char in keys:
            self.app._driver.send_message(events.Key(key, char))
        await self.settle()

    async def settle(self) -> None:
        await wait_until_idle(self.app)

    async def wait_until(self, condition: Callable[[], Any], what: str) -> None:
        left = PATIENCE_S
        while left > 0:
            if condition():
                return
            if self.app._exception:
                raise AssertionError(f"it crashed before {what}") from self.app._exception
            await CLOCK.sleep(POLL_S)
            left -= POLL_S
        raise AssertionError(f"waited {PATIENCE_S:g} s in vain until {what}; the screen says:\n{self.screen()}")

    async def wait_for_text(self, *texts: str) -> None:
        """Wait until all of it is on the screen."""
        await self.wait_until(lambda: all(text in self.screen() for text in texts), f"{texts} could be seen")

    async def open(self, tab: str, queue: str) -> None:
        """Choose a queue in the fleet and open a tab of it."""
        await self.wait_until(lambda: queue in self.table("#fleet").row_keys, f"{queue} was found")
        self.table("#fleet").select(queue)
        await self.open_tab(tab)

    async def open_tab(self, tab: str) -> None:
        """Bring a tab to the front, and wait until it shows what there is."""
        await self.press(tab)
        await self.wait_until(lambda: self.app.current_tab.view is not None, "the tab had something to show")
        await wait_until_drawn(self.app)

    def table(self, name: str) -> RecordTable:
        return self.app.main_screen.query_one(name, RecordTable)

    def screen(self) -> str:
        """Everything that can be read right now, line by line."""
        width = self.app.size.width
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text[:width].rstrip() for strip in strips)

    @property
    def frame(self) -> str:
        return self.app.main_screen.query_one(StatusHeader).render().plain

    @property
    def dialog(self) -> ChangeDialog:
        found = self.app.screen
        assert isinstance(found, ChangeDialog), f"no dialog is open:\n{self.screen()}"
        return found

    async def wait_for_preview(self) -> list[str]:
        """Wait for the dry run; the words of the line that it tried."""
        await self.wait_until(lambda: isinstance(self.app.screen, ChangeDialog), "a dialog opened")
        dialog = self.dialog
        await self.wait_until(lambda: dialog._previewed is not None, "the dry run had a result")
        return list(dialog._previewed or [])

    async def confirm_change(self, code: int = 0) -> Any:
        """Say yes, wait for the end, close; what the command printed."""
        dialog = self.dialog
        if dialog.needs_typed_name:
            dialog.query_one("#typed", Input).value = dialog.queue
            dialog.set_focus(None)
        await self.press("y")
        await self.wait_until(lambda: dialog._ended is not None, "the change was made")
        ended = dialog._ended
        assert ended
        assert ended.code == code, ended
        await self.settle()
        await self.press("escape")
        await self.wait_until(lambda: len(self.app.screen_stack) == 1, "the dialog closed")
        return json.loads(ended.out)

    async def output(self) -> str:
        """What a command printed, in its window."""
        widget = self.app.screen.query_one("#told", Static)
        await self.wait_until(lambda: str(widget.render()).strip(), "the command had printed something")
        return str(widget.render())


async def wait_until_idle(app: App[None]) -> None:
    """Wait until no widget has anything left to deal with. `Pilot.pause` waits for the processor to be idle instead:
    twenty milliseconds for each key on an idle machine, and a second on a busy one.
    """
    calm = 0
    while calm < CALM and not app._exception:
        await CLOCK.sleep(0)
        calm = calm + 1 if all(pump._message_queue.empty() for pump in (app, *app._registry)) else 0


async def wait_until_drawn(app: App[None]) -> None:
    """Wait until also everything has its place and is drawn: now, not when the next picture would be due."""
    await wait_until_idle(app)
    await app.animator.wait_until_complete()
    while not app._exception and _has_to_draw(app.screen):
        app.screen._on_timer_update()
        await wait_until_idle(app)
        await app.animator.wait_until_complete()


def _has_to_draw(screen: Screen[Any]) -> bool:
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._dirty_widgets
        or screen._callbacks
    )


@asynccontextmanager
async def open_dashboard(
    url: str,
    *,
    size: tuple[int, int] = (120, 40),
    interval_s: float = 0.5,
    read_only: bool = False,
    context: str | None = None,
    queue: str | None = None,
    draws: bool = False,
) -> AsyncIterator[DashboardDriver]:
    """Open a dashboard, and close it. draws: draw also what no test looks at.
    context: the name of a context, instead of a URL.
    """
    command_context = CommandContext(
        connection=ConnectionOptions(redis_url=None if context else url, context=context, read_only=read_only)
    )
    app = build_dashboard(command_context, queue, interval_s, light=False, keep_awake=False)
    app.stylesheet.add_source(PLAIN_CSS, read_from=("tests", "plain"))
    app.animation_level = "none"
    with nullcontext() if draws else patch.object(Compositor, "render_update", _draw_nothing):
        async with app.run_test(size=size, notifications=True) as pilot:
            yield DashboardDriver(app, pilot)
            app.workers.cancel_all()  # as at the end of `App.run`; `run_test` takes the widgets away first


def write_config(home: Path, text: str) -> None:
    """Write a user's configuration file."""
    file = home / ".config/chasqui/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)


def _draw_nothing(compositor: Compositor, *_: Any, **__: Any) -> None:
    compositor._dirty_regions.clear()
