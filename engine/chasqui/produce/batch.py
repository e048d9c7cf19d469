"""Flows that add jobs to a queue: now or later, one or a hundred thousand. Nothing here connects or reads a clock.

`wire/` defines the bytes of a job, `server/` the commands; `delivery.py` sends the chunks, and sends them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError, QueueFull
from chasqui.produce.delivery import Chunk, Delivery, send_delivery
from chasqui.server.commands import DelayFromNow, parse_server_time
from chasqui.wire import delayed_member, msgpack_codec, retry_override, stream_entry
from chasqui.wire.job_id import check_job_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chasqui.defaults import ProducerOptions
    from chasqui.models import AnyJob
    from chasqui.produce.delivery import ProducerMemory
    from chasqui.server.commands import Commands, DueTime
    from chasqui.server.flow import Call, Flow
    from chasqui.wire.keys import Keys
    from chasqui.wire.msgpack_codec import Value
    from chasqui.wire.retry_override import RetryOverride

MAX_CHUNK_JOBS, MAX_CHUNK_BYTES = 500, 1 << 20
"""How many jobs one call adds at most, and about how many bytes: a server does nothing else meanwhile."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a job has beyond a name and data; most jobs have nothing.

    has_own_id: its id is the caller's, so that adding it again adds nothing. unique: also if another producer used that id.
    retry: what it does differently from its queue. due: when it may run.
    """

    has_own_id: bool = False
    unique: bool = False
    retry: RetryOverride | None = None
    due: DueTime | None = None


DEFAULT_JOB_OPTIONS = JobOptions()


@dataclass(frozen=True, slots=True)
class Batch:
    """New jobs of one moment, and the options of those that have any, by place.

    Names and data stand apart, because they are looked at first: the jobs may still have to be made.
    """

    jobs: Sequence[AnyJob]
    names: Sequence[str | None]
    data: Sequence[Value]
    job_options: Mapping[int, JobOptions] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Sequence[AnyJob], options: Mapping[int, JobOptions] | None = None) -> Batch:
        """Jobs that are made already."""
        return cls(jobs, [job.name for job in jobs], [job.data for job in jobs], options or {})


def add_jobs(commands: Commands, keys: Keys, packed: PackedJobs, memory: ProducerMemory) -> Flow[Delivery]:
    """Add jobs, in this order: all of them, or none if the room does not suffice.

    When a delayed job is due is counted by the server, not from the job's own date. It takes one round trip for ten
    thousand jobs, and one before them for a first or long call, near the cap, or with absolute times.
    """
    options = packed.options
    server_ms = yield from _check_capacity(commands, keys, packed, memory)
    builder = _ChunkBuilder(commands, keys, packed, memory, server_ms)
    depth_call = None if options.cap is None else commands.stream_length(keys.stream)
    replicas = options.replicas
    replication = (commands.wait_for_replicas(replicas, options.replica_wait_ms), replicas) if replicas else None
    return (yield from send_delivery(Delivery(list(builder.chunks()), memory, depth_call, replication)))


def _check_capacity(commands: Commands, keys: Keys, packed: PackedJobs, memory: ProducerMemory) -> Flow[int]:
    """Ask for the depth and for the time, whichever is needed. Returns the server's time, or 0 if it was not needed."""
    dues = [options.due for options in packed.job_options.values() if options.due is not None]
    cap, count, dated = packed.options.cap, len(packed.jobs) - len(dues), any(isinstance(due, int) for due in dues)
    crowded = cap is not None and count > 0 and not _is_known_depth_enough(memory.depth, count, cap)
    calls = [commands.server_time()] if dated else []
    if crowded:
        calls.append(replace(commands.stream_length(keys.stream), tolerant=True))
    replies = (yield calls) if calls else []
    if crowded and cap is not None:
        memory.update_depth(replies[-1])
        if memory.depth is not None and memory.depth + count > cap:
            raise QueueFull(keys.queue, depth=memory.depth, cap=cap, asked=count)
    return parse_server_time(replies[0]) if dated else 0


