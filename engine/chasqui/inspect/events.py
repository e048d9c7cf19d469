"""Reads events after an id, without a silent gap. Events are written by `consume/` and the promoter.

Between two reads a stream may be trimmed, deleted or set back. Every read returns, atomically, the first and last id of
the stream and how many entries it ever had; what does not add up becomes a `Gap`, between the events around it.
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
    """An event, its queue and its entry id."""

    queue: str
    entry_id: str
    event: Event


@dataclass(frozen=True, slots=True)
class Gap:
    """Events between two ids that cannot be read any more. `lost_estimate` is None when their number, even 0, is unknown.

    why: the stream was trimmed (or single events deleted), it is gone, it was created again, or it was set back to
    an earlier state, after which events may be read a second time.
    """

    queue: str
    from_id: str
    to_id: str
    lost_estimate: int | None
    why: Literal["trimmed", "deleted", "recreated", "rewound"]


@dataclass(frozen=True, slots=True)
class EventPosition:
    """How far a queue's events were read: to `entry_id`, which was the `ordinal`-th ever (None: not known yet).

    start, added_at_start: where reading began, and how many entries there had been then: to recognise the stream
    if it is set back.
    """

    keys: Keys
    entry_id: str
    ordinal: int | None
    start: str = ZERO
    added_at_start: int = 0

    @property
    def is_new(self) -> bool:
        """Whether nothing of the stream was read, not even the first event."""
        return self.entry_id == ZERO and not self.ordinal


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The result of one read of one queue: events and gaps in order, where to go on, or the error.

    more: there is more to read right now.
    """

    position: EventPosition
    items: tuple[StoredEvent | Gap, ...] = ()
    more: bool = False
    error: ServerError | None = None


def read_extents(commands: Commands, queues: Sequence[Keys]) -> Flow[list[StreamExtent | ServerError]]:
    """First and last id of each queue's events, and how many there ever were, in one round trip."""
    replies = yield [commands.read_with_extent(keys.events, ZERO, 0) for keys in queues]
    return [reply if isinstance(reply, ServerError) else extent_and_rows(reply)[0] for reply in replies]


def latest_events(commands: Commands, keys: Keys, count: int, *, before: str | None = None) -> Flow[list[StoredEvent]]:
    """The last events, oldest first, or those before an id."""
    [rows] = yield [commands.newest_entries(keys.events, count, before=before)]
    return [_stored_event(keys, entry.entry_id, entry.fields) for entry in reversed(RawEntry.list_from_reply(rows))]


def start_positions(
    commands: Commands, queues: Sequence[Keys], last_event_id: str = NEWEST
) -> Flow[list[EventPosition]]:
    """Where to start: after this id, or after the newest event (`$`, replaced by an id here, once).

    A queue whose events cannot be read starts from its first one: the cause may pass.
    """
    after = last_event_id if last_event_id == NEWEST else parse_user_id(last_event_id)
    reaches = yield from read_extents(commands, queues)
    return [_start_position(keys, after, found) for keys, found in zip(queues, reaches, strict=True)]


def read_after(
    commands: Commands, positions: Sequence[EventPosition], *, count: int, block_ms: int | None = None
) -> Flow[list[EventBatch]]:
    """Read on, up to `count` events of each queue; wait for the first up to `block_ms`, where given.

    Waiting is one call over all queues, which must share a cluster slot. When it times out all queues are read,
    because a stream that was set back or deleted ends no wait. Reading changes nothing, so it may be repeated.
    """
    ready = positions
    if block_ms:
        ready = (yield from _positions_with_events(commands, positions, block_ms)) or positions
    replies = yield [commands.read_with_extent(at.keys.events, at.entry_id, count) for at in ready]
    return [_event_batch(at, reply, count) for at, reply in zip(ready, replies, strict=True)]


def _positions_with_events(
    commands: Commands, positions: Sequence[EventPosition], block_ms: int
) -> Flow[list[EventPosition]]:
    """Those with something to read. One key of a wrong type makes the wait fail for all: then none is returned."""
    streams = [at.keys.events for at in positions]
    [reply] = yield [commands.wait_for_entries(streams, [at.entry_id for at in positions], block_ms=block_ms)]
    if isinstance(reply, ServerError):
        if reply.transient:
            raise reply
        return []
    ready = set(streams_with_entries(reply))
    return [at for at in positions if at.keys.events.encode("utf-8", "surrogateescape") in ready]


