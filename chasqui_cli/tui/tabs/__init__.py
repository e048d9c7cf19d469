"""The nine tabs, in their order. What a tab shows is imported and made when it is first opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chasqui_cli.tui.tabs.tab_base import TabBase


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
            from chasqui_cli.tui.tabs.fleet_tab import FleetTab

            return FleetTab()
        case "queue":
            from chasqui_cli.tui.tabs.queue_tab import QueueTab

            return QueueTab()
        case "jobs":
            from chasqui_cli.tui.tabs.jobs_tab import JobsTab

            return JobsTab()
        case "dlq":
            from chasqui_cli.tui.tabs.dlq_tab import DlqTab

            return DlqTab()
        case "delayed":
            from chasqui_cli.tui.tabs.delayed_tab import DelayedTab

            return DelayedTab()
        case "cron":
            from chasqui_cli.tui.tabs.cron_tab import CronTab

            return CronTab()
        case "workers":
            from chasqui_cli.tui.tabs.workers_tab import WorkersTab

            return WorkersTab()
        case "events":
            from chasqui_cli.tui.tabs.events_tab import EventsTab

            return EventsTab()
        case "health":
            from chasqui_cli.tui.tabs.health_tab import HealthTab

            return HealthTab()
    raise LookupError(tab)
