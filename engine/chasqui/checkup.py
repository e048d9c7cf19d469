"""A queue looked at closely: samples of everything in it, in five round trips. What they mean is judged in `health/`.

Bounded by `options.Checkup`; what was looked at is told beside what was found. Nothing here changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from chasqui import repeatable, snapshot
from chasqui.errors import ServerError, WireError
from chasqui.events import Told
from chasqui.options import Checkup
from chasqui.search import job_of, member_of
from chasqui.server.commands.values import Consumer, Entry, PendingEntry, scored
from chasqui.snapshot import text_of
from chasqui.wire import dead_entry, event_entry, stream_entry
from chasqui.wire.packed import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chasqui.options import Caps
    from chasqui.repeatable import Listed
    from chasqui.server.call import Call, Flow, Reply
    from chasqui.server.commands import Commands
    from chasqui.snapshot import GroupView, Snapshot
    from chasqui.wire.keys import Keys

Place = Literal["stream", "delayed", "dlq", "repeat"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that should be a job and is none: where it is (an id, a due time, a key), why, and how long it is."""

    where: str
    fault: str
    size: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read of one place, and what of it could not be."""

    place: Place
    looked: int
    total: int
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group's consumers, its oldest pending entries, and those among them whose entry is gone."""

    name: str
    consumers: tuple[Consumer, ...]
    pending: tuple[PendingEntry, ...]
    ghosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """A queue and its samples. refused: what the server would not answer, in its words."""

    queue: Snapshot
    samples: tuple[Sample, ...]
    groups: tuple[GroupSample, ...]
    specs: tuple[Listed, ...]
    events: tuple[Told, ...]
    refused: tuple[str, ...]


def examine(
    commands: Commands, keys: Keys, *, options: Checkup | None = None, caps: Caps | None = None
) -> Flow[Examination]:
    """Look at everything of a queue, a bounded part of each."""
    bounds = options or Checkup()
    seen = yield from snapshot.one(commands, keys, caps=caps)
    refused: list[str] = []
    samples, events = yield from _sampled(commands, keys, seen, bounds, refused)
    groups = yield from _groups(commands, keys, seen.groups, bounds, refused)
    specs = (yield from repeatable.listing(commands, keys, bounds.sample)) if seen.repeatable_count else []
    unreadable = tuple(
        Unreadable(one.key, one.spec.reason, len(one.spec.raw))
        for one in specs
        if isinstance(one.spec, Undecodable)
    )
    samples.append(Sample("repeat", len(specs), seen.repeatable_count, unreadable))
    return Examination(seen, tuple(samples), tuple(groups), tuple(specs), tuple(events), tuple(refused))


def _sampled(
    commands: Commands, keys: Keys, seen: Snapshot, bounds: Checkup, refused: list[str]
) -> Flow[tuple[list[Sample], list[Told]]]:
    """Jobs, dead letters and events; the oldest jobs, because that is where what cannot be run stays."""
    count = bounds.sample
    asked: list[tuple[Call, int]] = [
        (commands.oldest(keys.stream, count), seen.stream_depth),
        (commands.delayed_page(keys, 0, count), seen.delayed_depth),
        (commands.newest(keys.dlq, count), seen.dlq_depth),
        (commands.newest(keys.events, bounds.events), seen.events_depth),
    ]
    wanted = [replace(call, tolerant=True) for call, length in asked if length]
    answers = iter((yield wanted) if wanted else [])
    stream, delayed, dlq, told = (
        _unless(next(answers), refused) or [] if length else [] for _, length in asked
    )
    samples = [
        _sample("stream", stream, seen.stream_depth, _unread_jobs(stream)),
        _sample("delayed", scored(delayed), seen.delayed_depth, _unread_members(delayed)),
        _sample("dlq", dlq, seen.dlq_depth, _unread_letters(dlq)),
    ]
    events = [
        Told(keys.queue, entry.entry_id.decode(), event_entry.decode(entry.fields))
        for entry in reversed(Entry.list_of(told))
    ]
    return samples, events


def _sample(place: Place, rows: Sequence[Reply], total: int, unread: Iterable[Unreadable]) -> Sample:
    return Sample(place, len(rows), max(total, len(rows)), tuple(unread))


def _unread_jobs(rows: Reply) -> list[Unreadable]:
    return _unread(rows, lambda fields: stream_entry.decode(fields).d, "the entry has no field d")


def _unread_letters(rows: Reply) -> list[Unreadable]:
    return _unread(rows, lambda fields: dead_entry.decode(fields).d, "the letter has no field d")


def _unread(rows: Reply, read: Callable[[Sequence[bytes]], bytes | None], missing: str) -> list[Unreadable]:
    found: list[Unreadable] = []
    for entry in Entry.list_of(rows):
        where = entry.entry_id.decode()
        try:
            data = read(entry.fields)
        except WireError as fault:
            found.append(Unreadable(where, str(fault), len(fault.data)))
            continue
        job = job_of(data) if data is not None else Undecodable(b"", missing)
        if isinstance(job, Undecodable):
            found.append(Unreadable(where, job.reason, len(job.raw)))
    return found


def _unread_members(rows: Reply) -> list[Unreadable]:
    members = [member_of(data, due_ms) for data, due_ms in scored(rows)]
    return [
        Unreadable(str(one.run_at_ms), one.job.reason, len(one.data))
        for one in members
        if isinstance(one.job, Undecodable)
    ]


def _groups(
    commands: Commands, keys: Keys, groups: Sequence[GroupView], bounds: Checkup, refused: list[str]
) -> Flow[list[GroupSample]]:
    """All groups in one round trip."""
    if not groups:
        return []
    replies = yield [
        call
        for group in groups
        for call in (
            commands.consumers(keys, group.name),
            replace(commands.pending_page(keys, group.name, bounds.pending), tolerant=True),
            commands.find_ghosts(keys, group.name, count=bounds.pending),
        )
    ]
    told = [_unless(reply, refused) for reply in replies]
    return [
        GroupSample(
            group.name,
            tuple(Consumer.list_of(consumers or ())),
            tuple(PendingEntry.list_of(pending or ())),
            tuple(text_of(ghost.entry_id) for ghost in PendingEntry.list_of(ghosts[2] if ghosts else ())),
        )
        for group, consumers, pending, ghosts in zip(groups, told[::3], told[1::3], told[2::3], strict=True)
    ]


def _unless(reply: Reply, refused: list[str]) -> Reply:
    """The reply; None for one that is an error, which is written down."""
    if isinstance(reply, ServerError):
        refused.append(str(reply))
        return None
    return reply
