"""Flows that read what happened: on from an id, without a silent hole. Emitting is for those who make it happen.

Between two reads a stream may be trimmed, deleted or set back. Every read learns, in the same instant, how far the
stream reaches and how many entries it ever had; what does not add up is told as a `Gap`, between the events around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from chasqui.errors import ArgumentError, ServerError
from chasqui.server.commands.looks import Reach, reach_and_rows, with_news
from chasqui.server.commands.values import Entry
from chasqui.wire import event_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.call import Flow, Reply
    from chasqui.server.commands import Commands
    from chasqui.wire.event_entry import Event
    from chasqui.wire.keys import Keys

ORIGIN = "0-0"
NEWEST = "$"
_ENTRY_ID = re.compile(r"\d{1,20}(-\d{1,20})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Told:
    """An event, where it was told and under which id."""

    queue: str
    entry_id: str
    event: Event


@dataclass(frozen=True, slots=True)
class Gap:
    """Events between two ids that nobody can read any more. `lost_estimate` is None when nobody can tell how many,
    if any.

    why: the stream was trimmed (or single events deleted), it is gone, somebody made it anew, or it was set back to
    an earlier state, after which events may be told a second time.
    """

    queue: str
    from_id: str
    to_id: str
    lost_estimate: int | None
    why: Literal["trimmed", "deleted", "recreated", "rewound"]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a queue's events were read: after `entry_id`, which was the `seen`-th ever (None: not known yet).

    start, start_added: where reading began, and how many there had ever been then. They serve to recognise the stream,
    should it be set back.
    """

    keys: Keys
    entry_id: str
    seen: int | None
    start: str = ORIGIN
    start_added: int = 0

    @property
    def is_new(self) -> bool:
        """Whether everything in the stream, even the first event ever, is still to come."""
        return self.entry_id == ORIGIN and not self.seen


@dataclass(frozen=True, slots=True)
class Haul:
    """What one read of one queue brought: events and gaps in order, where to go on, or why nothing could be read.

    more: there is more to read right now.
    """

    position: Position
    items: tuple[Told | Gap, ...] = ()
    more: bool = False
    error: ServerError | None = None


def reach(commands: Commands, queues: Sequence[Keys]) -> Flow[list[Reach | ServerError]]:
    """How far back each queue's events go, and how many there ever were, in one round trip."""
    replies = yield [commands.read_on(keys.events, ORIGIN, 0) for keys in queues]
    return [reply if isinstance(reply, ServerError) else reach_and_rows(reply)[0] for reply in replies]


def latest(commands: Commands, keys: Keys, count: int, *, before: str | None = None) -> Flow[list[Told]]:
    """The last events, oldest first, or those before an id."""
    [rows] = yield [commands.newest(keys.events, count, before=before)]
    return [_told(keys, entry.entry_id, entry.fields) for entry in reversed(Entry.list_of(rows))]


def begin(commands: Commands, queues: Sequence[Keys], last_event_id: str = NEWEST) -> Flow[list[Position]]:
    """Where to start: after this id, or with whatever comes from now on (`$`, made an id here and only once).

    A queue whose events cannot be looked at starts from its first one: what stands in the way may go.
    """
    after = last_event_id if last_event_id == NEWEST else _checked(last_event_id)
    reaches = yield from reach(commands, queues)
    return [_start(keys, after, found) for keys, found in zip(queues, reaches, strict=True)]


def read_after(
    commands: Commands, positions: Sequence[Position], *, count: int, block_ms: int | None = None
) -> Flow[list[Haul]]:
    """Read on, up to `count` events of each queue; wait for the first up to `block_ms`, where given.

    Waiting is one call over all queues, which must share a cluster slot. When it brings nothing all queues are looked
    at, because a stream that was set back or deleted wakes nobody. Reading changes nothing, so it may be repeated.
    """
    ready = positions
    if block_ms:
        ready = (yield from _with_news(commands, positions, block_ms)) or positions
    replies = yield [commands.read_on(at.keys.events, at.entry_id, count) for at in ready]
    return [_haul(at, reply, count) for at, reply in zip(ready, replies, strict=True)]


def _with_news(commands: Commands, positions: Sequence[Position], block_ms: int) -> Flow[list[Position]]:
    """Who has something to read. One key of a wrong type spoils the wait for all: then nobody is told to."""
    streams = [at.keys.events for at in positions]
    [reply] = yield [commands.await_entries(streams, [at.entry_id for at in positions], block_ms=block_ms)]
    if isinstance(reply, ServerError):
        if reply.transient:
            raise reply
        return []
    told = set(with_news(reply))
    return [at for at in positions if at.keys.events.encode("utf-8", "surrogateescape") in told]


