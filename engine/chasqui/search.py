"""Flows that look for one job by its id: in a stream, in a sorted set, among the events. Bounded, and telling how far.

The server compares texts and answers ids; only what it points at is fetched and read. What that means for the job is
for `why.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from chasqui.errors import WireError
from chasqui.server.commands.looks import SLICE, Found, Slice, Span
from chasqui.server.commands.values import Entry, whole_ms
from chasqui.wire import delayed_member, envelope, packed
from chasqui.wire.packed import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands, Needle
    from chasqui.wire.envelope import Envelope

T = TypeVar("T")
Place = Literal["stream", "delayed", "dlq", "events"]


@dataclass(frozen=True, slots=True)
class Looked:
    """How far a search went. complete: the whole span was looked at, or all members from the given time on."""

    place: Place
    entries: int
    complete: bool
    span: Span = field(default_factory=Span)


@dataclass(frozen=True, slots=True)
class Member:
    """A delayed job that was found: its member as it is, and when it is due."""

    data: bytes
    run_at_ms: int
    job: Envelope | Undecodable
    name: str


def entries(
    commands: Commands,
    stream: str,
    needle: Needle,
    span: Span,
    wanted: Callable[[Entry], T | None],
    *,
    most: int,
    enough: int = 1,
) -> Flow[tuple[list[T], int, bool]]:
    """What is wanted among the entries with the needle, how many entries were looked at, and whether that was all.

    Slice by slice, so that the server serves others in between; it ends when there is enough.
    """
    hits: list[T] = []
    looked, left = 0, span
    while looked < most and len(hits) < enough:
        bound = Slice(min(SLICE.entries, most - looked), SLICE.bytes)
        [reply] = yield [commands.find_entry(stream, needle, left, bound=bound)]
        found = Found.of(reply)
        looked += found.looked
        rows = yield from _fetched(commands, stream, found.entry_ids)
        hits += [hit for row in rows if (hit := wanted(row)) is not None]
        if found.last_id is None:
            return hits, looked, True
        left = left.beyond(found.last_id)
    return hits, looked, False


def members(
    commands: Commands, key: str, job_id: str, *, least: int | str = "-inf", most: int
) -> Flow[tuple[Member | None, Looked]]:
    """The delayed job with this id, from a due time on."""
    looked, complete = 0, False
    while looked < most and not complete:
        bound = Slice(min(SLICE.entries, most - looked), SLICE.bytes)
        [reply] = yield [commands.find_member(key, packed_id(job_id), least=least, skip=looked, bound=bound)]
        looked, complete = looked + reply[0], bool(reply[1])
        for score, data in zip(reply[2::2], reply[3::2], strict=True):
            member = member_of(data, whole_ms(score))
            if isinstance(member.job, Undecodable) or member.job.id == job_id:
                return member, Looked("delayed", looked, complete)
    return None, Looked("delayed", looked, complete)


def packed_id(job_id: str) -> bytes:
    """An id as it stands in an envelope: with the header of its length, so that few other texts are taken for it."""
    return packed.pack(job_id)


def member_of(data: bytes, run_at_ms: int) -> Member:
    """A delayed member, read if it can be."""
    try:
        found = delayed_member.decode(data, len(data))
    except WireError as fault:
        return Member(data, run_at_ms, Undecodable(data, str(fault)), "")
    return Member(data, run_at_ms, found.envelope, found.name)


def job_of(data: bytes) -> Envelope | Undecodable:
    """The job in an entry's field `d`, read if it can be."""
    try:
        return envelope.decode(data, len(data))
    except WireError as fault:
        return Undecodable(data, str(fault))


def _fetched(commands: Commands, stream: str, entry_ids: Sequence[str]) -> Flow[list[Entry]]:
    """These entries, as far as they are still there, in one round trip."""
    if not entry_ids:
        return []
    replies = yield [commands.between(stream, entry_id, entry_id, 1) for entry_id in entry_ids]
    return [entry for rows in replies for entry in Entry.list_of(rows)]
