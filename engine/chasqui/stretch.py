"""Flows over a stretch of a stream, from one entry to another, with every entry accounted for: read, or counted as lost.

A stream tells how many entries it ever had and how many it has; the difference is the ordinal of its floor, of the last
one that is gone. Learnt in the same instant as the entries, it says exactly how many are missing between two of them.
Following the newest events is the business of `events.py`; this is for those who read by the million.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from chasqui.server.commands.looks import Reach, exact_reach_and_rows

if TYPE_CHECKING:
    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands

ORIGIN = "0-0"
NEWEST = "+"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a stream: after `id`, which was the `n`-th entry ever. `epoch`: how often the stream was made anew."""

    id: str = ORIGIN
    n: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read brought, and how far the stream reached at that moment."""

    at: Mark
    reach: Reach
    rows: list[Any]
    is_last: bool

    @property
    def floor(self) -> int:
        """The ordinal of the last entry that is gone."""
        return self.reach.added - self.reach.length

    @property
    def is_past(self) -> bool:
        """Whether whatever followed the mark directly may be gone: the stream begins after it."""
        first = self.reach.first_id
        return first is None or order(first) > order(self.at.id)

    @property
    def is_another(self) -> bool:
        """Whether this is not the stream the mark was made in: that one was deleted and made anew, or its server came
        back without what it was told last. `standing` tells which.
        """
        if not self.reach.exists or self.at == Mark(epoch=self.at.epoch):
            return False
        if order(self.reach.last_id) < order(self.at.id) or self.reach.added < self.at.n:
            return True
        return self.is_past and self.floor < self.at.n

    @property
    def lost(self) -> int:
        """How many entries between the mark and the first row cannot be read any more."""
        return max(0, self.floor - self.at.n) if self.is_past and self.reach.exists else 0

    @property
    def end(self) -> Mark:
        """Where to go on: after the last row, or at the very end when nothing followed it."""
        if not self.reach.exists:
            return self.at
        if self.is_last:
            return Mark(self.reach.last_id or ORIGIN, self.reach.added, self.at.epoch)
        return Mark(self.rows[-1][0].decode(), self.at.n + self.lost + len(self.rows), self.at.epoch)


def read(
    commands: Commands, stream: str, at: Mark, *, last: str = NEWEST, count: int = 10_000
) -> Flow[Chunk]:
    """Up to `count` entries after a mark. Reading changes nothing, so it may be repeated."""
    replies = yield commands.read_exactly(stream, f"({at.id}", last, count)
    reach, rows = exact_reach_and_rows(replies)
    return Chunk(at, reach, rows, is_last=last == NEWEST and len(rows) < count)


class Standing(Enum):
    """What became of the stream in which a mark was made."""

    SAME = "same"
    RECREATED = "recreated"
    ROLLED_BACK = "rolled back"


def standing(commands: Commands, stream: str, at: Mark) -> Flow[tuple[Standing, Chunk]]:
    """Whether a mark still holds. A server that crashed, or whose replica took over, may have forgotten the newest
    entries and given their ordinals to others: then the mark's own entry is missing, though older ones are there.
    """
    replies = yield commands.read_exactly(stream, at.id, NEWEST, 1)
    reach, rows = exact_reach_and_rows(replies)
    chunk = Chunk(at, reach, rows, is_last=False)
    if chunk.is_another:
        return (Standing.RECREATED if chunk.is_past else Standing.ROLLED_BACK), chunk
    is_there = bool(rows) and rows[0][0].decode() == at.id
    if reach.exists and not chunk.is_past and not is_there and order(reach.deleted_id) < order(at.id):
        return Standing.ROLLED_BACK, chunk
    return Standing.SAME, chunk


def resume(commands: Commands, stream: str, at: Mark) -> Flow[Mark]:
    """The mark for what a stream that was rolled back got since, in a new epoch: what came before it was read."""
    rows, onwards = 0, at
    while True:
        chunk = yield from read(commands, stream, onwards)
        rows += len(chunk.rows)
        if chunk.is_last:
            break
        onwards = Mark(chunk.rows[-1][0].decode())
    last_id = chunk.reach.last_id or ORIGIN
    return Mark(min(at.id, last_id, key=order), chunk.reach.added - rows, at.epoch + 1)


def ends(commands: Commands, stream: str) -> Flow[tuple[Mark, Mark, Reach]]:
    """Before the first entry that is there, and after the last ever given."""
    chunk = yield from read(commands, stream, Mark(), count=1)
    reach = chunk.reach
    return Mark(ORIGIN, chunk.floor), Mark(reach.last_id or ORIGIN, reach.added), reach


def walk(
    commands: Commands, stream: str, at: Mark, most: int, *, last: str = NEWEST, hop: int = 5000
) -> Flow[Mark]:
    """The mark `most` entries on, those that are lost counted too; or at the end, if that comes first.

    There is no way to ask a server for the rank of an entry, so the entries are fetched and thrown away.
    """
    goal = at.n + most
    while at.n < goal:
        chunk = yield from read(commands, stream, at, last=last, count=min(hop, goal - at.n))
        if not chunk.reach.exists or chunk.is_another:
            return at
        if chunk.at.n + chunk.lost >= goal:
            return Mark(at.id, goal, at.epoch)
        if not chunk.rows and not chunk.is_last:
            return Mark(at.id, at.n + chunk.lost, at.epoch)
        at = chunk.end
        if chunk.is_last:
            break
    return at


def order(entry_id: str | None) -> tuple[int, int]:
    """Ids in the order the server gave them: numbers, not text."""
    ms, _, nth = (entry_id or ORIGIN).partition("-")
    return int(ms), int(nth or 0)
