"""Flows that read what happened: on from an id, without a silent hole. Emitting is for those who make it happen.

Between two reads a stream may be trimmed, deleted or set back. Every read learns, in the same instant, how far the
stream reaches and how many entries it ever had; what does not add up is told as a `Gap`, between the events around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from chasqui.errors import ServerError
from chasqui.server.commands.replies import RawEntry, StreamExtent, extent_and_rows, streams_with_entries
from chasqui.wire import event_entry
from chasqui.wire.entry_id import ZERO, parse_user_id, sort_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow, Reply
    from chasqui.wire.event_entry import Event
    from chasqui.wire.keys import Keys

NEWEST = "$"


@dataclass(frozen=True, slots=True)
class StoredEvent:
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
class EventPosition:
    """How far a queue's events were read: after `entry_id`, which was the `seen`-th ever (None: not known yet).

    start, start_added: where reading began, and how many there had ever been then. They serve to recognise the stream,
    should it be set back.
    """

    keys: Keys
    entry_id: str
    ordinal: int | None
    start: str = ZERO
    added_at_start: int = 0

    @property
    def is_new(self) -> bool:
        """Whether everything in the stream, even the first event ever, is still to come."""
        return self.entry_id == ZERO and not self.ordinal


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What one read of one queue brought: events and gaps in order, where to go on, or why nothing could be read.

    more: there is more to read right now.
    """

    position: EventPosition
    items: tuple[StoredEvent | Gap, ...] = ()
    more: bool = False
    error: ServerError | None = None


def read_extents(commands: Commands, queues: Sequence[Keys]) -> Flow[list[StreamExtent | ServerError]]:
    """How far back each queue's events go, and how many there ever were, in one round trip."""
    replies = yield [commands.read_with_extent(keys.events, ZERO, 0) for keys in queues]
    return [reply if isinstance(reply, ServerError) else extent_and_rows(reply)[0] for reply in replies]


def latest_events(commands: Commands, keys: Keys, count: int, *, before: str | None = None) -> Flow[list[StoredEvent]]:
    """The last events, oldest first, or those before an id."""
    [rows] = yield [commands.newest_entries(keys.events, count, before=before)]
    return [_stored_event(keys, entry.entry_id, entry.fields) for entry in reversed(RawEntry.list_from_reply(rows))]


def start_positions(
    commands: Commands, queues: Sequence[Keys], last_event_id: str = NEWEST
) -> Flow[list[EventPosition]]:
    """Where to start: after this id, or with whatever comes from now on (`$`, made an id here and only once).

    A queue whose events cannot be looked at starts from its first one: what stands in the way may go.
    """
    after = last_event_id if last_event_id == NEWEST else parse_user_id(last_event_id)
    reaches = yield from read_extents(commands, queues)
    return [_start_position(keys, after, found) for keys, found in zip(queues, reaches, strict=True)]


def read_after(
    commands: Commands, positions: Sequence[EventPosition], *, count: int, block_ms: int | None = None
) -> Flow[list[EventBatch]]:
    """Read on, up to `count` events of each queue; wait for the first up to `block_ms`, where given.

    Waiting is one call over all queues, which must share a cluster slot. When it brings nothing all queues are looked
    at, because a stream that was set back or deleted wakes nobody. Reading changes nothing, so it may be repeated.
    """
    ready = positions
    if block_ms:
        ready = (yield from _positions_with_events(commands, positions, block_ms)) or positions
    replies = yield [commands.read_with_extent(at.keys.events, at.entry_id, count) for at in ready]
    return [_event_batch(at, reply, count) for at, reply in zip(ready, replies, strict=True)]


def _positions_with_events(
    commands: Commands, positions: Sequence[EventPosition], block_ms: int
) -> Flow[list[EventPosition]]:
    """Who has something to read. One key of a wrong type spoils the wait for all: then nobody is told to."""
    streams = [at.keys.events for at in positions]
    [reply] = yield [commands.wait_for_entries(streams, [at.entry_id for at in positions], block_ms=block_ms)]
    if isinstance(reply, ServerError):
        if reply.transient:
            raise reply
        return []
    told = set(streams_with_entries(reply))
    return [at for at in positions if at.keys.events.encode("utf-8", "surrogateescape") in told]


