"""Reads samples of everything in a queue, in five round trips. `rules_samples.py` checks them.

Bounded by `SampleLimits`; how much was read is returned with what was found. Nothing here changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from chasqui.errors import ServerError
from chasqui.health.thresholds import SampleLimits
from chasqui.inspect import snapshot
from chasqui.inspect.events import StoredEvent
from chasqui.inspect.job_search import decode_delayed_job
from chasqui.schedule import repeatable
from chasqui.server.commands.replies import ConsumerInfo, PendingEntry, RawEntry, members_with_scores
from chasqui.wire import envelope, event_entry, stream_entry
from chasqui.wire.entry_fields import decode_name_exact
from chasqui.wire.msgpack_codec import Undecodable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.defaults import StreamCaps
    from chasqui.inspect.snapshot import GroupSnapshot, Snapshot
    from chasqui.schedule.repeatable import ListedSpec
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow, Reply
    from chasqui.wire.keys import Keys

SamplePlace = Literal["stream", "delayed", "dlq", "repeat"]


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """Something that should be a job and cannot be read: where it is (an id, a due time, a key), why, and its length."""

    location: str
    reason: str
    size: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read of one place, and what of it cannot be decoded."""

    place: SamplePlace
    sampled: int
    total: int
    unreadable: tuple[UnreadableItem, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group's consumers, its oldest pending entries, and those among them whose entry is gone."""

    name: str
    consumers: tuple[ConsumerInfo, ...]
    pending: tuple[PendingEntry, ...]
    ghosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueSamples:
    """A queue and its samples. refused: the errors of calls that the server refused."""

    snapshot: Snapshot
    samples: tuple[Sample, ...]
    groups: tuple[GroupSample, ...]
    specs: tuple[ListedSpec, ...]
    events: tuple[StoredEvent, ...]
    refused: tuple[str, ...]


def sample_queue(
    commands: Commands, keys: Keys, *, options: SampleLimits | None = None, caps: StreamCaps | None = None
) -> Flow[QueueSamples]:
    """Read a bounded part of everything in a queue."""
    bounds = options or SampleLimits()
    seen = yield from snapshot.take_snapshot(commands, keys, caps=caps)
    refused: list[str] = []
    samples, events = yield from _read_samples(commands, keys, seen, bounds, refused)
    groups = yield from _sample_groups(commands, keys, seen.groups, bounds, refused)
    specs = (yield from repeatable.list_specs(commands, keys, bounds.sample)) if seen.repeatable_count else []
    unreadable = tuple(
        UnreadableItem(one.key, one.spec.reason, len(one.spec.raw))
        for one in specs
        if isinstance(one.spec, Undecodable)
    )
    samples.append(Sample("repeat", len(specs), seen.repeatable_count, unreadable))
    return QueueSamples(seen, tuple(samples), tuple(groups), tuple(specs), tuple(events), tuple(refused))


def _read_samples(
    commands: Commands, keys: Keys, seen: Snapshot, bounds: SampleLimits, refused: list[str]
) -> Flow[tuple[list[Sample], list[StoredEvent]]]:
    """Jobs, dead letters and events; the oldest jobs, because jobs that cannot run gather there."""
    count = bounds.sample
    asked: list[tuple[Call, int]] = [
        (commands.oldest_entries(keys.stream, count), seen.stream_depth),
        (commands.delayed_page(keys, 0, count), seen.delayed_depth),
        (commands.newest_entries(keys.dlq, count), seen.dlq_depth),
        (commands.newest_entries(keys.events, bounds.events), seen.events_depth),
    ]
    wanted = [replace(call, tolerant=True) for call, length in asked if length]
    replies = iter((yield wanted) if wanted else [])
    stream, delayed, dlq, event_rows = (
        _none_if_refused(next(replies), refused) or [] if length else [] for _, length in asked
    )
    samples = [
        _sample("stream", stream, seen.stream_depth, _unreadable_jobs(stream)),
        _sample("delayed", members_with_scores(delayed), seen.delayed_depth, _unreadable_members(delayed)),
        _sample("dlq", dlq, seen.dlq_depth, _unreadable_dead_letters(dlq)),
    ]
    events = [
        StoredEvent(keys.queue, entry.entry_id.decode(), event_entry.decode(entry.fields))
        for entry in reversed(RawEntry.list_from_reply(event_rows))
    ]
    return samples, events


def _sample(place: SamplePlace, rows: Sequence[Reply], total: int, unread: Iterable[UnreadableItem]) -> Sample:
    return Sample(place, len(rows), max(total, len(rows)), tuple(unread))


def _unreadable_jobs(rows: Reply) -> list[UnreadableItem]:
    return _unreadable_entries(rows, "the entry has no field d")


def _unreadable_dead_letters(rows: Reply) -> list[UnreadableItem]:
    return _unreadable_entries(rows, "the letter has no field d")


def _unreadable_entries(rows: Reply, missing: str) -> list[UnreadableItem]:
    """Entries and dead letters have their job in the same field."""
    found: list[UnreadableItem] = []
    for entry in RawEntry.list_from_reply(rows):
        data = stream_entry.decode(entry.fields).d
        job = Undecodable(b"", missing) if data is None else envelope.decode_or_undecodable(data)
        if isinstance(job, Undecodable):
            found.append(UnreadableItem(entry.entry_id.decode(), job.reason, len(job.raw)))
    return found


def _unreadable_members(rows: Reply) -> list[UnreadableItem]:
    members = [decode_delayed_job(data, due_ms) for data, due_ms in members_with_scores(rows)]
    return [
        UnreadableItem(str(one.run_at_ms), one.job.reason, len(one.member))
        for one in members
        if isinstance(one.job, Undecodable)
    ]


def _sample_groups(
    commands: Commands, keys: Keys, groups: Sequence[GroupSnapshot], bounds: SampleLimits, refused: list[str]
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
            commands.find_dangling_pending(keys, group.name, count=bounds.pending),
        )
    ]
    results = [_none_if_refused(reply, refused) for reply in replies]
    return [
        GroupSample(
            group.name,
            tuple(ConsumerInfo.list_from_reply(consumers or ())),
            tuple(PendingEntry.list_from_reply(pending or ())),
            tuple(
                decode_name_exact(ghost.entry_id) for ghost in PendingEntry.list_from_reply(ghosts[2] if ghosts else ())
            ),
        )
        for group, consumers, pending, ghosts in zip(groups, results[::3], results[1::3], results[2::3], strict=True)
    ]


def _none_if_refused(reply: Reply, refused: list[str]) -> Reply:
    """The reply; None for an error, which is added to `refused`."""
    if isinstance(reply, ServerError):
        refused.append(str(reply))
        return None
    return reply
