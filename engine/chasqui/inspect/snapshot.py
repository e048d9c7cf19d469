"""Snapshots: the state of queues at one moment, in one round trip per node however many they are, without payloads.

`health/` checks them; `discovery.py` finds the queues.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from chasqui.defaults import StreamCaps
from chasqui.errors import ServerError
from chasqui.server.commands.replies import StreamExtent, parse_server_time, score_to_ms
from chasqui.wire.entry_fields import decode_name_exact
from chasqui.wire.entry_id import time_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow, Reply
    from chasqui.wire.keys import Keys

KIND = "chasquimq"
_EXPECTED_TYPES = ("stream", "stream", "zset", "zset", "stream", "string", "string")


class LockHolder(NamedTuple):
    """Which holder leads, and for how long still; without an end (None) no other ever will."""

    holder: str
    ttl_ms: int | None


class GroupSnapshot(NamedTuple):
    """A consumer group. `lag` is the server's own count of unread entries, None where it does not know.

    waiting: our best count of them. longest_idle_ms: among the oldest pending entries, where what is abandoned gathers.
    """

    name: str
    consumers: int
    pending: int
    waiting: int
    lag: int | None
    last_id: str
    oldest_waiting_id: str | None
    oldest_pending_id: str | None
    longest_idle_ms: int


class WrongTypeKey(NamedTuple):
    """A key that holds a wrong type; what it should hold is missing from the snapshot."""

    key: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A queue at `server_time_ms`.

    Counts of a missing key are 0, ages and lags of nothing too. Several groups: `waiting` is that of the one furthest
    behind, `pending` and `consumers` are sums. A queue without a group has everything waiting.
    next_delayed_ms, next_repeat_ms: when the first of them is, or was, due.
    """

    queue: str
    server_time_ms: int
    stream_depth: int
    waiting: int
    pending: int
    consumers: int
    dlq_depth: int
    delayed_depth: int
    delayed_due: int
    oldest_delayed_lag_ms: int
    oldest_waiting_ms: int
    repeatable_count: int
    repeatable_overdue: int
    events_depth: int
    promoter_lock: LockHolder | None
    scheduler_lock: LockHolder | None
    groups: tuple[GroupSnapshot, ...]
    next_delayed_ms: int | None
    next_repeat_ms: int | None
    longest_idle_ms: int
    stream: StreamExtent
    dlq: StreamExtent
    events: StreamExtent
    wrong: tuple[WrongTypeKey, ...] = ()
    caps: StreamCaps = field(default_factory=StreamCaps)
    kind: str = KIND

    @property
    def exists(self) -> bool:
        """Whether there is any key of this queue, even of a wrong type."""
        sets = self.delayed_depth or self.repeatable_count
        streams = self.stream.exists or self.dlq.exists or self.events.exists
        return bool(sets or streams or self.promoter_lock or self.scheduler_lock or self.wrong)

    def or_raise(self) -> Snapshot:
        """The snapshot itself; see `SnapshotFailure`."""
        return self


@dataclass(frozen=True, slots=True)
class SnapshotFailure:
    """A queue that could not be read, and why; the others of the same round trip are not affected."""

    queue: str
    error: ServerError

    def or_raise(self) -> Snapshot:
        """Raise the error, for callers that need the snapshot."""
        raise self.error


def server_time_ms(commands: Commands) -> Flow[int]:
    """The server's time in ms."""
    [clock] = yield [commands.server_time()]
    return parse_server_time(clock)


def take_snapshot(commands: Commands, keys: Keys, *, caps: StreamCaps | None = None) -> Flow[Snapshot]:
    """One queue, in one round trip."""
    [found] = yield from take_snapshots(commands, [keys], caps=caps)
    return found.or_raise()


def take_snapshots(
    commands: Commands, queues: Sequence[Keys], *, caps: StreamCaps | None = None
) -> Flow[list[Snapshot | SnapshotFailure]]:
    """Any number of queues, in one round trip per node, in the order asked."""
    if not queues:
        return []
    replies = yield [commands.read_snapshot(keys) for keys in queues]
    return [snapshot_from_reply(keys, reply, caps) for keys, reply in zip(queues, replies, strict=True)]


