"""The nine tabs, in their order. What a tab shows is imported and made when it is first opened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chasqui_cli.tui.tabs.tab_base import TabBase


class TabInfo(NamedTuple):
    """A tab that is not open yet. needs_queue: it is about one queue."""

    name: str
    title: str
    needs_queue: bool = True


TABS = (
    TabInfo("fleet", "Fleet", needs_queue=False),
    TabInfo("queue", "Queue"),
    TabInfo("jobs", "Jobs"),
    TabInfo("dlq", "DLQ"),
    TabInfo("delayed", "Delayed"),
    TabInfo("cron", "Cron"),
    TabInfo("workers", "Workers"),
    TabInfo("events", "Events"),
    TabInfo("health", "Health", needs_queue=False),
)


def create_tab(tab: str) -> TabBase:
    """What a tab shows, new: `DlqTab` of dlq_tab.py for the tab `dlq`."""
    created: TabBase = getattr(import_module(f"{__name__}.{tab}_tab"), f"{tab.title()}Tab")()
    return created
