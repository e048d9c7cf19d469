"""One builder per primitive, on one class: what an operation says to the server, whichever server it is.

No operation is put together here, and no bytes are read: that is for the asks above and for `wire/` below.
A builder answers a `Call` (many fit into one round trip) or, when it takes several, a `Flow`.
"""

from __future__ import annotations

from chasqui.server.commands.dead_letters import MAX_FIELDS, DeadLetters
from chasqui.server.commands.delays import After, Delays, Due
from chasqui.server.commands.entries import RELEASED, Entries
from chasqui.server.commands.leases import Leases
from chasqui.server.commands.loads import LedgerKind, Loads
from chasqui.server.commands.looks import (
    Found,
    Looks,
    Needle,
    Reach,
    Slice,
    Span,
    exact_reach_and_rows,
    reach_and_rows,
    with_news,
)
from chasqui.server.commands.reads import Reads
from chasqui.server.commands.repeats import Repeats
from chasqui.server.commands.values import (
    Consumer,
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
    "After",
    "Commands",
    "Consumer",
    "Due",
    "Entry",
    "Fire",
    "Fired",
    "Found",
    "Group",
    "Lease",
    "LedgerKind",
    "Letter",
    "Needle",
    "PendingEntry",
    "Promoted",
    "Reach",
    "Slice",
    "Span",
    "Spec",
    "exact_reach_and_rows",
    "reach_and_rows",
    "scored",
    "time_ms",
    "with_news",
]


class Commands(Entries, Loads, Delays, DeadLetters, Repeats, Leases, Reads, Looks):
    """Everything that can be said to a server with these features."""

    __slots__ = ()