def snapshot_from_reply(keys: Keys, reply: Reply, caps: StreamCaps | None = None) -> Snapshot | SnapshotFailure:
    """The queue in the reply to `Commands.read_snapshot`."""
    if isinstance(reply, ServerError):
        return SnapshotFailure(keys.queue, reply)
    now_ms, types, stream, groups, dlq, delayed, repeats, events, promoter, scheduler = reply
    work = StreamExtent.from_reply(stream)
    views = tuple(_group_snapshot(work, row) for row in groups)
    later, due, next_delayed_ms = _sorted_set_counts(delayed)
    specs, overdue, next_repeat_ms = _sorted_set_counts(repeats)
    unread = [view.oldest_waiting_id for view in views] or [work.first_id]
    return Snapshot(
        queue=keys.queue,
        server_time_ms=now_ms,
        stream_depth=work.length,
        waiting=max((view.waiting for view in views), default=work.length),
        pending=sum(view.pending for view in views),
        consumers=sum(view.consumers for view in views),
        dlq_depth=StreamExtent.from_reply(dlq).length,
        delayed_depth=later,
        delayed_due=due,
        oldest_delayed_lag_ms=0 if next_delayed_ms is None else max(0, now_ms - next_delayed_ms),
        oldest_waiting_ms=max([0, *(now_ms - time_ms(entry_id) for entry_id in unread if entry_id)]),
        repeatable_count=specs,
        repeatable_overdue=overdue,
        events_depth=StreamExtent.from_reply(events).length,
        promoter_lock=_lock_holder(promoter),
        scheduler_lock=_lock_holder(scheduler),
        groups=views,
        next_delayed_ms=next_delayed_ms,
        next_repeat_ms=next_repeat_ms,
        longest_idle_ms=max((view.longest_idle_ms for view in views), default=0),
        stream=work,
        dlq=StreamExtent.from_reply(dlq),
        events=StreamExtent.from_reply(events),
        wrong=_wrong_type_keys(keys, types),
        caps=caps or StreamCaps(),
    )


def _group_snapshot(stream: StreamExtent, row: Sequence[Reply]) -> GroupSnapshot:
    name, consumers, pending, last_id, lag, unread, oldest, longest_idle_ms = row
    return GroupSnapshot(
        name=decode_name_exact(name),
        consumers=consumers,
        pending=pending,
        waiting=_waiting_count(stream, pending, lag, unread),
        lag=lag,
        last_id=last_id.decode(),
        oldest_waiting_id=unread.decode() if unread else None,
        oldest_pending_id=oldest.decode() if oldest else None,
        longest_idle_ms=longest_idle_ms,
    )


def _waiting_count(stream: StreamExtent, pending: int, lag: int | None, unread: bytes | None) -> int:
    """How many entries no consumer has read.

    The server's own count is wrong after a trim and missing after a deletion. Since settled entries are deleted,
    what is not pending waits: so no more than that can be, and it is the answer where the server has none.
    """
    if unread is None:
        return 0
    if stream.first_id == unread.decode():
        return stream.length
    return max(1, stream.length - pending if lag is None else min(lag, stream.length))


def _sorted_set_counts(row: Sequence[Reply]) -> tuple[int, int, int | None]:
    if not row:
        return 0, 0, None
    members, due, first = row
    return members, due, score_to_ms(first)


def _lock_holder(row: Sequence[Reply]) -> LockHolder | None:
    return LockHolder(decode_name_exact(row[0]), row[1] if row[1] >= 0 else None) if row else None


def _wrong_type_keys(keys: Keys, types: Sequence[bytes]) -> tuple[WrongTypeKey, ...]:
    names = (keys.stream, keys.dlq, keys.delayed, keys.repeat, keys.events, keys.promoter_lock, keys.scheduler_lock)
    return tuple(
        WrongTypeKey(name, found.decode(), expected)
        for name, found, expected in zip(names, types, _EXPECTED_TYPES, strict=True)
        if found.decode() not in {expected, "none"}
    )