def _start_position(keys: Keys, after: str, found: StreamExtent | ServerError) -> EventPosition:
    if isinstance(found, ServerError):
        return EventPosition(keys, ZERO, None)
    if after == NEWEST:
        newest = found.last_id or ZERO
        return EventPosition(keys, newest, found.added, newest, found.added)
    # From the very start nothing is missed that went before; after any other id only a read can tell.
    seen = found.added - found.length if after == ZERO else None
    return EventPosition(keys, after, seen, after, found.added)


def _event_batch(at: EventPosition, reply: Reply, count: int) -> EventBatch:
    if isinstance(reply, ServerError):
        return EventBatch(at, error=reply)
    found, rows = extent_and_rows(reply)
    told = [_stored_event(at.keys, entry_id, fields) for entry_id, fields in rows]
    more = len(told) == count
    if not found.exists:
        return _stream_deleted(at)
    if sort_key(found.last_id) < sort_key(at.entry_id):
        return _stream_rewound(at, found)
    gap = _find_gap(at, found, told, more)
    return EventBatch(_advanced(at, found, told, more), (gap, *told) if gap else tuple(told), more)


def _stream_deleted(at: EventPosition) -> EventBatch:
    """Whatever comes will be new, also under an id that was used before."""
    gap = Gap(at.keys.queue, at.entry_id, ZERO, None, "deleted")
    return EventBatch(EventPosition(at.keys, ZERO, 0), () if at.is_new else (gap,))


def _stream_rewound(at: EventPosition, found: StreamExtent) -> EventBatch:
    """The stream ends before what was read: it was restored from an older copy, or made anew under a slow clock.

    If it still has what was there when reading began it is a copy, and all of it was told already. Otherwise nobody
    can tell; then it is told from its beginning, twice rather than not at all.
    """
    begins_before_us = found.first_id is not None and sort_key(found.first_id) <= sort_key(at.start)
    is_copy = begins_before_us and found.added >= at.added_at_start
    back_to = found.last_id or ZERO if is_copy else ZERO
    gap = Gap(at.keys.queue, at.entry_id, back_to, None, "rewound")
    seen = found.added if is_copy else found.added - found.length
    return EventBatch(EventPosition(at.keys, back_to, seen, back_to, found.added), (gap,), more=True)


def _find_gap(at: EventPosition, found: StreamExtent, told: Sequence[StoredEvent], more: bool) -> Gap | None:
    """What is missing between the position and the events just read, by the stream's own count."""
    is_past = found.first_id is None or sort_key(found.first_id) > sort_key(at.entry_id)
    to_id = told[0].entry_id if told and is_past else told[-1].entry_id if told else found.last_id or ZERO
    if at.ordinal is None:
        uncertain = is_past and found.added > found.length and at.entry_id != ZERO
        return Gap(at.keys.queue, at.entry_id, to_id, None, "trimmed") if uncertain else None
    if not is_past and more:
        return None  # how many are still there is not known before the end is reached; then it is counted
    lost = found.added - at.ordinal - (found.length if is_past else len(told))
    if lost > 0:
        return Gap(at.keys.queue, at.entry_id, to_id, lost, "trimmed")
    # More is there than was ever added since: another stream. (A restored copy is shorter, but begins before us.)
    return Gap(at.keys.queue, at.entry_id, to_id, None, "recreated") if lost < 0 and is_past else None


def _advanced(at: EventPosition, found: StreamExtent, told: Sequence[StoredEvent], more: bool) -> EventPosition:
    newest = told[-1].entry_id if told else at.entry_id
    if not more:
        return replace(at, entry_id=newest, ordinal=found.added)
    if found.first_id is not None and sort_key(found.first_id) > sort_key(at.entry_id):
        return replace(at, entry_id=newest, ordinal=found.added - found.length + len(told))
    return replace(at, entry_id=newest, ordinal=None if at.ordinal is None else at.ordinal + len(told))


def _stored_event(keys: Keys, entry_id: bytes, fields: Sequence[bytes]) -> StoredEvent:
    return StoredEvent(keys.queue, entry_id.decode(), event_entry.decode(fields))
