"""Jobs that are about to be added: made with ids and dates, checked, packed once, and sent together.

`Queue` and `SyncQueue` add jobs this way; tools also learn where each job went and save what an undo needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from chasqui.errors import ArgumentError
from chasqui.models import Job, SyncJob
from chasqui.produce.arguments import JobRequest, parse_retry
from chasqui.produce.batch import DEFAULT_JOB_OPTIONS, Batch, JobOptions, PackedJobs, add_jobs
from chasqui.produce.delivery import Delivery, ProducerMemory, send_delivery
from chasqui.server.commands import DelayFromNow
from chasqui.wire import delayed_member
from chasqui.wire.envelope import JobStamp
from chasqui.wire.job_id import check_job_id, new_job_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.defaults import ProducerOptions
    from chasqui.errors import ServerError
    from chasqui.produce.arguments import BackoffLike
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.undo.stream_search import StreamEnd
    from chasqui.undo.undo_items import JournalItem
    from chasqui.wire.keys import Keys
    from chasqui.wire.repeat_spec import RepeatSpec

__all__ = [
    "Added",
    "JobRequest",
    "PreparedBatch",
    "ProducerMemory",
    "ScheduleRequest",
    "prepare_batch",
    "prepare_jobs",
    "tool_job_request",
]

J = TypeVar("J", Job, SyncJob)


@dataclass(frozen=True, slots=True)
class Added:
    """The result for one job. `written`: None when the server's reply was lost, False when the job was not added.

    duplicate: its id had been used before, so nothing was added; `entry_id`, if known, is that of the first job.
    """

    id: str
    entry_id: str | None
    run_at_ms: int | None
    duplicate: bool
    written: bool | None


class ScheduleRequest(NamedTuple):
    """A spec to be stored, and the data it came with."""

    spec: RepeatSpec
    data: Any


@dataclass(slots=True)
class PreparedBatch(Generic[J]):
    """Jobs that are sent together, and the schedules that came among them, by place. Sending it again after an error
    sends only what is not known to be written.
    """

    jobs: Sequence[J]
    packed: PackedJobs
    schedules: Sequence[tuple[int, ScheduleRequest]] = ()
    delivery: Delivery | None = field(default=None, repr=False)

    def deliver(self, commands: Commands, keys: Keys, memory: ProducerMemory) -> Flow[Delivery]:
        """Send the jobs, or what is left of them. With the same memory every time nothing is added twice."""
        if self.delivery is None:
            self.delivery = yield from add_jobs(commands, keys, self.packed, memory)
        else:
            yield from send_delivery(self.delivery)
        return self.delivery

    @property
    def error(self) -> ServerError | None:
        """Why not all of it was written."""
        return self.delivery.error if self.delivery else None

    @property
    def results(self) -> list[Added]:
        """One per job, in order."""
        if self.delivery is None:
            return [Added(job.id, None, None, False, False) for job in self.jobs]
        parts = zip(self.jobs, self.delivery.locations, self.delivery.written, strict=True)
        duplicates = self.delivery.duplicates
        return [
            Added(job.id, location.entry_id, location.run_at_ms, place in duplicates, written)
            for place, (job, location, written) in enumerate(parts)
        ]

    def journal_items(self, end: StreamEnd) -> list[JournalItem]:
        """What to save about each job before it is sent, to undo the adding."""
        from chasqui.undo import added_jobs

        items = []
        for place, job in enumerate(self.jobs):
            options = self.packed.job_options_of(place)
            member = None if options.due is None else self.packed.delayed_member(place)
            stamp = JobStamp(job.id, job.created_at_ms)
            items.append(added_jobs.item(stamp, end, unique=options.unique, member=member))
        return items


def tool_job_request(
    name: str,
    data: Any,
    *,
    job_id: str | None = None,
    unique: bool = False,
    delay_ms: int | None = None,
    at_ms: int | None = None,
    attempts: int | None = None,
    backoff: BackoffLike | None = None,
) -> JobRequest:
    """A job as a command line or a file describes it. `prepare_batch` checks the rest."""
    if job_id is not None:
        check_job_id(job_id)
    elif unique:
        raise ArgumentError("a unique job needs an id")
    if delay_ms is not None and at_ms is not None:
        raise ArgumentError("delay and at say the same thing: give one of them")
    retry = None if attempts is None and backoff is None else parse_retry(attempts, backoff)
    due = DelayFromNow(delay_ms) if delay_ms else at_ms
    options = JobOptions(has_own_id=job_id is not None, unique=unique, retry=retry, due=due)
    return JobRequest(name, data, job_id, None if options == DEFAULT_JOB_OPTIONS else options)


def prepare_jobs(
    kind: type[J], requests: Sequence[JobRequest], now_ms: int, options: ProducerOptions, queue: Any = None
) -> PreparedBatch[J]:
    """The jobs of a queue, with ids and dates. Raises `ArgumentError` if one of them cannot be sent."""
    new_ids = new_job_ids(len(requests), now_ms)
    jobs = [
        kind(one.job_id or new_id, one.name, one.data, 0, now_ms, queue)
        for one, new_id in zip(requests, new_ids, strict=True)
    ]
    own_options = {place: one.options for place, one in enumerate(requests) if one.options}
    return PreparedBatch(jobs, PackedJobs.pack(Batch.of(jobs, own_options), options))


def prepare_batch(requests: Sequence[JobRequest], now_ms: int, options: ProducerOptions) -> PreparedBatch[SyncJob]:
    """`prepare_jobs` for tools, which know the server's time: absolute due times are checked as well."""
    prepared = prepare_jobs(SyncJob, requests, now_ms, options)
    for one in requests:
        if one.options and isinstance(one.options.due, int):
            delayed_member.check_delay(max(0, one.options.due - now_ms), options.max_delay_s)
    return prepared
