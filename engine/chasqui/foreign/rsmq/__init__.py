"""RSMQ, as npm `rsmq` 0.12.4 has it. Names are resolved on first use.

Every function is a flow: `link.run(rsmq.send(rsmq.RsmqKeys("orders"), "hello"))`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chasqui.foreign.rsmq.deeds import attributes as attributes
    from chasqui.foreign.rsmq.deeds import item as item
    from chasqui.foreign.rsmq.deeds import move_seen as move_seen
    from chasqui.foreign.rsmq.deeds import moved_item as moved_item
    from chasqui.foreign.rsmq.deeds import purge_seen as purge_seen
    from chasqui.foreign.rsmq.deeds import put_back as put_back
    from chasqui.foreign.rsmq.deeds import queue_item as queue_item
    from chasqui.foreign.rsmq.deeds import reschedule_seen as reschedule_seen
    from chasqui.foreign.rsmq.deeds import stray_items as stray_items
    from chasqui.foreign.rsmq.doctor import REPAIRABLE as REPAIRABLE
    from chasqui.foreign.rsmq.doctor import Ailment as Ailment
    from chasqui.foreign.rsmq.doctor import Finding as Finding
    from chasqui.foreign.rsmq.doctor import examine as examine
    from chasqui.foreign.rsmq.doctor import look_over as look_over
    from chasqui.foreign.rsmq.doctor import repair as repair
    from chasqui.foreign.rsmq.doctor import repair_each as repair_each
    from chasqui.foreign.rsmq.messages import Draft as Draft
    from chasqui.foreign.rsmq.messages import change_visibility as change_visibility
    from chasqui.foreign.rsmq.messages import delete as delete
    from chasqui.foreign.rsmq.messages import delete_many as delete_many
    from chasqui.foreign.rsmq.messages import pop as pop
    from chasqui.foreign.rsmq.messages import receive as receive
    from chasqui.foreign.rsmq.messages import receive_many as receive_many
    from chasqui.foreign.rsmq.messages import send as send
    from chasqui.foreign.rsmq.messages import send_many as send_many
    from chasqui.foreign.rsmq.queues import create as create
    from chasqui.foreign.rsmq.queues import drop as drop
    from chasqui.foreign.rsmq.queues import names as names
    from chasqui.foreign.rsmq.queues import set_attributes as set_attributes
    from chasqui.foreign.rsmq.queues import stats as stats
    from chasqui.foreign.rsmq.rows import of_row as of_row
    from chasqui.foreign.rsmq.rows import to_row as to_row
    from chasqui.foreign.rsmq.rules import QueueExists as QueueExists
    from chasqui.foreign.rsmq.rules import QueueNotFound as QueueNotFound
    from chasqui.foreign.rsmq.rules import RsmqError as RsmqError
    from chasqui.foreign.rsmq.rules import check_id as check_id
    from chasqui.foreign.rsmq.rules import check_name as check_name
    from chasqui.foreign.rsmq.survey import Filter as Filter
    from chasqui.foreign.rsmq.survey import Page as Page
    from chasqui.foreign.rsmq.survey import counts as counts
    from chasqui.foreign.rsmq.survey import page as page
    from chasqui.foreign.rsmq.survey import peek as peek
    from chasqui.foreign.rsmq.survey import show as show
    from chasqui.foreign.rsmq.survey import those as those
    from chasqui.foreign.rsmq.tending import Tended as Tended
    from chasqui.foreign.rsmq.tending import expire as expire
    from chasqui.foreign.rsmq.tending import hold as hold
    from chasqui.foreign.rsmq.tending import move as move
    from chasqui.foreign.rsmq.tending import purge as purge
    from chasqui.foreign.rsmq.tending import release as release
    from chasqui.foreign.rsmq.tending import restore as restore
    from chasqui.foreign.rsmq.tending import sweep as sweep
    from chasqui.foreign.rsmq.values import Attributes as Attributes
    from chasqui.foreign.rsmq.values import Counts as Counts
    from chasqui.foreign.rsmq.values import Message as Message
    from chasqui.foreign.rsmq.values import QueueStats as QueueStats
    from chasqui.wire.rsmq_keys import RsmqKeys as RsmqKeys

_ROOMS = {
    "chasqui.foreign.rsmq.deeds": (
        "attributes", "item", "move_seen", "moved_item", "purge_seen", "put_back", "queue_item", "reschedule_seen",
        "stray_items",
    ),
    "chasqui.foreign.rsmq.doctor": ("REPAIRABLE", "Ailment", "Finding", "examine", "look_over", "repair", "repair_each"),
    "chasqui.foreign.rsmq.messages": (
        "Draft", "change_visibility", "delete", "delete_many", "pop", "receive", "receive_many", "send", "send_many",
    ),
    "chasqui.foreign.rsmq.queues": ("create", "drop", "names", "set_attributes", "stats"),
    "chasqui.foreign.rsmq.rows": ("of_row", "to_row"),
    "chasqui.foreign.rsmq.rules": ("QueueExists", "QueueNotFound", "RsmqError", "check_id", "check_name"),
    "chasqui.foreign.rsmq.survey": ("Filter", "Page", "counts", "page", "peek", "show", "those"),
    "chasqui.foreign.rsmq.tending": (
        "Tended", "expire", "hold", "move", "purge", "release", "restore", "sweep",
    ),
    "chasqui.foreign.rsmq.values": ("Attributes", "Counts", "Message", "QueueStats"),
    "chasqui.wire.rsmq_keys": ("RsmqKeys",),
}  # fmt: skip
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
