"""What the server's replies say, as values: each knows how to read itself from the raw reply of its command.

Which command that is, its builder says; the bytes of jobs inside stay bytes here. Most are named tuples: one is made for
every row, and the classes themselves for every command line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

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
    """What firing a repeatable job did. `stale`: somebody else fired or changed it first, so nothing happened."""

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
    """Who holds a lock and for how long; without an end (`ttl_ms` is None) nobody else will ever get it."""

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
    """A consumer group. `lag` is None when the server cannot tell how many entries it has not read yet."""

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

    inactive_ms: how long ago it was last given something, -1 for never; None where the server does not tell.
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


def _as_mapping(row: Reply) -> Mapping[bytes, Reply]:
    return row if isinstance(row, Mapping) else dict(zip(row[::2], row[1::2], strict=True))
