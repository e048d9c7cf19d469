"""Reads a range of a stream, from one entry to another, with every entry accounted for: read, or counted as lost.

A stream reports how many entries it ever had and how many it has; the difference is the ordinal of the last one that is
gone. Read atomically with the entries, it shows exactly how many are missing between two of them.
`events.py` follows the newest events; this is for reading millions of entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from chasqui.server.commands.replies import StreamExtent, exact_extent_and_rows
from chasqui.wire.entry_id import ZERO, sort_key

if TYPE_CHECKING:
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow

NEWEST = "+"


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A position in a stream: after `id`, which was the `ordinal`-th entry ever. `epoch`: how often it was created again."""

    id: str = ZERO
    ordinal: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class StreamPage:
    """The result of one read, and the extent of the stream at that moment."""

    start: StreamPosition
    reach: StreamExtent
    rows: list[Any]
    is_last: bool

    @property
    def removed_ordinal(self) -> int:
        """The ordinal of the last entry that is gone."""
        return self.reach.added - self.reach.length

    @property
    def starts_after_position(self) -> bool:
        """Whether entries right after the position may be gone: the stream begins after it."""
        first = self.reach.first_id
        return first is None or sort_key(first) > sort_key(self.start.id)

    @property
    def is_other_stream(self) -> bool:
        """Whether this is not the stream of the position: that one was deleted and created again, or its server came
        back without the newest entries. `check_position` finds out which.
        """
        if not self.reach.exists or self.start == StreamPosition(epoch=self.start.epoch):
            return False
        if sort_key(self.reach.last_id) < sort_key(self.start.id) or self.reach.added < self.start.ordinal:
            return True
        return self.starts_after_position and self.removed_ordinal < self.start.ordinal

    @property
    def lost(self) -> int:
        """How many entries between the position and the first row cannot be read any more."""
        return (
            max(0, self.removed_ordinal - self.start.ordinal) if self.starts_after_position and self.reach.exists else 0
        )

    @property
    def next_position(self) -> StreamPosition:
        """Where to go on: after the last row, or at the very end when nothing followed it."""
        if not self.reach.exists:
            return self.start
        if self.is_last:
            return StreamPosition(self.reach.last_id or ZERO, self.reach.added, self.start.epoch)
        return StreamPosition(
            self.rows[-1][0].decode(), self.start.ordinal + self.lost + len(self.rows), self.start.epoch
        )


def read_page(
    commands: Commands, stream: str, at: StreamPosition, *, last: str = NEWEST, count: int = 10_000
) -> Flow[StreamPage]:
    """Up to `count` entries after a position. Reading changes nothing, so it may be repeated."""
    replies = yield commands.read_with_exact_extent(stream, f"({at.id}", last, count)
    reach, rows = exact_extent_and_rows(replies)
    return StreamPage(at, reach, rows, is_last=last == NEWEST and len(rows) < count)


class PositionStatus(Enum):
    """What became of the stream of a position."""

    SAME = "same"
    RECREATED = "recreated"
    ROLLED_BACK = "rolled back"


def check_position(commands: Commands, stream: str, at: StreamPosition) -> Flow[tuple[PositionStatus, StreamPage]]:
    """Whether a position is still valid. A server that crashed, or whose replica took over, may have lost the newest
    entries and given their ordinals to others: then the position's own entry is missing, though older ones are there.
    """
    replies = yield commands.read_with_exact_extent(stream, at.id, NEWEST, 1)
    reach, rows = exact_extent_and_rows(replies)
    page = StreamPage(at, reach, rows, is_last=False)
    if page.is_other_stream:
        return (PositionStatus.RECREATED if page.starts_after_position else PositionStatus.ROLLED_BACK), page
    is_there = bool(rows) and rows[0][0].decode() == at.id
    if (
        reach.exists
        and not page.starts_after_position
        and not is_there
        and sort_key(reach.deleted_id) < sort_key(at.id)
    ):
        return PositionStatus.ROLLED_BACK, page
    return PositionStatus.SAME, page


def position_after_rollback(commands: Commands, stream: str, at: StreamPosition) -> Flow[StreamPosition]:
    """The position for what was added to a stream since it was rolled back, in a new epoch: all before it was read."""
    rows, onwards = 0, at
    while True:
        page = yield from read_page(commands, stream, onwards)
        rows += len(page.rows)
        if page.is_last:
            break
        onwards = StreamPosition(page.rows[-1][0].decode())
    last_id = page.reach.last_id or ZERO
    return StreamPosition(min(at.id, last_id, key=sort_key), page.reach.added - rows, at.epoch + 1)


def stream_bounds(commands: Commands, stream: str) -> Flow[tuple[StreamPosition, StreamPosition, StreamExtent]]:
    """Before the first entry that is there, and after the last ever given."""
    page = yield from read_page(commands, stream, StreamPosition(), count=1)
    reach = page.reach
    return (StreamPosition(ZERO, page.removed_ordinal), StreamPosition(reach.last_id or ZERO, reach.added), reach)


def position_after(
    commands: Commands, stream: str, at: StreamPosition, count: int, *, last: str = NEWEST, hop: int = 5000
) -> Flow[StreamPosition]:
    """The position `count` entries further, lost ones included; or the end, if that comes first.

    A server cannot be asked for the rank of an entry, so the entries are fetched and discarded.
    """
    goal = at.ordinal + count
    while at.ordinal < goal:
        page = yield from read_page(commands, stream, at, last=last, count=min(hop, goal - at.ordinal))
        if not page.reach.exists or page.is_other_stream:
            return at
        if page.start.ordinal + page.lost >= goal:
            return StreamPosition(at.id, goal, at.epoch)
        if not page.rows and not page.is_last:
            return StreamPosition(at.id, at.ordinal + page.lost, at.epoch)
        at = page.next_position
        if page.is_last:
            break
    return at
