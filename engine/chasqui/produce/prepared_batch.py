"""Jobs described by somebody else, on their way into a queue: made, looked at, sent, and written down to be taken back.

`queue.py` is the door for programs; this is the one for tools, which want to know where each job went.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chasqui.errors import ArgumentError
from chasqui.models import SyncJob
from chasqui.produce import batch, delivery
from chasqui.produce.arguments import JobRequest, parse_retry
from chasqui.produce.batch import DEFAULT_JOB_OPTIONS, Batch, JobOptions, PackedJobs
from chasqui.produce.delivery import ProducerMemory
from chasqui.server.commands import DelayFromNow
from chasqui.wire import delayed_member
from chasqui.wire.job_id import check_job_id, new_job_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.defaults import ProducerOptions
    from chasqui.errors import ServerError
    from chasqui.produce.arguments import BackoffLike
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.undo.added_jobs import StreamEnd
    from chasqui.wire.keys import Keys

__all__ = [
    "Added",
    "JobRequest",
    "PreparedBatch",
    "ProducerMemory",
    "prepare_batch",
    "send_batch",
    "tool_job_request",
]


@dataclass(frozen=True, slots=True)
class Added:
    """What became of one job. `written`: None when the server's answer was lost, False when it was not added.

    duplicate: its id had been used before, so nothing was added; the entry, if one is told, is the first one's.
    """

    id: str
    entry_id: str | None
    run_at_ms: int | None
    duplicate: bool
    written: bool | None


@dataclass(slots=True)
class PreparedBatch:
    """Jobs that travel together; once sent, `added` tells about each of them."""

    batch: Batch
    options: ProducerOptions
    delivery: delivery.Delivery | None = field(default=None, repr=False)

    @property
    def error(self) -> ServerError | None:
        """Why not all of it was written."""
        return self.delivery.error if self.delivery else None

    @property
    def results(self) -> list[Added]:
        """Each job, in order."""
        if self.delivery is None:
            return [Added(job.id, None, None, False, False) for job in self.batch.jobs]
        parts = zip(self.batch.jobs, self.delivery.locations, self.delivery.written, strict=True)
        again = self.delivery.duplicates
        return [
            Added(job.id, landing.entry_id, landing.run_at_ms, place in again, written)
            for place, (job, landing, written) in enumerate(parts)
        ]

    def journal_items(self, footing: StreamEnd) -> list[dict[str, Any]]:
        """What to write down about each job before it is sent, for `withdrawal.take_back`."""
        members = self._delayed_members()
        return [self.item(place, footing, members.get(place)) for place in range(len(self.batch.jobs))]

    def item(self, place: int, footing: StreamEnd, member: bytes | None) -> dict[str, Any]:
        job, terms = self.batch.jobs[place], self.batch.job_options.get(place, DEFAULT_JOB_OPTIONS)
        known = {"kind": "added", "id": job.id, "created_at_ms": job.created_at_ms, "after": footing.last_id}
        unique = {"unique": True} if terms.unique else {}
        return known | unique | ({"member": member.hex()} if member else {})

    def _delayed_members(self) -> dict[int, bytes]:
        """The bytes of those that are for later, as they will stand in the delayed set."""
        places = [place for place, terms in self.batch.job_options.items() if terms.due is not None]
        terms = {nth: self.batch.job_options[place] for nth, place in enumerate(places)}
        goods = PackedJobs.pack(Batch.of([self.batch.jobs[place] for place in places], terms), self.options)
        return {place: goods.delayed_member(nth) for nth, place in enumerate(places)}


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
    """A job somebody wants; what is wrong with it by itself is told here, or by `made`."""
    if job_id is not None:
        check_job_id(job_id)
    elif unique:
        raise ArgumentError("a unique job needs an id", hint="give it one: --id, or `id` in its line")
    if delay_ms is not None and at_ms is not None:
        raise ArgumentError("delay and at say the same thing: give one of them")
    retry = None if attempts is None and backoff is None else parse_retry(attempts, backoff)
    due = DelayFromNow(delay_ms) if delay_ms else at_ms
    terms = JobOptions(has_own_id=job_id is not None, unique=unique, retry=retry, due=due)
    return JobRequest(name, data, job_id, None if terms == DEFAULT_JOB_OPTIONS else terms)


def prepare_batch(wanted: Sequence[JobRequest], now_ms: int, options: ProducerOptions) -> PreparedBatch:
    """The jobs, with ids and dates, found fit to be sent: if one is not, `ArgumentError` says why."""
    minted = new_job_ids(len(wanted), now_ms)
    jobs = [
        SyncJob(one.job_id or new_id, one.name, one.data, 0, now_ms) for one, new_id in zip(wanted, minted, strict=True)
    ]
    batch = Batch.of(jobs, {place: one.options for place, one in enumerate(wanted) if one.options})
    PackedJobs.pack(batch, options)
    for terms in batch.job_options.values():
        if isinstance(terms.due, int):
            delayed_member.check_delay(max(0, terms.due - now_ms), options.max_delay_s)
    return PreparedBatch(batch, options)


def send_batch(commands: Commands, keys: Keys, load: PreparedBatch, ledger: ProducerMemory) -> Flow[PreparedBatch]:
    """Send a load, or what is left of it after trouble. The same ledger every time: then nothing comes twice."""
    if load.delivery is None:
        load.delivery = yield from batch.add_jobs(commands, keys, load.batch, ledger=ledger, options=load.options)
    else:
        yield from delivery.send_delivery(load.delivery)
    return load
