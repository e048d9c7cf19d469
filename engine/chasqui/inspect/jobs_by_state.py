"""Flows that look at jobs where they are, without moving one. What cannot be read is shown as it is, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.inspect.job_search import DelayedJob, decode_delayed_job
from chasqui.server.commands.replies import PendingEntry, RawEntry, members_with_scores
from chasqui.wire import envelope, stream_entry
from chasqui.wire.entry_fields import decode_name_exact
from chasqui.wire.msgpack_codec import Undecodable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.envelope import Envelope
    from chasqui.wire.keys import Keys


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job in the stream."""

    job: Envelope | Undecodable
    name: str
    entry_id: str


def list_waiting(commands: Commands, keys: Keys, count: int, *, after: str | None = None) -> Flow[list[WaitingJob]]:
    """Jobs in the stream, oldest first."""
    [rows] = yield [commands.oldest_entries(keys.stream, count, after=after)]
    return [_from_stream(entry) for entry in RawEntry.list_from_reply(rows)]


@dataclass(frozen=True, slots=True)
class InFlightJob:
    """A job that a consumer holds: since when it was last delivered or renewed, and how often it was delivered."""

    entry_id: str
    group: str
    consumer: str
    idle_ms: int
    deliveries: int


def list_in_flight(commands: Commands, keys: Keys, groups: Sequence[str], count: int) -> Flow[list[InFlightJob]]:
    """Jobs that were delivered and not settled, up to `count` of each group, oldest first; no job is read for it."""
    replies = (yield [commands.pending_page(keys, group, count) for group in groups]) if groups else []
    return [
        InFlightJob(entry.entry_id.decode(), group, decode_name_exact(entry.consumer), entry.idle_ms, entry.deliveries)
        for group, reply in zip(groups, replies, strict=True)
        for entry in PendingEntry.list_from_reply(reply)
    ]


def list_delayed(commands: Commands, keys: Keys, count: int, *, offset: int = 0) -> Flow[list[DelayedJob]]:
    """Jobs in the delayed set, soonest first."""
    [rows] = yield [commands.delayed_page(keys, offset, count)]
    return [decode_delayed_job(member, run_at_ms) for member, run_at_ms in members_with_scores(rows)]


def _from_stream(entry: RawEntry) -> WaitingJob:
    entry_id = entry.entry_id.decode()
    found = stream_entry.decode(entry.fields)
    if found.d is None:
        return WaitingJob(Undecodable(b"", "the entry has no field d"), found.name, entry_id)
    return WaitingJob(envelope.decode_or_undecodable(found.d), found.name, entry_id)
