"""Whether queues and servers are well: judgement on what others have seen, as findings. Nothing here asks a server.

`of_queue` judges a snapshot, so it costs nothing on top of one; `of_examination` what `checkup.py` has sampled;
`of_server` what a server tells of itself. Command line, dashboard and monitors share all three.
"""

from __future__ import annotations

from chasqui.health.finding import Finding, Level, State, percent_of, state, worst
from chasqui.health.sampled import of_examination
from chasqui.health.serving import ServerFacts, of_server
from chasqui.health.standing import of_queue

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
