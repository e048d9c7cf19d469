"""Other systems' queues, seen and managed beside ours, and moved to ours. Names are resolved on first use.

`rsmq` and `joblist` hold what can be asked of each system; everything else here is about all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chasqui.foreign import joblist as joblist
    from chasqui.foreign import rsmq as rsmq
    from chasqui.foreign.checkup import Checked as Checked
    from chasqui.foreign.checkup import check_up as check_up
    from chasqui.foreign.discovery import ForeignQueues as ForeignQueues
    from chasqui.foreign.discovery import discover as discover
    from chasqui.foreign.discovery import discover_async as discover_async
    from chasqui.foreign.migration import Migration as Migration
    from chasqui.foreign.migration import Report as Report
    from chasqui.foreign.migration import give_back as give_back
    from chasqui.foreign.migration import migrate as migrate
    from chasqui.foreign.parcels import Terms as Terms
    from chasqui.foreign.slots import check_together as check_together
    from chasqui.foreign.views import ForeignSnapshot as ForeignSnapshot
    from chasqui.foreign.views import snapshots as snapshots
    from chasqui.wire.joblist_keys import JobListKeys as JobListKeys
    from chasqui.wire.rsmq_keys import RsmqKeys as RsmqKeys

_HOMES = {
    "Checked": "chasqui.foreign.checkup",
    "ForeignQueues": "chasqui.foreign.discovery",
    "ForeignSnapshot": "chasqui.foreign.views",
    "JobListKeys": "chasqui.wire.joblist_keys",
    "Migration": "chasqui.foreign.migration",
    "Report": "chasqui.foreign.migration",
    "RsmqKeys": "chasqui.wire.rsmq_keys",
    "Terms": "chasqui.foreign.parcels",
    "check_together": "chasqui.foreign.slots",
    "check_up": "chasqui.foreign.checkup",
    "discover": "chasqui.foreign.discovery",
    "discover_async": "chasqui.foreign.discovery",
    "give_back": "chasqui.foreign.migration",
    "migrate": "chasqui.foreign.migration",
    "snapshots": "chasqui.foreign.views",
}


def __getattr__(name: str) -> Any:
    if name in {"joblist", "rsmq"}:
        return import_module(f"chasqui.foreign.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "joblist", "rsmq"])
