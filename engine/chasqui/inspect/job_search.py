"""Searches one job by its id: in a stream, in a sorted set, among the events. Bounded; the coverage is returned.

The server compares bytes and returns ids; only those entries are fetched and decoded. `job_state_search.py` interprets
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from chasqui.server.commands.query_commands import DEFAULT_BUDGET, IdRange, SearchBudget
from chasqui.server.commands.replies import EntrySearchResult, RawEntry, score_to_ms
from chasqui.wire import delayed_member, msgpack_codec
from chasqui.wire.msgpack_codec import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.server.commands import Commands, SearchTerm
    from chasqui.server.flow import Flow
    from chasqui.wire.envelope import Envelope

T = TypeVar("T")
SearchPlace = Literal["stream", "delayed", "dlq", "events"]


@dataclass(frozen=True, slots=True)
class SearchCoverage:
    """How far a search went. complete: the whole span was searched, or all members from the given time on."""

    place: SearchPlace
    scanned: int
    complete: bool
    span: IdRange = field(default_factory=IdRange)


@dataclass(frozen=True, slots=True)
class DelayedJob:
    """A delayed job that was found: its member as it is, and when it is due."""

    member: bytes
    run_at_ms: int
    job: Envelope | Undecodable
    name: str

    @property
    def job_id(self) -> str:
        """The job's id; empty for a member that is not a job."""
        return "" if isinstance(self.job, Undecodable) else self.job.id


def find_entries(
    commands: Commands,
    stream: str,
    needle: SearchTerm,
    span: IdRange,
    match: Callable[[RawEntry], T | None],
    *,
    max_entries: int,
    max_matches: int = 1,
) -> Flow[tuple[list[T], int, bool]]:
    """What is wanted among the entries with the needle, how many entries were looked at, and whether that was all.

    Slice by slice, so that the server serves others in between; it ends when there is enough.
    """
    hits: list[T] = []
    looked, left = 0, span
    while looked < max_entries and len(hits) < max_matches:
        bound = SearchBudget(min(DEFAULT_BUDGET.entries, max_entries - looked), DEFAULT_BUDGET.bytes)
        [reply] = yield [commands.find_entries(stream, needle, left, bound=bound)]
        found = EntrySearchResult.from_reply(reply)
        looked += found.looked
        rows = yield from _fetch_entries(commands, stream, found.entry_ids)
        hits += [hit for row in rows if (hit := match(row)) is not None]
        if found.last_id is None:
            return hits, looked, True
        left = left.after(found.last_id)
    return hits, looked, False


def find_delayed_job(
    commands: Commands, key: str, job_id: str, *, least: int | str = "-inf", most: int
) -> Flow[tuple[DelayedJob | None, SearchCoverage]]:
    """The delayed job with this id, from a due time on."""
    looked, complete = 0, False
    while looked < most and not complete:
        bound = SearchBudget(min(DEFAULT_BUDGET.entries, most - looked), DEFAULT_BUDGET.bytes)
        [reply] = yield [commands.find_members(key, packed_job_id(job_id), least=least, skip=looked, bound=bound)]
        looked, complete = looked + reply[0], bool(reply[1])
        for score, data in zip(reply[2::2], reply[3::2], strict=True):
            member = decode_delayed_job(data, score_to_ms(score))
            if isinstance(member.job, Undecodable) or member.job.id == job_id:
                return member, SearchCoverage("delayed", looked, complete)
    return None, SearchCoverage("delayed", looked, complete)


def packed_job_id(job_id: str) -> bytes:
    """An id as it stands in an envelope: with the header of its length, so that few other texts are taken for it."""
    return msgpack_codec.pack(job_id)


def decode_delayed_job(data: bytes, run_at_ms: int) -> DelayedJob:
    """A delayed member, read if it can be."""
    found = delayed_member.decode_or_undecodable(data)
    if isinstance(found, Undecodable):
        return DelayedJob(data, run_at_ms, found, "")
    return DelayedJob(data, run_at_ms, found.envelope, found.name)


def _fetch_entries(commands: Commands, stream: str, entry_ids: Sequence[str]) -> Flow[list[RawEntry]]:
    """These entries, as far as they are still there, in one round trip."""
    if not entry_ids:
        return []
    replies = yield [commands.entries_between(stream, entry_id, entry_id, 1) for entry_id in entry_ids]
    return [entry for rows in replies for entry in RawEntry.list_from_reply(rows)]