def _start(keys: Keys, after: str, found: Reach | ServerError) -> Position:
    if isinstance(found, ServerError):
        return Position(keys, ORIGIN, None)
    if after == NEWEST:
        newest = found.last_id or ORIGIN
        return Position(keys, newest, found.added, newest, found.added)
    # From the very start nothing is missed that went before; after any other id only a read can tell.
    seen = found.added - found.length if after == ORIGIN else None
    return Position(keys, after, seen, after, found.added)


def _haul(at: Position, reply: Reply, count: int) -> Haul:
    if isinstance(reply, ServerError):
        return Haul(at, error=reply)
    found, rows = reach_and_rows(reply)
    told = [_told(at.keys, entry_id, fields) for entry_id, fields in rows]
    more = len(told) == count
    if not found.exists:
        return _gone(at)
    if _order(found.last_id) < _order(at.entry_id):
        return _rewound(at, found)
    gap = _gap(at, found, told, more)
    return Haul(_moved(at, found, told, more), (gap, *told) if gap else tuple(told), more)


def _gone(at: Position) -> Haul:
    """Whatever comes will be new, also under an id that was used before."""
    gap = Gap(at.keys.queue, at.entry_id, ORIGIN, None, "deleted")
    return Haul(Position(at.keys, ORIGIN, 0), () if at.is_new else (gap,))


def _rewound(at: Position, found: Reach) -> Haul:
    """The stream ends before what was read: it was restored from an older copy, or made anew under a slow clock.

    If it still has what was there when reading began it is a copy, and all of it was told already. Otherwise nobody
    can tell; then it is told from its beginning, twice rather than not at all.
    """
    begins_before_us = found.first_id is not None and _order(found.first_id) <= _order(at.start)
    is_copy = begins_before_us and found.added >= at.start_added
    back_to = found.last_id or ORIGIN if is_copy else ORIGIN
    gap = Gap(at.keys.queue, at.entry_id, back_to, None, "rewound")
    seen = found.added if is_copy else found.added - found.length
    return Haul(Position(at.keys, back_to, seen, back_to, found.added), (gap,), more=True)


def _gap(at: Position, found: Reach, told: Sequence[Told], more: bool) -> Gap | None:
    """What is missing between the position and the events just read, by the stream's own count."""
    is_past = found.first_id is None or _order(found.first_id) > _order(at.entry_id)
    to_id = told[0].entry_id if told and is_past else told[-1].entry_id if told else found.last_id or ORIGIN
    if at.seen is None:
        uncertain = is_past and found.added > found.length and at.entry_id != ORIGIN
        return Gap(at.keys.queue, at.entry_id, to_id, None, "trimmed") if uncertain else None
    if not is_past and more:
        return None  # how many are still there is not known before the end is reached; then it is counted
    lost = found.added - at.seen - (found.length if is_past else len(told))
    if lost > 0:
        return Gap(at.keys.queue, at.entry_id, to_id, lost, "trimmed")
    # More is there than was ever added since: another stream. (A restored copy is shorter, but begins before us.)
    return Gap(at.keys.queue, at.entry_id, to_id, None, "recreated") if lost < 0 and is_past else None


def _moved(at: Position, found: Reach, told: Sequence[Told], more: bool) -> Position:
    newest = told[-1].entry_id if told else at.entry_id
    if not more:
        return replace(at, entry_id=newest, seen=found.added)
    if found.first_id is not None and _order(found.first_id) > _order(at.entry_id):
        return replace(at, entry_id=newest, seen=found.added - found.length + len(told))
    return replace(at, entry_id=newest, seen=None if at.seen is None else at.seen + len(told))


def _told(keys: Keys, entry_id: bytes, fields: Sequence[bytes]) -> Told:
    return Told(keys.queue, entry_id.decode(), event_entry.decode(fields))


def _checked(entry_id: str) -> str:
    """An id as people write them: the part after the dash may be left out."""
    if not _ENTRY_ID.fullmatch(entry_id):
        raise ArgumentError(
            f"{entry_id!r} is no event id", hint="give `$`, `0`, or an id such as 1794797012371-0"
        )
    return entry_id if "-" in entry_id else f"{entry_id}-0"


def _order(entry_id: str | None) -> tuple[int, int]:
    """Ids in the order the server gave them: numbers, not text."""
    ms, _, nth = (entry_id or ORIGIN).partition("-")
    return int(ms), int(nth or 0)
