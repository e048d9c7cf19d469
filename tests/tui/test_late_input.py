"""Keys, clicks and news that come when what they were meant for is gone: nothing crashes, and nothing is mistaken.

The data is fixed and the test decides when commands end: what is checked is the order of events, not a server.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Button

from chasqui_cli.tui.command_line import inspect_line
from chasqui_cli.tui.command_runner import CommandResult, CommandRunner
from chasqui_cli.tui.dialogs import ChangeDialog, HelpDialog
from chasqui_cli.tui.feed_messages import ReadCost, ReadTarget, ViewReady
from chasqui_cli.tui.tabs.events_tab import MAX_ROWS
from chasqui_cli.tui.widgets.record_table import RecordTable
from chasqui_cli.tui.widgets.styled_text import DARK
from tests.support.tui.driver import DashboardDriver
from tests.support.tui.fixed_views import NOW_MS, VIEWS, fixed_dashboard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

DRY = CommandResult(0, '[{"id": "1-0"}]', "", planned=1, queue="payments")


class HeldRunner(CommandRunner):
    """Dry runs end at once, all else when it is let go. `begun`: the lines that were run in earnest."""

    begun: list[list[str]]
    all_lines: list[list[str]]
    go: asyncio.Event

    async def run(self, words: Sequence[str], **_: Any) -> CommandResult:
        self.all_lines.append(list(words))
        if inspect_line(words).values.get("dry_run"):
            return DRY
        self.begun.append(list(words))
        await self.go.wait()
        return CommandResult(0, "[]", "done\n")


@asynccontextmanager
async def hasty(
    *, size: tuple[int, int] = (80, 24), protected: bool = False, is_web: bool = False
) -> AsyncIterator[tuple[DashboardDriver, HeldRunner]]:
    """A dashboard on fixed data with the DLQ of a queue in front. protected: a key is not consent enough."""
    app, runner = fixed_dashboard(DARK), HeldRunner({})
    object.__setattr__(runner, "begun", [])
    object.__setattr__(runner, "all_lines", [])
    object.__setattr__(runner, "go", asyncio.Event())
    app._runner, app._setup = runner, replace(app._setup, protected=protected, is_web=is_web)
    async with app.run_test(size=size, notifications=True) as pilot:
        person = DashboardDriver(app, pilot)
        await person.press("4")
        await person.wait_until(lambda: person.table("#letters").row_count, "the letters are there")
        yield person, runner
        assert app.is_running, "it goes on"


async def opened(person: DashboardDriver) -> ChangeDialog:
    await person.press("D")
    await person.wait_for_preview()
    return person.dialog


@pytest.mark.parametrize("button", ["leave", "do"])
async def test_a_button_that_closes_a_window_pressed_twice_closes_it_once(button: str) -> None:
    async with hasty() as (person, runner):
        runner.go.set()
        dialog = await opened(person)
        if button == "do":  # once all is done, it is labelled `close`
            await person.press("y")
            await person.wait_until(lambda: dialog._ended is not None, "the change was made")
            await person.settle()
        pressed = dialog.query_one(f"#{button}", Button)
        for _ in range(3):
            pressed.press()
        await person.wait_until(lambda: len(person.app.screen_stack) == 1, "it closed")
        await person.settle()


@pytest.mark.parametrize("keys", [("escape",) * 3, ("enter",) * 3, ("q", "escape"), ("n", "n")])
async def test_keys_that_close_a_window_pressed_at_once_close_it_once(keys: tuple[str, ...]) -> None:
    async with hasty() as (person, runner):
        dialog = await opened(person)
        dialog.query_one("#leave").focus()
        await person.press_at_once(*keys)
        await person.wait_until(lambda: len(person.app.screen_stack) == 1, "it closed")
        await person.settle()
        assert not runner.begun


async def test_a_window_closed_before_it_was_drawn_does_no_harm() -> None:
    async with hasty() as (person, runner):
        for key in ("D", "question_mark", "w", "l"):
            await person.press_at_once(key, "escape")
            await person.wait_until(lambda: len(person.app.screen_stack) == 1, f"what {key} opened closed")
            await person.settle()
            if person.app._tab != "dlq":  # the second key came first to the dashboard: it left the tab
                await person.press("4")
        await person.press_at_once("D", "y", "y", "enter", "escape")
        await person.wait_until(lambda: len(person.app.screen_stack) == 1, "it closed")
        assert not [words for words in runner.begun if "--yes" in words], "nobody saw a preview, nobody consents"


async def test_consent_that_comes_to_a_closed_window_is_none() -> None:
    async with hasty() as (person, runner):
        dialog = await opened(person)
        dialog.action_close()
        dialog.query_one("#do", Button).press()
        dialog.action_confirm()
        await person.wait_until(lambda: len(person.app.screen_stack) == 1, "it closed")
        await person.settle()
        assert not runner.begun


async def test_a_change_is_begun_once_however_often_the_key_is_pressed() -> None:
    async with hasty() as (person, runner):
        dialog = await opened(person)
        await person.press_at_once("y", "y", "enter", "y")
        await person.wait_until(lambda: runner.begun, "it began")
        await person.settle()
        assert len(runner.begun) == 1
        runner.go.set()
        await person.wait_until(lambda: dialog._ended is not None, "the change was made")


async def test_leaving_while_a_command_runs_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    async with hasty() as (person, runner):
        await opened(person)
        await person.press("y")
        await person.wait_until(lambda: runner.begun, "it began")
        await person.press("escape")
        runner.go.set()
        await person.wait_until(lambda: len(person.app.screen_stack) == 1, "it closed")
    assert "error" not in capsys.readouterr().err


async def test_a_second_dialog_does_not_open_before_the_first() -> None:
    async with hasty() as (person, _):
        await opened(person)
        person.app.current_tab.action_change("replay")
        person.app.action_undo()
        await person.settle()
        assert len(person.app.screen_stack) == 2


async def test_news_of_another_queue_is_not_taken_for_this_ones() -> None:
    """A tick for the queue before may be on its way while another one is chosen."""
    async with hasty() as (person, _):
        app = person.app
        late = ViewReady(ReadTarget("dlq", app.queue), VIEWS["dlq"](), ReadCost(1, 1, 1, 1.0), NOW_MS, 2.0)
        app._select_queue("another")
        app.post_message(late)
        await person.settle()
        assert app.current_tab.view is None, "letters of one queue must not stand under the name of another"


async def test_the_palette_does_not_change_the_queue_behind_a_dialog() -> None:
    async with hasty() as (person, _):
        queue = person.app.queue
        await opened(person)
        person.app.open_queue("another")
        await person.settle()
        assert (person.app.queue, person.app.current_tab.queue) == (queue, queue)


async def test_news_for_a_tab_that_is_not_in_front_changes_nothing() -> None:
    async with hasty() as (person, _):
        app = person.app
        for tab, view in VIEWS.items():
            app.post_message(ViewReady(ReadTarget(tab, app.queue), view(), ReadCost(1, 1, 1, 1.0), NOW_MS, 2.0))
        await person.settle()
        assert app._tab == "dlq"
        assert not app.main_screen.query("#pane-cron")


async def test_a_screen_too_small_for_anything_takes_every_key_and_grows_again() -> None:
    async with hasty() as (person, _):
        for size in ((1, 1), (5, 2), (80, 24)):
            await person.pilot.resize_terminal(*size)
            for tab in "123456789":
                await person.press(tab)
                await person.press_at_once("a", "space", "i", "s", "S", "j", "G", "ctrl+d", "k")
            await person.press("question_mark", "escape", "4")
        await person.wait_for_text("dead")


async def test_a_resize_in_the_middle_of_a_dialog_keeps_consent_in_sight() -> None:
    async with hasty(size=(120, 40), protected=True) as (person, _):
        await opened(person)
        for size in ((40, 12), (40, 20), (80, 23), (200, 60), (80, 24)):
            await person.pilot.resize_terminal(*size)
            await person.wait_for_text("the queue's name", "more options", "y  do it", "esc  leave it")


async def test_a_frozen_tail_outlives_what_it_was_cut_from() -> None:
    """So much happened since that nothing of what is shown is kept any more."""
    async with hasty() as (person, _):
        app = person.app
        await person.press("8")
        await person.wait_until(lambda: person.table("#events").row_count, "there are events")
        await person.press("t")
        shown = person.table("#events").row_keys
        view = app.current_tab.view
        lines = [replace(view.lines[0], key=f"9-{nth}", job_id="new") for nth in range(MAX_ROWS + 10)]
        later = replace(view, lines=tuple(lines), restarted=False)
        app.post_message(ViewReady(ReadTarget("events", app.queue), later, ReadCost(1, 1, 1, 1.0), NOW_MS, 2.0))
        await person.wait_for_text(f"frozen, {MAX_ROWS + 10:,} more")
        await person.press("g", "m", "n", "y", "g")
        assert person.table("#events").row_keys == shown
        assert app.current_tab.job_id() not in (None, "new")
        await person.press("t")
        await person.wait_until(lambda: "9-5" not in person.table("#events").row_keys, "the newest are there")


async def test_help_opened_twice_closes_twice() -> None:
    async with hasty() as (person, _):
        person.app.action_help()
        person.app.action_help()
        await person.wait_until(lambda: isinstance(person.app.screen, HelpDialog), "help is there")
        await person.press_at_once(*["escape"] * 4)
        await person.wait_until(lambda: len(person.app.screen_stack) == 1, "all closed")
        assert person.app.main_screen.query(RecordTable)
