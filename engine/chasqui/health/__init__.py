"""Checks of queues and servers: rules that turn what was read into findings. Only `samples.py` makes calls.

`check_queue` checks a snapshot, so it costs nothing on top of one; `check_samples` what `samples.py` has read;
`check_server` what a server reports about itself. Command line, dashboard and monitors share all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.health.findings import Finding, Level, QueueStatus, fill_percent, queue_status, worst_level
from chasqui.health.rules_queue import check_queue
from chasqui.health.rules_server import ServerFacts, check_server, clock_skew_ms
from chasqui.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from chasqui.health.rules_samples import check_samples as check_samples

__all__ = [
    "Finding",
    "Level",
    "QueueStatus",
    "ServerFacts",
    "check_queue",
    "check_samples",
    "check_server",
    "clock_skew_ms",
    "fill_percent",
    "queue_status",
    "worst_level",
]

# Judging samples takes the codecs of jobs, events and schedules: imported on first use.
if not TYPE_CHECKING:  # so that type checkers report a name that is not there
    __getattr__, __dir__ = lazy_exports(__name__)