def _start_position(keys: Keys, after: str, found: StreamExtent | ServerError) -> EventPosition:
    if isinstance(found, ServerError):
        return EventPosition(keys, ZERO, None)
    if after == NEWEST:
        newest = found.last_id or ZERO
        return EventPosition(keys, newest, found.added, newest, found.added)
    # Before the start nothing can be missed; after any other id only a read shows it.
    seen = found.added - found.length if after == ZERO else None
    return EventPosition(keys, after, seen, after, found.added)


def _event_batch(at: EventPosition, reply: Reply, count: int) -> EventBatch:
    if isinstance(reply, ServerError):
        return EventBatch(at, error=reply)
    found, rows = extent_and_rows(reply)
    events = [_stored_event(at.keys, entry_id, fields) for entry_id, fields in rows]
    more = len(events) == count
    if not found.exists:
        return _stream_deleted(at)
    if sort_key(found.last_id) < sort_key(at.entry_id):
        return _stream_rewound(at, found)
    gap = _find_gap(at, found, events, more)
    return EventBatch(_advanced(at, found, events, more), (gap, *events) if gap else tuple(events), more)


def _stream_deleted(at: EventPosition) -> EventBatch:
    """Everything that comes will be new, also under an id that was used before."""
    gap = Gap(at.keys.queue, at.entry_id, ZERO, None, "deleted")
    return EventBatch(EventPosition(at.keys, ZERO, 0), () if at.is_new else (gap,))


def _stream_rewound(at: EventPosition, found: StreamExtent) -> EventBatch:
    """The stream ends before what was read: it was restored from an older copy, or created again under a slow clock.

    If it still has what was there when reading began it is a copy, and all of it was read already. Otherwise it is
    unknown; then it is read from its beginning, rather twice than not at all.
    """
    begins_before_us = found.first_id is not None and sort_key(found.first_id) <= sort_key(at.start)
    is_copy = begins_before_us and found.added >= at.added_at_start
    back_to = found.last_id or ZERO if is_copy else ZERO
    gap = Gap(at.keys.queue, at.entry_id, back_to, None, "rewound")
    seen = found.added if is_copy else found.added - found.length
    return EventBatch(EventPosition(at.keys, back_to, seen, back_to, found.added), (gap,), more=True)


def _find_gap(at: EventPosition, found: StreamExtent, events: Sequence[StoredEvent], more: bool) -> Gap | None:
    """What is missing between the position and the events just read, by the stream's own count."""
    is_past = found.first_id is None or sort_key(found.first_id) > sort_key(at.entry_id)
    to_id = events[0].entry_id if events and is_past else events[-1].entry_id if events else found.last_id or ZERO
    if at.ordinal is None:
        uncertain = is_past and found.added > found.length and at.entry_id != ZERO
        return Gap(at.keys.queue, at.entry_id, to_id, None, "trimmed") if uncertain else None
    if not is_past and more:
        return None  # how many are still there is not known before the end is reached; then it is counted
    lost = found.added - at.ordinal - (found.length if is_past else len(events))
    if lost > 0:
        return Gap(at.keys.queue, at.entry_id, to_id, lost, "trimmed")
    # More is there than was ever added since: another stream. (A restored copy is shorter, but begins before us.)
    return Gap(at.keys.queue, at.entry_id, to_id, None, "recreated") if lost < 0 and is_past else None


def _advanced(at: EventPosition, found: StreamExtent, events: Sequence[StoredEvent], more: bool) -> EventPosition:
    newest = events[-1].entry_id if events else at.entry_id
    if not more:
        return replace(at, entry_id=newest, ordinal=found.added)
    if found.first_id is not None and sort_key(found.first_id) > sort_key(at.entry_id):
        return replace(at, entry_id=newest, ordinal=found.added - found.length + len(events))
    return replace(at, entry_id=newest, ordinal=None if at.ordinal is None else at.ordinal + len(events))


def _stored_event(keys: Keys, entry_id: bytes, fields: Sequence[bytes]) -> StoredEvent:
    return StoredEvent(keys.queue, entry_id.decode(), event_entry.decode(fields))
