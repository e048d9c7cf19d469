"""The nine tabs, in their order."""

from chasqui_cli.tui.panes.cron import CronTab
from chasqui_cli.tui.panes.delayed import DelayedTab
from chasqui_cli.tui.panes.dlq import DeadTab
from chasqui_cli.tui.panes.events import EventsTab
from chasqui_cli.tui.panes.fleet import Fleet
from chasqui_cli.tui.panes.health import HealthTab
from chasqui_cli.tui.panes.jobs import JobsTab
from chasqui_cli.tui.panes.pane import Pane
from chasqui_cli.tui.panes.queue import QueueTab
from chasqui_cli.tui.panes.workers import WorkersTab

PANES: tuple[type[Pane], ...] = (
    Fleet,
    QueueTab,
    JobsTab,
    DeadTab,
    DelayedTab,
    CronTab,
    WorkersTab,
    EventsTab,
    HealthTab,
)
