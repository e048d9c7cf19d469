"""The nine tabs, in their order. What a tab shows is imported and made when it is first opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chasqui_cli.tui.panes.pane import TabBase


class TabInfo(NamedTuple):
    """A tab before anybody opened it. needs_queue: it is about one queue."""

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
    """What a tab shows, new."""
    match tab:
        case "fleet":
            from chasqui_cli.tui.panes.fleet import FleetTab

            return FleetTab()
        case "queue":
            from chasqui_cli.tui.panes.queue import QueueTab

            return QueueTab()
        case "jobs":
            from chasqui_cli.tui.panes.jobs import JobsTab

            return JobsTab()
        case "dlq":
            from chasqui_cli.tui.panes.dlq import DlqTab

            return DlqTab()
        case "delayed":
            from chasqui_cli.tui.panes.delayed import DelayedTab

            return DelayedTab()
        case "cron":
            from chasqui_cli.tui.panes.cron import CronTab

            return CronTab()
        case "workers":
            from chasqui_cli.tui.panes.workers import WorkersTab

            return WorkersTab()
        case "events":
            from chasqui_cli.tui.panes.events import EventsTab

            return EventsTab()
        case "health":
            from chasqui_cli.tui.panes.health import HealthTab

            return HealthTab()
    raise LookupError(tab)
