"""Flows over a stretch of a stream, from one entry to another, with every entry accounted for: read, or counted as lost.

A stream tells how many entries it ever had and how many it has; the difference is the ordinal of its floor, of the last
one that is gone. Learnt in the same instant as the entries, it says exactly how many are missing between two of them.
Following the newest events is the business of `events.py`; this is for those who read by the million.
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
    """A place in a stream: after `id`, which was the `n`-th entry ever. `epoch`: how often the stream was made anew."""

    id: str = ZERO
    ordinal: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class StreamPage:
    """What one read brought, and how far the stream reached at that moment."""

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
        """Whether whatever followed the mark directly may be gone: the stream begins after it."""
        first = self.reach.first_id
        return first is None or sort_key(first) > sort_key(self.start.id)

    @property
    def is_other_stream(self) -> bool:
        """Whether this is not the stream the mark was made in: that one was deleted and made anew, or its server came
        back without what it was told last. `standing` tells which.
        """
        if not self.reach.exists or self.start == StreamPosition(epoch=self.start.epoch):
            return False
        if sort_key(self.reach.last_id) < sort_key(self.start.id) or self.reach.added < self.start.ordinal:
            return True
        return self.starts_after_position and self.removed_ordinal < self.start.ordinal

    @property
    def lost(self) -> int:
        """How many entries between the mark and the first row cannot be read any more."""
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
    """Up to `count` entries after a mark. Reading changes nothing, so it may be repeated."""
    replies = yield commands.read_with_exact_extent(stream, f"({at.id}", last, count)
    reach, rows = exact_extent_and_rows(replies)
    return StreamPage(at, reach, rows, is_last=last == NEWEST and len(rows) < count)


class PositionStatus(Enum):
    """What became of the stream in which a mark was made."""

    SAME = "same"
    RECREATED = "recreated"
    ROLLED_BACK = "rolled back"


def check_position(commands: Commands, stream: str, at: StreamPosition) -> Flow[tuple[PositionStatus, StreamPage]]:
    """Whether a mark still holds. A server that crashed, or whose replica took over, may have forgotten the newest
    entries and given their ordinals to others: then the mark's own entry is missing, though older ones are there.
    """
    replies = yield commands.read_with_exact_extent(stream, at.id, NEWEST, 1)
    reach, rows = exact_extent_and_rows(replies)
    chunk = StreamPage(at, reach, rows, is_last=False)
    if chunk.is_other_stream:
        return (PositionStatus.RECREATED if chunk.starts_after_position else PositionStatus.ROLLED_BACK), chunk
    is_there = bool(rows) and rows[0][0].decode() == at.id
    if (
        reach.exists
        and not chunk.starts_after_position
        and not is_there
        and sort_key(reach.deleted_id) < sort_key(at.id)
    ):
        return PositionStatus.ROLLED_BACK, chunk
    return PositionStatus.SAME, chunk


def position_after_rollback(commands: Commands, stream: str, at: StreamPosition) -> Flow[StreamPosition]:
    """The mark for what a stream that was rolled back got since, in a new epoch: what came before it was read."""
    rows, onwards = 0, at
    while True:
        chunk = yield from read_page(commands, stream, onwards)
        rows += len(chunk.rows)
        if chunk.is_last:
            break
        onwards = StreamPosition(chunk.rows[-1][0].decode())
    last_id = chunk.reach.last_id or ZERO
    return StreamPosition(min(at.id, last_id, key=sort_key), chunk.reach.added - rows, at.epoch + 1)


def stream_bounds(commands: Commands, stream: str) -> Flow[tuple[StreamPosition, StreamPosition, StreamExtent]]:
    """Before the first entry that is there, and after the last ever given."""
    chunk = yield from read_page(commands, stream, StreamPosition(), count=1)
    reach = chunk.reach
    return (
        StreamPosition(ZERO, chunk.removed_ordinal),
        StreamPosition(reach.last_id or ZERO, reach.added),
        reach,
    )


def position_after(
    commands: Commands, stream: str, at: StreamPosition, count: int, *, last: str = NEWEST, hop: int = 5000
) -> Flow[StreamPosition]:
    """The mark `most` entries on, those that are lost counted too; or at the end, if that comes first.

    There is no way to ask a server for the rank of an entry, so the entries are fetched and thrown away.
    """
    goal = at.ordinal + count
    while at.ordinal < goal:
        chunk = yield from read_page(commands, stream, at, last=last, count=min(hop, goal - at.ordinal))
        if not chunk.reach.exists or chunk.is_other_stream:
            return at
        if chunk.start.ordinal + chunk.lost >= goal:
            return StreamPosition(at.id, goal, at.epoch)
        if not chunk.rows and not chunk.is_last:
            return StreamPosition(at.id, at.ordinal + chunk.lost, at.epoch)
        at = chunk.next_position
        if chunk.is_last:
            break
    return at
