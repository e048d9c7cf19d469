"""What the server's replies say, as values: each knows how to read itself from the raw reply of its command.

The command is in its builder; the bytes of jobs inside stay bytes here. Most are named tuples: one is made for
every row, and the classes themselves for every command line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from chasqui.errors import WrongType

if TYPE_CHECKING:
    from chasqui.server.flow import Reply

FlatFields: TypeAlias = Sequence[bytes]
"""An entry's fields as the server sends them: name, value, name, value."""

MAX_SCORE_MS = 2**53
"""Further than any time that is meant, and still exact as a score."""


class RawEntry(NamedTuple):
    """One entry of a stream."""

    entry_id: bytes
    fields: FlatFields

    @classmethod
    def list_from_reply(cls, reply: Reply) -> list[RawEntry]:
        """From XRANGE or XREVRANGE."""
        return [cls(entry_id, fields) for entry_id, fields in reply]


@dataclass(frozen=True, slots=True)
class PromoteResult:
    """What one run of the promoter did, and how the delayed set stands after it."""

    count: int
    depth: int
    lag_ms: int
    envelopes: tuple[bytes, ...]
    quarantined: int

    @classmethod
    def from_reply(cls, reply: Reply) -> PromoteResult:
        """From `promote`."""
        count, depth, lag_ms, envelopes, quarantined = reply
        return cls(count, depth, lag_ms, tuple(envelopes), quarantined)


@dataclass(frozen=True, slots=True)
class FireResult:
    """What firing a repeatable job did. `stale`: another process fired or changed it first, so nothing happened."""

    count: int
    removed: bool
    stale: bool = False

    @classmethod
    def from_reply(cls, reply: Reply) -> FireResult:
        """From `fire_repeat`."""
        return cls(reply[0], bool(reply[1])) if reply else cls(0, removed=False, stale=True)


class PlannedFire(NamedTuple):
    """One fire of a repeatable job: when it is meant for, the job's envelope, and its name."""

    at_ms: int
    envelope: bytes
    name: str = ""


class ReplayItem(NamedTuple):
    """A dead letter to be replayed: which one, and the envelope and name its new entry gets."""

    dead_id: bytes | str
    envelope: bytes
    name: str | bytes = ""


class LockState(NamedTuple):
    """Who holds a lock and for how long; without an end (`ttl_ms` is None) no other process will ever get it."""

    mine: bool
    holder: bytes
    ttl_ms: int | None

    @classmethod
    def from_reply(cls, reply: Reply) -> LockState:
        """From `take_lease`."""
        mine, holder, ttl_ms = reply
        return cls(bool(mine), holder, ttl_ms if ttl_ms >= 0 else None)


class StoredSpec(NamedTuple):
    """A repeatable job as stored; `data` is None when only its place in the schedule is left.

    fault: why the rest could not be read at all, when something else stands under its key.
    """

    key: bytes
    next_ms: int
    data: bytes | None
    fired: bytes | None
    read_error: str | None = None


class PendingEntry(NamedTuple):
    """One entry that was delivered and not settled yet."""

    entry_id: bytes
    consumer: bytes
    idle_ms: int
    deliveries: int

    @classmethod
    def list_from_reply(cls, reply: Reply) -> list[PendingEntry]:
        """From `pending_page`."""
        return [cls(*row) for row in reply]


class GroupInfo(NamedTuple):
    """A consumer group. `lag` is None when the server does not know how many entries it has not read yet."""

    name: bytes
    consumers: int
    pending: int
    last_id: bytes
    lag: int | None

    @classmethod
    def list_from_reply(cls, reply: Reply) -> list[GroupInfo]:
        """From `groups`."""
        return [
            cls(row[b"name"], row[b"consumers"], row[b"pending"], row[b"last-delivered-id"], row.get(b"lag"))
            for row in map(_as_mapping, reply)
        ]


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """A consumer of a group, and how long ago it last asked for anything.

    inactive_ms: how long ago it was last given something, -1 for never; None where the server does not report it.
    """

    name: bytes
    pending: int
    idle_ms: int
    inactive_ms: int | None = None

    @classmethod
    def list_from_reply(cls, reply: Reply) -> list[ConsumerInfo]:
        """From `consumers`."""
        return [
            cls(row[b"name"], row[b"pending"], row[b"idle"], row.get(b"inactive")) for row in map(_as_mapping, reply)
        ]


