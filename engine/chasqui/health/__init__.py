"""Whether queues and servers are well: judgement on what others have seen, as findings. Nothing here asks a server.

`of_queue` judges a snapshot, so it costs nothing on top of one; `of_examination` what `checkup.py` has sampled;
`of_server` what a server tells of itself. Command line, dashboard and monitors share all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.health.finding import Finding, Level, State, percent_of, state, worst
from chasqui.health.serving import ServerFacts, of_server
from chasqui.health.standing import of_queue

if TYPE_CHECKING:
    from chasqui.health.sampled import of_examination

__all__ = [
    "Finding",
    "Level",
    "ServerFacts",
    "State",
    "of_examination",
    "of_queue",
    "of_server",
    "percent_of",
    "state",
    "worst",
]


def __getattr__(name: str) -> Any:
    """Samples can only be judged by who knows how jobs, events and schedules are written: imported when asked for."""
    if name != "of_examination":
        raise AttributeError(f"module 'chasqui.health' has no attribute {name!r}")
    from chasqui.health.sampled import of_examination

    return of_examination
