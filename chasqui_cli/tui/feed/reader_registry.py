"""Which reader reads for which tab. Each is imported when its tab is first opened: the first picture waits for none of
the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chasqui_cli.tui.feed.tab_reader import FeedContext, TabReader


def create_reader(tab: str, place: FeedContext) -> TabReader:
    """A new one."""
    match tab:
        case "fleet":
            from chasqui_cli.tui.feed.fleet_reader import FleetReader

            return FleetReader(place)
        case "queue":
            from chasqui_cli.tui.feed.queue_reader import QueueReader

            return QueueReader(place)
        case "jobs":
            from chasqui_cli.tui.feed.jobs_reader import JobsReader

            return JobsReader(place)
        case "dlq":
            from chasqui_cli.tui.feed.dlq_reader import DlqReader

            return DlqReader(place)
        case "delayed":
            from chasqui_cli.tui.feed.delayed_reader import DelayedReader

            return DelayedReader(place)
        case "cron":
            from chasqui_cli.tui.feed.cron_reader import CronReader

            return CronReader(place)
        case "workers":
            from chasqui_cli.tui.feed.workers_reader import WorkersReader

            return WorkersReader(place)
        case "events":
            from chasqui_cli.tui.feed.events_reader import EventsReader

            return EventsReader(place)
        case "health":
            from chasqui_cli.tui.feed.health_reader import HealthReader

            return HealthReader(place)
    raise LookupError(tab)
