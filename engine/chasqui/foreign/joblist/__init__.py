"""The list job queue of Redis' guide, as its nine versions have it. Names are resolved on first use.

Functions are flows, `link.run(joblist.enqueue(joblist.JobListKeys("jobs"), {"a": 1}, now_ms=…))`, but for `tail`,
which takes a link, and the worker, which has loops.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chasqui.foreign.joblist.doctor import REPAIRABLE as REPAIRABLE
    from chasqui.foreign.joblist.doctor import Ailment as Ailment
    from chasqui.foreign.joblist.doctor import Finding as Finding
    from chasqui.foreign.joblist.doctor import examine as examine
    from chasqui.foreign.joblist.doctor import look_over as look_over
    from chasqui.foreign.joblist.doctor import repair as repair
    from chasqui.foreign.joblist.doctor import repair_each as repair_each
    from chasqui.foreign.joblist.events import Event as Event
    from chasqui.foreign.joblist.events import tail as tail
    from chasqui.foreign.joblist.events import tail_async as tail_async
    from chasqui.foreign.joblist.restoring import kept_items as kept_items
    from chasqui.foreign.joblist.restoring import put_back as put_back
    from chasqui.foreign.joblist.stale import Judged as Judged
    from chasqui.foreign.joblist.stale import Reclaimed as Reclaimed
    from chasqui.foreign.joblist.stale import by_the_guide as by_the_guide
    from chasqui.foreign.joblist.stale import judge as judge
    from chasqui.foreign.joblist.stale import patient as patient
    from chasqui.foreign.joblist.stale import reclaim as reclaim
    from chasqui.foreign.joblist.tending import Overview as Overview
    from chasqui.foreign.joblist.tending import Tended as Tended
    from chasqui.foreign.joblist.tending import bump as bump
    from chasqui.foreign.joblist.tending import cancel as cancel
    from chasqui.foreign.joblist.tending import complete_by_hand as complete_by_hand
    from chasqui.foreign.joblist.tending import discard as discard
    from chasqui.foreign.joblist.tending import fail_by_hand as fail_by_hand
    from chasqui.foreign.joblist.tending import move as move
    from chasqui.foreign.joblist.tending import overview as overview
    from chasqui.foreign.joblist.tending import purge as purge
    from chasqui.foreign.joblist.tending import retry as retry
    from chasqui.foreign.joblist.values import Claim as Claim
    from chasqui.foreign.joblist.values import Depths as Depths
    from chasqui.foreign.joblist.values import Held as Held
    from chasqui.foreign.joblist.values import Job as Job
    from chasqui.foreign.joblist.values import Options as Options
    from chasqui.foreign.joblist.work import claim as claim
    from chasqui.foreign.joblist.work import complete as complete
    from chasqui.foreign.joblist.work import depths as depths
    from chasqui.foreign.joblist.work import enqueue as enqueue
    from chasqui.foreign.joblist.work import enqueue_many as enqueue_many
    from chasqui.foreign.joblist.work import fail as fail
    from chasqui.foreign.joblist.work import ids as ids
    from chasqui.foreign.joblist.work import job as job
    from chasqui.foreign.joblist.work import purge_all as purge_all
    from chasqui.foreign.joblist.work import renew as renew
    from chasqui.foreign.joblist.worker import JobListWorker as JobListWorker
    from chasqui.wire.joblist_keys import JobListKeys as JobListKeys

_ROOMS = {
    "chasqui.foreign.joblist.doctor": ("REPAIRABLE", "Ailment", "Finding", "examine", "look_over", "repair", "repair_each"),
    "chasqui.foreign.joblist.events": ("Event", "tail", "tail_async"),
    "chasqui.foreign.joblist.restoring": ("kept_items", "put_back"),
    "chasqui.foreign.joblist.stale": ("Judged", "Reclaimed", "by_the_guide", "judge", "patient", "reclaim"),
    "chasqui.foreign.joblist.tending": (
        "Overview", "Tended", "bump", "cancel", "complete_by_hand", "discard", "fail_by_hand", "move", "overview",
        "purge", "retry",
    ),
    "chasqui.foreign.joblist.values": ("Claim", "Depths", "Held", "Job", "Options"),
    "chasqui.foreign.joblist.work": (
        "claim", "complete", "depths", "enqueue", "enqueue_many", "fail", "ids", "job", "purge_all", "renew",
    ),
    "chasqui.foreign.joblist.worker": ("JobListWorker",),
    "chasqui.wire.joblist_keys": ("JobListKeys",),
}  # fmt: skip
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
