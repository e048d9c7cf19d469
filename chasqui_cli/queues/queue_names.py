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
    from chasqui.inspect.snapshot import Snapshot, SnapshotFailure

    QueueRef = Keys | RsmqKeys | JobListKeys
    AnySnapshot = Snapshot | ForeignSnapshot | SnapshotFailure

S = TypeVar("S")
NATIVE_PREFIX, RSMQ_PREFIX, JOBLIST_PREFIX = "chasqui:", "rsmq:", "list:"


def is_native(name: str) -> bool:
    """Whether a name is that of a queue of ours."""
    return not name.startswith((RSMQ_PREFIX, JOBLIST_PREFIX))


def strip_native_prefix(name: str) -> str:
    """A name of our own queue, without its prefix."""
    return (
        name.removeprefix(NATIVE_PREFIX)
        if name.startswith((NATIVE_PREFIX + NATIVE_PREFIX, NATIVE_PREFIX + RSMQ_PREFIX, NATIVE_PREFIX + JOBLIST_PREFIX))
        else name
    )


def parse_queue_ref(name: str) -> QueueRef:
    """The keys of the queue that a name means."""
    if is_native(name):
        from chasqui import Keys

        return Keys(strip_native_prefix(name))
    from chasqui.foreign import JobListKeys, RsmqKeys

    if name.startswith(RSMQ_PREFIX):
        namespace, colon, queue = name.removeprefix(RSMQ_PREFIX).rpartition(":")
        return RsmqKeys(queue, namespace) if colon else RsmqKeys(queue)
    return JobListKeys(name.removeprefix(JOBLIST_PREFIX))


def format_queue_ref(place: QueueRef) -> str:
    """The name of a queue, as it is typed where several kinds are meant: `parse_queue_ref` reads it back."""
    from chasqui import Keys

    name = place.queue
    if hasattr(place, "namespace"):
        space = "" if place.namespace == "rsmq" else f"{place.namespace}:"
        return f"{RSMQ_PREFIX}{space}{name}"
    if isinstance(place, Keys):
        return name if is_native(name) and strip_native_prefix(name) == name else f"{NATIVE_PREFIX}{name}"
    return f"{JOBLIST_PREFIX}{name}"


def with_ref_name(seen: AnySnapshot, place: QueueRef) -> AnySnapshot:
    """What was seen of a queue, under the name that it has here."""
    name = format_queue_ref(place)
    return seen if seen.queue == name else replace(seen, queue=name)