def _is_known_depth_enough(depth: int | None, count: int, cap: int) -> bool:
    """Whether a depth seen a while ago is good enough: for a short call, and as long as there is room for another.
    Producers that add at the same time may pass the cap by a little, and nothing is trimmed for it.
    """
    return depth is not None and count <= MAX_CHUNK_JOBS and depth + count + MAX_CHUNK_JOBS <= cap


@dataclass(frozen=True, slots=True)
class PackedJobs:
    """Checked jobs with their data packed; envelopes, and perhaps the jobs themselves, are made later, while others are
    being sent.
    """

    jobs: Sequence[AnyJob]
    job_options: Mapping[int, JobOptions]
    names: list[bytes]
    payloads: list[bytes]
    options: ProducerOptions

    @classmethod
    def pack(cls, batch: Batch, options: ProducerOptions) -> PackedJobs:
        """Raises `ArgumentError` for a job that cannot be sent."""
        names = _EncodedNames(options.max_name_bytes)
        for place, job_options in batch.job_options.items():
            _check_job(batch.jobs[place].id, job_options, options)
        return cls(
            batch.jobs,
            batch.job_options,
            [names[name] for name in batch.names],
            msgpack_codec.pack_each(batch.data),
            options,
        )

    def envelopes(self, places: range) -> list[bytes]:
        """The bytes of jobs that never ran, as `wire/envelope.py` makes them one at a time."""
        job_ids = [job.id for job in self.jobs[places.start : places.stop]]
        contents = self.payloads[places.start : places.stop]
        now_ms = self.jobs[places.start].created_at_ms
        elements: Iterator[tuple[Value, ...]] = zip(job_ids, contents, repeat(now_ms), repeat(0))
        if self.job_options:
            elements = (
                (*four, retry_override.to_list(retry)) if (retry := self.job_options_of(at).retry) else four
                for at, four in zip(places, elements, strict=True)
            )
        return msgpack_codec.pack_each(elements)

    def job_options_of(self, place: int) -> JobOptions:
        return self.job_options.get(place, DEFAULT_JOB_OPTIONS)

    def entry_fields(self, at: int) -> list[bytes]:
        """The words of a job's entry."""
        [envelope] = self.envelopes(range(at, at + 1))
        return stream_entry.encode(envelope, self.names[at])

    def delayed_member(self, at: int) -> bytes:
        """The job as a member of the delayed set."""
        [envelope] = self.envelopes(range(at, at + 1))
        return delayed_member.encode(envelope, self.names[at], self.options.delayed_prefix)


def _check_job(job_id: str, job_options: JobOptions, options: ProducerOptions) -> None:
    if job_options.has_own_id:
        check_job_id(job_id)
    if job_options.retry and job_options.retry.backoff:
        retry_override.check_backoff(job_options.retry.backoff)
    if isinstance(job_options.due, DelayFromNow):
        delayed_member.check_delay(job_options.due.delay_ms, options.max_delay_s)


