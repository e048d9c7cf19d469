"""Configured keys: they work, the old ones do not, `?` and the footer list them, and mistakes are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui import ConfigError
from chasqui_cli.tui.dashboard import DashboardApp
from chasqui_cli.tui.dialogs import ChangeDialog, Dialog
from chasqui_cli.tui.tabs import TABS, create_tab
from chasqui_cli.tui.widgets.prompt import Prompt
from chasqui_cli.tui.widgets.record_table import RecordTable
from chasqui_cli.tui.widgets.row_list import RowList
from tests.support.seeds import dashboard_queues
from tests.support.tui.driver import open_dashboard, write_config

if TYPE_CHECKING:
    from pathlib import Path

    from chasqui import Link
    from tests.support.servers.server import Server

URL = "redis://127.0.0.1:1"


async def test_configured_keys_work_and_are_listed(one_server: Server, link: Link, queue: str, home: Path) -> None:
    write_config(home, '[keys]\n"tab.dlq" = "4,f4"\n"change.replay" = "ctrl+r"\n"app.help" = "f2"\n')
    dashboard_queues.add_dead_letters(link, queue, 2, name="mail", detail="no such host")
    async with open_dashboard(one_server.url) as person:
        await person.open("f4", queue)
        await person.wait_for_text("no such host", "^r replay")
        await person.press("R", "question_mark")
        assert len(person.app.screen_stack) == 1, "their old keys are nobody's"
        await person.press("f2")
        await person.wait_for_text("ctrl+r")
        await person.press("escape", "ctrl+r")
        assert (await person.wait_for_preview())[:2] == ["dlq", "replay"]
        await person.press("escape")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[keys]\n"app.leave" = "x"\n', r"there is no 'app\.leave'"),
        ('[keys]\n"app.quit" = 7\n', "is no key"),
        ('[keys]\n"app.quit" = "controlx"\n', "is no key"),
        ('[keys]\n"app.quit" = ""\n', "is no key"),
        ("keys = 7\n", "is not a table"),
    ],
)
async def test_a_mistake_is_reported_before_anything_opens(home: Path, text: str, message: str) -> None:
    write_config(home, text)
    with pytest.raises(ConfigError, match=message) as raised:
        async with open_dashboard(URL):
            pass
    assert raised.value.hint


def test_every_key_does_something() -> None:
    tabs = [type(create_tab(tab.name)) for tab in TABS]
    for kind in (DashboardApp, Dialog, ChangeDialog, Prompt, RowList, RecordTable, *tabs):
        for binding in vars(kind).get("BINDINGS", ()):
            action = binding.action.partition("(")[0]
            assert hasattr(kind, f"action_{action}"), f"{kind}: {binding.key} does nothing"
