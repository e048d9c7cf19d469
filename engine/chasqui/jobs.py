"""Flows that look at jobs where they are, without moving one. What cannot be read is shown as it is, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import WireError
from chasqui.server.commands.values import Entry, PendingEntry, scored
from chasqui.wire import delayed_member, envelope, stream_entry
from chasqui.wire.packed import Undecodable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.keys import Keys


@dataclass(frozen=True, slots=True)
class Sighting:
    """A job as found: in the stream at `entry_id`, or in the delayed set, due at `run_at_ms`.

    prefix: how its name was written in front of it, for a delayed one.
    """

    job: Envelope | Undecodable
    name: str
    entry_id: str | None = None
    run_at_ms: int | None = None
    prefix: str | None = None


def waiting(commands: Commands, keys: Keys, count: int, *, after: str | None = None) -> Flow[list[Sighting]]:
    """Jobs in the stream, oldest first."""
    [rows] = yield [commands.oldest(keys.stream, count, after=after)]
    return [_in_stream(entry) for entry in Entry.list_of(rows)]


@dataclass(frozen=True, slots=True)
class Flight:
    """A job that a consumer holds: since when it was last delivered or renewed, and how often it was delivered."""

    entry_id: str
    group: str
    consumer: str
    idle_ms: int
    deliveries: int


def in_flight(commands: Commands, keys: Keys, groups: Sequence[str], count: int) -> Flow[list[Flight]]:
    """Jobs that were delivered and not settled, up to `count` of each group, oldest first; no job is read for it."""
    replies = (yield [commands.pending_page(keys, group, count) for group in groups]) if groups else []
    return [
        Flight(
            entry.entry_id.decode(),
            group,
            entry.consumer.decode("utf-8", "surrogateescape"),
            entry.idle_ms,
            entry.deliveries,
        )
        for group, reply in zip(groups, replies, strict=True)
        for entry in PendingEntry.list_of(reply)
    ]


def delayed(commands: Commands, keys: Keys, count: int, *, offset: int = 0) -> Flow[list[Sighting]]:
    """Jobs in the delayed set, soonest first."""
    [rows] = yield [commands.delayed_page(keys, offset, count)]
    return [_in_delayed_set(member, run_at_ms) for member, run_at_ms in scored(rows)]


def _in_stream(entry: Entry) -> Sighting:
    entry_id = entry.entry_id.decode()
    found = stream_entry.decode(entry.fields)
    if found.d is None:
        return Sighting(Undecodable(b"", "the entry has no field d"), found.name, entry_id)
    try:
        return Sighting(envelope.decode(found.d, len(found.d)), found.name, entry_id)
    except WireError as error:
        return Sighting(Undecodable(found.d, str(error)), found.name, entry_id)


def _in_delayed_set(member: bytes, run_at_ms: int) -> Sighting:
    try:
        found = delayed_member.decode(member, len(member))
    except WireError as error:
        return Sighting(Undecodable(member, str(error)), "", run_at_ms=run_at_ms)
    return Sighting(found.envelope, found.name, run_at_ms=run_at_ms, prefix=found.prefix)