class StreamExtent(NamedTuple):
    """How far a stream reaches. A stream that is not there has no ids, and nothing was ever added to it.

    first_id: None also when all entries are gone. last_id: the last one ever given, whether or not it is still there.
    deleted_id: the last one that was deleted, trimming aside; known from `exact_reach_and_rows` only.
    """

    length: int = 0
    first_id: str | None = None
    last_id: str | None = None
    added: int = 0
    deleted_id: str | None = None

    @classmethod
    def from_reply(cls, reply: Sequence[Reply]) -> StreamExtent:
        """From the four values that scripts return for a stream; none of them for one that is not there."""
        if not reply:
            return cls()
        length, first_id, last_id, added = reply[:4]
        return cls(length, first_id.decode() if first_id else None, last_id.decode(), added)

    @property
    def exists(self) -> bool:
        """Whether there is such a stream at all."""
        return self.last_id is not None


class EntrySearchResult(NamedTuple):
    """What a search in a stream came to: where to go on, or None when there is no more to look at."""

    looked: int
    last_id: str | None
    entry_ids: tuple[str, ...]

    @classmethod
    def from_reply(cls, reply: Reply) -> EntrySearchResult:
        """From `find_entry`."""
        looked, last_id, entry_ids = reply
        return cls(looked, last_id.decode() if last_id else None, tuple(found.decode() for found in entry_ids))


def members_with_scores(reply: Reply) -> list[tuple[bytes, int]]:
    """Members with their times in ms, from a range WITHSCORES: flat in RESP2, in pairs in RESP3."""
    flat = not reply or isinstance(reply[0], bytes)
    pairs = zip(reply[::2], reply[1::2], strict=True) if flat else reply
    return [(member, score_to_ms(score)) for member, score in pairs]


def score_to_ms(score: Reply) -> int:
    """A score as a time. Foreign hands may have written fractions or infinities: rounded down, or very far away."""
    return math.floor(max(-MAX_SCORE_MS, min(MAX_SCORE_MS, float(score))))


def parse_server_time(reply: Reply) -> int:
    """The server's clock in ms, from `server_time`."""
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000


def extent_and_rows(reply: Reply) -> tuple[StreamExtent, list[tuple[bytes, FlatFields]]]:
    """From `read_on`."""
    return StreamExtent.from_reply(reply or ()), [(entry_id, fields) for entry_id, fields in reply[4]] if reply else []


def exact_extent_and_rows(replies: Sequence[Reply]) -> tuple[StreamExtent, list[Any]]:
    """From `read_exactly`: entries as id and flat fields. Without a stream there is neither; a wrong type is raised."""
    info_reply, rows = replies[3]
    if isinstance(rows, Exception):
        raise WrongType(f"not a stream: {rows}", hint="another program may use this key")
    if isinstance(info_reply, Exception):
        return StreamExtent(), []
    info = dict(zip(info_reply[::2], info_reply[1::2], strict=True))
    first = info[b"first-entry"]
    reach = StreamExtent.from_reply(
        (info[b"length"], first and first[0], info[b"last-generated-id"], info[b"entries-added"])
    )
    return reach._replace(deleted_id=info[b"max-deleted-entry-id"].decode()), rows


def streams_with_entries(reply: Reply) -> list[bytes]:
    """The streams that have something, from `await_entries`; none when the time was over."""
    return [stream for stream, _ in reply or ()]


def parse_info(info: Reply) -> dict[str, str]:
    """The lines of an INFO reply by name; empty when it was refused."""
    if not isinstance(info, bytes):
        return {}
    lines = (line.rstrip("\r").partition(":") for line in info.decode(errors="replace").split("\n"))
    return {name: value for name, colon, value in lines if colon}


def _as_mapping(row: Reply) -> Mapping[bytes, Reply]:
    return row if isinstance(row, Mapping) else dict(zip(row[::2], row[1::2], strict=True))
