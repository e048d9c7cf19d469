"""Other systems' queues on a cluster: their keys have no hash tags unless a user gave them one, and then lie apart.

A queue whose keys lie apart can be looked at, key by key. What needs them all in one step is refused before anything is
done, with what to do instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.errors import ChangeRefused, ServerError
from chasqui.server.cluster import slot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.server.flow import Reply
    from chasqui.server.link import AsyncLink, Link

SPLIT_MESSAGE = "its keys lie in several slots of this cluster: no client can work on it"


def are_split(keys: Sequence[str | bytes]) -> bool:
    """Whether these keys are in different slots."""
    return len({slot_of(key) for key in keys}) > 1


def check_same_slot(link: Link | AsyncLink, *queues: RsmqKeys | JobListKeys, listed: bool = False) -> None:
    """Refuse what needs all keys of these queues in one step, where the link leads to a cluster and they lie apart.

    listed: also the set in which RSMQ lists its queues.
    """
    if link.address.kind != "cluster":
        return
    keys = [key for queue in queues for key in queue.one_slot_keys(listed=listed)]
    if are_split(keys):
        names = " and ".join(repr(queue.queue) for queue in queues)
        raise ChangeRefused(f"the keys of {names} lie in several slots of this cluster", hint=queues[0].split_hint)


def is_cross_slot_error(reply: Reply) -> bool:
    """Whether a script was refused because its keys lie apart."""
    return isinstance(reply, ServerError) and reply.code == "CROSSSLOT"


def raise_if_refused(reply: Reply) -> Reply:
    """The reply; raises it when it is an error."""
    if isinstance(reply, ServerError):
        raise reply
    return reply
