"""Queues of any kind by one name each: `orders` is ours, `rsmq:orders` is RSMQ's, `list:orders` a list job queue.

RSMQ queues of another namespace are `rsmq:acme:orders`. A queue of ours whose name begins like one of these is reached
as `chasqui:rsmq:orders`. What a table shows under "queue" is what can be typed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui.foreign import ForeignSnapshot, JobListKeys, RsmqKeys
    from chasqui.snapshot import Snapshot, Unseen

    Place = Keys | RsmqKeys | JobListKeys
    Seen = Snapshot | ForeignSnapshot | Unseen

S = TypeVar("S")
OURS, RSMQ, LIST = "chasqui:", "rsmq:", "list:"


def is_ours(name: str) -> bool:
    """Whether a name is that of a queue of ours."""
    return not name.startswith((RSMQ, LIST))


def own_name(name: str) -> str:
    """A name of ours without the prefix that tells it from others'."""
    return name.removeprefix(OURS) if name.startswith((OURS + OURS, OURS + RSMQ, OURS + LIST)) else name


def place_of(name: str) -> Place:
    """The keys of the queue that a name means."""
    if is_ours(name):
        from chasqui import Keys

        return Keys(own_name(name))
    from chasqui.foreign import JobListKeys, RsmqKeys

    if name.startswith(RSMQ):
        namespace, colon, queue = name.removeprefix(RSMQ).rpartition(":")
        return RsmqKeys(queue, namespace) if colon else RsmqKeys(queue)
    return JobListKeys(name.removeprefix(LIST))


def name_of(place: RsmqKeys | JobListKeys) -> str:
    """What another system's queue is called here."""
    if hasattr(place, "namespace"):
        space = "" if place.namespace == "rsmq" else f"{place.namespace}:"
        return f"{RSMQ}{space}{place.queue}"
    return f"{LIST}{place.queue}"


def named(seen: Seen, place: Place) -> Seen:
    """What was seen of a queue, under the name that it has here."""
    from chasqui import Keys

    return seen if isinstance(place, Keys) else replace(seen, queue=name_of(place))