class _EncodedNames(dict[str | None, bytes]):
    """Names as bytes, each encoded once; None is the empty name."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    def __missing__(self, name: str | None) -> bytes:
        if name is not None and not isinstance(name, str):
            raise ArgumentError("opts.name must be a string")
        self[name] = raw = stream_entry.encode_name(name or "", self._max_bytes)
        return raw


@dataclass(frozen=True, slots=True)
class _ChunkBuilder:
    """Decides which call adds which jobs."""

    commands: Commands
    keys: Keys
    packed: PackedJobs
    memory: ProducerMemory
    server_ms: int

    def chunks(self) -> Iterator[Chunk]:
        """In the order of the jobs, only that what is delayed comes after what is not."""
        later: list[int] = []
        start = 0
        for at, job_options in sorted(self.packed.job_options.items()):
            if job_options.due is None and not job_options.has_own_id:
                continue
            yield from self._plain_chunks(range(start, at))
            start = at + 1
            if job_options.due is not None and self._is_future(job_options.due):
                later.append(at)
            else:
                yield self._single_job_chunk(at)
        yield from self._plain_chunks(range(start, len(self.packed.jobs)))
        yield from self._delayed_chunks(later)

    def _is_future(self, due: DueTime) -> bool:
        """By the server's clock; what is due already is simply added."""
        if isinstance(due, DelayFromNow):
            return due.delay_ms > 0
        delay_ms = due - self.server_ms
        return delay_ms > 0 and delayed_member.check_delay(delay_ms, self.packed.options.max_delay_s) > 0

    def _plain_chunks(self, places: range) -> Iterator[Chunk]:
        """Jobs without ids of their own, at most as many in one call as a server should add without a pause."""
        for start in range(0, len(places), MAX_CHUNK_JOBS):
            yield from self._split_by_size(places[start : start + MAX_CHUNK_JOBS])

    def _split_by_size(self, places: range) -> Iterator[Chunk]:
        if len(places) == 1:
            yield self._single_job_chunk(places[0])
        elif sum(map(len, self.packed.payloads[places.start : places.stop])) > MAX_CHUNK_BYTES:
            middle = len(places) // 2
            yield from self._split_by_size(places[:middle])
            yield from self._split_by_size(places[middle:])
        else:
            yield Chunk(places, partial(self._add_all, places))

    def _add_all(self, places: range) -> Call:
        jobs, names = self.packed.envelopes(places), self.packed.names[places.start : places.stop]
        name = names[0] if names.count(names[0]) == len(names) else None
        if name is None:
            jobs = list(chain.from_iterable(zip(jobs, names, strict=True)))
        return self.commands.add_batch(self.keys, self.memory.producer_id, self._id(places[0]), jobs, name=name)

    def _single_job_chunk(self, at: int) -> Chunk:
        job_options = self.packed.job_options_of(at)
        if job_options.unique:
            return Chunk([at], partial(self._add_unique, at), lambda reply: reply is not None)
        is_new = partial(self.memory.is_new, self._id(at)) if job_options.has_own_id else None
        return Chunk([at], partial(self._add_entry, at), is_new)

    def _add_entry(self, at: int) -> Call:
        fields = self.packed.entry_fields(at)
        return self.commands.add_entry(self.keys, self.memory.producer_id, self._id(at), fields)

    def _add_unique(self, at: int) -> Call:
        fields, ttl_s = self.packed.entry_fields(at), self.packed.options.unique_s
        return self.commands.add_unique(self.keys, self._id(at), fields, ttl_s=ttl_s)

    def _delayed_chunks(self, places: Sequence[int]) -> Iterator[Chunk]:
        """Each id has a marker of its own; those without share one."""
        for at in places:
            if self.packed.job_options_of(at).has_own_id:
                yield Chunk([at], partial(self._schedule_once, at), bool, [self._due(at)])
        nameless = [at for at in places if not self.packed.job_options_of(at).has_own_id]
        for start in range(0, len(nameless), MAX_CHUNK_JOBS):
            some = nameless[start : start + MAX_CHUNK_JOBS]
            yield Chunk(some, partial(self._schedule_all, some), dues=[self._due(at) for at in some])

    def _schedule_once(self, at: int) -> Call:
        due, member = self.packed.job_options_of(at).due, self.packed.delayed_member(at)
        if isinstance(due, DelayFromNow):
            return self.commands.delay_once(self.keys, self._id(at), member, due.delay_ms)
        return self.commands.schedule_once(self.keys, self._id(at), member, due or 0, now_ms=self.server_ms)

    def _schedule_all(self, places: Sequence[int]) -> Call:
        jobs = [(self._due(at), self.packed.delayed_member(at)) for at in places]
        return self.commands.schedule_batch(self.keys, self.memory.producer_id, self._id(places[0]), jobs)

    def _due(self, at: int) -> DueTime:
        return self.packed.job_options_of(at).due or 0

    def _id(self, at: int) -> str:
        return self.packed.jobs[at].id
