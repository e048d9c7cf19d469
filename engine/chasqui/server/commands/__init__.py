"""One builder per primitive, on one class: the calls of an operation, whichever server it is.

No operation is put together here, and no bytes are read: that is for the asks above and for `wire/` below.
A builder answers a `Call` (many fit into one round trip) or, when it takes several, a `Flow`.
"""

from __future__ import annotations

from chasqui.server.commands.bulk_commands import BulkCommands, LedgerKind
from chasqui.server.commands.dead_letter_commands import MAX_FIELDS, DeadLetterCommands
from chasqui.server.commands.delayed_commands import DelayedCommands, DelayFromNow, DueTime
from chasqui.server.commands.entry_commands import RELEASED_CONSUMER, EntryCommands
from chasqui.server.commands.lock_commands import LockCommands
from chasqui.server.commands.query_commands import IdRange, QueryCommands, SearchBudget, SearchTerm
from chasqui.server.commands.replies import (
    ConsumerInfo,
    EntrySearchResult,
    FireResult,
    GroupInfo,
    LockState,
    PendingEntry,
    PlannedFire,
    PromoteResult,
    RawEntry,
    ReplayItem,
    StoredSpec,
    StreamExtent,
    exact_extent_and_rows,
    extent_and_rows,
    members_with_scores,
    parse_server_time,
    streams_with_entries,
)
from chasqui.server.commands.schedule_commands import ScheduleCommands

__all__ = [
    "MAX_FIELDS",
    "RELEASED_CONSUMER",
    "Commands",
    "ConsumerInfo",
    "DelayFromNow",
    "DueTime",
    "EntrySearchResult",
    "FireResult",
    "GroupInfo",
    "IdRange",
    "LedgerKind",
    "LockState",
    "PendingEntry",
    "PlannedFire",
    "PromoteResult",
    "RawEntry",
    "ReplayItem",
    "SearchBudget",
    "SearchTerm",
    "StoredSpec",
    "StreamExtent",
    "exact_extent_and_rows",
    "extent_and_rows",
    "members_with_scores",
    "parse_server_time",
    "streams_with_entries",
]


class Commands(
    EntryCommands, BulkCommands, DelayedCommands, DeadLetterCommands, ScheduleCommands, LockCommands, QueryCommands
):
    """Everything that can be said to a server with these features."""

    __slots__ = ()
