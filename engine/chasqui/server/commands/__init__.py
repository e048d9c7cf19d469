"""One builder per primitive, on one class: what an operation says to the server, whichever server it is.

No operation is put together here, and no bytes are read: that is for the asks above and for `wire/` below.
A builder answers a `Call` (many fit into one round trip) or, when it takes several, a `Flow`.
"""

from __future__ import annotations

from chasqui.server.commands.dead_letters import MAX_FIELDS, DeadLetters
from chasqui.server.commands.delays import Delays
from chasqui.server.commands.entries import RELEASED, Entries
from chasqui.server.commands.leases import Leases
from chasqui.server.commands.reads import Reads
from chasqui.server.commands.repeats import Repeats
from chasqui.server.commands.values import (
    Consumer,
    Delivery,
    Entry,
    Fire,
    Fired,
    Group,
    Lease,
    Letter,
    PendingEntry,
    Promoted,
    Spec,
    scored,
    time_ms,
)

__all__ = [
    "MAX_FIELDS",
    "RELEASED",
    "Commands",
    "Consumer",
    "Delivery",
    "Entry",
    "Fire",
    "Fired",
    "Group",
    "Lease",
    "Letter",
    "PendingEntry",
    "Promoted",
    "Spec",
    "scored",
    "time_ms",
]


class Commands(Entries, Delays, DeadLetters, Repeats, Leases, Reads):
    """Everything that can be said to a server with these features."""

    __slots__ = ()
