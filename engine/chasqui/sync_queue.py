"""`SyncQueue`, which blocks, for Django, Flask and scripts: every method and argument of `Queue`.

`produce/queue_base.py` has what both share.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from chasqui.inspect import results
from chasqui.models import SyncJob
from chasqui.produce import arguments
from chasqui.produce.prepared_batch import ScheduleRequest
from chasqui.produce.queue_base import DEFAULT_URL, QueueBase
from chasqui.schedule import repeatable
from chasqui.server.address import with_tls
from chasqui.server.commands import Commands
from chasqui.server.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path
    from types import TracebackType

    from chasqui.clock import Clock
    from chasqui.models import RepeatableMeta
    from chasqui.produce.arguments import BackoffLike, DelayMs, JobRequest, MissedFiresLike, RepeatLike
    from chasqui.produce.prepared_batch import PreparedBatch
    from chasqui.produce.queue_base import Durability, OnFull, Prefix
    from chasqui.server.connection_setup import Credentials
    from chasqui.server.flow import Flow
    from chasqui.wire.keys import Keys

T = TypeVar("T")
P = ParamSpec("P")


class SyncQueue(QueueBase):
    """A queue to add jobs to, and to ask about them. Opening one connects to nothing yet.

    max_stream_len: how many jobs may wait (0: any number); at that many, `on_full` refuses more with `QueueFull` or
    lets the queue grow. Nothing is ever trimmed. durability: "replicated" waits until a replica has the jobs too, or raises
    `Unconfirmed`. max_delay_secs: the longest delay (0: any). credential_provider:
    asked for user and password before each login. data_dir: where `embedded://` servers live. strict_unique: whether
    `add_unique` heeds ids used by anyone, or only by this object. delayed_prefix: "u8" for fleets that follow the
    public wire page. link: an open link to use instead of a new one; it is not closed with the queue.

    Threads may share one, and a forked child makes connections of its own.
    """

    def __init__(
        self,
        name: str,
        *,
        redis_url: str = DEFAULT_URL,
        tls: bool = False,
        max_stream_len: int | None = None,
        max_delay_secs: int | None = None,
        credential_provider: Credentials | None = None,
        data_dir: Path | None = None,
        on_full: OnFull = "refuse",
        durability: Durability = "written",
        strict_unique: bool = True,
        delayed_prefix: Prefix = "u32le",
        link: Link | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            name,
            max_stream_len=max_stream_len,
            max_delay_secs=max_delay_secs,
            on_full=on_full,
            durability=durability,
            strict_unique=strict_unique,
            delayed_prefix=delayed_prefix,
            clock=clock,
        )
        url = with_tls(redis_url) if tls else redis_url
        self._open = partial(Link.open, url, data_dir=data_dir, credentials=credential_provider)
        self._given = link
        self._own: Link | None = None

    def add(
        self,
        name: str,
        data: Any,
        *,
        delay_ms: DelayMs | None = None,
        delay: timedelta | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        job_id: str | None = None,
        repeat: RepeatLike | None = None,
        missed_fires: MissedFiresLike | None = None,
    ) -> SyncJob:
        """Add a job: for now, for later, or again and again.

        delay_ms: ms from now, counted by the server, or the moment it is due. job_id: adding the same id again with
        this object within the server's memory adds nothing. repeat: the job returned is then the schedule.
        """
        if repeat is not None:
            return self.upsert_repeatable_job(name, data, repeat=repeat, missed_fires=missed_fires)
        arguments.check_no_missed_fires(missed_fires)
        job = arguments.job_request(
            name, data, delay_ms=delay_ms, delay=delay, attempts=attempts, backoff=backoff, job_id=job_id
        )
        return self._add([job])[0]

    def add_unique(
        self,
        name: str,
        data: Any,
        *,
        job_id: str,
        delay_ms: DelayMs | None = None,
        delay: timedelta | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        repeat: RepeatLike | None = None,
    ) -> SyncJob:
        """Add a job unless its id was used by any producer within the last hour (and its delay); see `created`."""
        arguments.check_job_id(job_id, "add_unique")
        if repeat is not None:
            return self.upsert_repeatable_job(name, data, repeat=repeat)
        job = arguments.job_request(
            name, data, delay_ms=delay_ms, delay=delay, attempts=attempts, backoff=backoff, job_id=job_id
        )
        return self._add([job.as_unique() if self._strict_unique else job])[0]

    def add_bulk(self, jobs: Iterable[Mapping[str, Any]]) -> list[SyncJob]:
        """Add many jobs, in order: mappings with `name`, `data` and the other arguments of `add`.

        All of them are checked before one is sent. If the connection breaks on the way, `Unconfirmed` lists which are
        added, and finishes the rest without adding any twice.
        """
        return self._finish_add(self._prepare_bulk(SyncJob, jobs))

    def cancel_delayed(self, job_id: str) -> bool:
        """Remove a job that was delayed with an id; False when there is none, or it is due already."""
        return self._run(self._cancel_delayed, job_id)

    def peek_dlq(self, limit: int = 20) -> list[dict[str, Any]]:
        """The oldest dead letters: dlq_id, source_id, reason, detail, payload and name of each."""
        return self._run(self._peek_dead_letters, limit)

    def replay_dlq(self, limit: int = 100) -> int:
        """Put up to `limit` dead letters back into the queue, oldest first; returns how many.

        Those that hold no readable job stay, and do not use up the limit. With no room at all: `QueueFull`.
        """
        return self._run(self._replay_dead_letters, limit)

    def upsert_repeatable_job(
        self,
        name: str,
        data: Any,
        *,
        repeat: RepeatLike,
        limit: int | None = None,
        start_after_ms: int | None = None,
        end_before_ms: int | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        job_id: str | None = None,
        missed_fires: MissedFiresLike | None = None,
    ) -> SyncJob:
        """Store a schedule, or replace the one of the same name and pattern; the job's id is the schedule's key.

        attempts, backoff and job_id are accepted as in `add` and not stored: released schedulers would drop
        a schedule that holds them.
        """
        del attempts, backoff, job_id
        spec = arguments.parse_repeat_spec(
            name, data, repeat, missed_fires, limit=limit, start_after_ms=start_after_ms, end_before_ms=end_before_ms
        )
        return self._add_schedule(ScheduleRequest(spec, data))

    def get_repeatable_jobs(self, limit: int = 100) -> list[RepeatableMeta]:
        """The schedules, in the order they fire next."""
        return self._run(self._list_schedules, limit)

    def remove_repeatable_by_key(self, key: str) -> bool:
        """Remove a schedule; False when there was none."""
        return self._run(repeatable.remove_spec, key)

    def get_job_result(self, job_id: str) -> Any:
        """What the job returned; None when it is not done, returned None, or its result has expired."""
        return self._run(results.read_results, [job_id])[0]

    def get_job_result_bulk(self, job_ids: Sequence[str]) -> list[Any]:
        """What each job returned, in one round trip."""
        return self._run(results.read_results, list(job_ids))

    def close(self) -> None:
        """Close the connections. A later call opens them again, as in the reference."""
        self._closed = True
        link, self._own = self._own, None
        if link:
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, jobs: Sequence[JobRequest]) -> list[SyncJob]:
        return self._finish_add(self._prepare(SyncJob, jobs))

    def _finish_add(self, prepared: PreparedBatch[SyncJob]) -> list[SyncJob]:
        if prepared.jobs:
            delivery = self._run(prepared.deliver, self._memory)
            self._raise_unless_added(prepared, delivery, partial(self._finish_add, prepared))
        added = list(prepared.jobs[:])
        for place, request in prepared.schedules:
            added.insert(place, self._add_schedule(request))
        return added

    def _add_schedule(self, request: ScheduleRequest) -> SyncJob:
        return self._schedule_as_job(SyncJob, request, self._run(repeatable.upsert_spec, request.spec))

    def _run(self, flow: Callable[Concatenate[Commands, Keys, P], Flow[T]], *args: P.args, **named: P.kwargs) -> T:
        link = self._link()
        return link.run(flow(Commands(link.features()), self._keys, *args, **named))

    def _link(self) -> Link:
        if self._given:
            return self._given
        if self._own is None:
            self._own = self._open()
        return self._own
