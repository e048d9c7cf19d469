"""What the two queues have in common: their settings, the flows of their methods, and how results are made of replies.

`queue.py` and `sync_queue.py` decide which link runs a flow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from chasqui.clock import Clock, SystemClock
from chasqui.defaults import ProducerOptions
from chasqui.errors import ArgumentError, QueueFull, Unconfirmed
from chasqui.models import LazyJobs
from chasqui.operate import dead_letters
from chasqui.produce import arguments
from chasqui.produce.batch import Batch, PackedJobs
from chasqui.produce.delivery import Delivery, ProducerMemory
from chasqui.produce.prepared_batch import J, PreparedBatch, ScheduleRequest, prepare_jobs
from chasqui.schedule import repeatable
from chasqui.wire import job_id
from chasqui.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from chasqui.models import RepeatableMeta
    from chasqui.operate.dead_letters import DeadLetter
    from chasqui.produce.arguments import JobRequest
    from chasqui.schedule.repeatable import UpsertedSpec
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow

OnFull = Literal["refuse", "grow"]
Durability = Literal["written", "replicated"]
Prefix = Literal["u32le", "u8"]

DEFAULT_URL = "redis://127.0.0.1:6379"
_DEFAULTS = ProducerOptions()


class QueueBase(ABC):
    """The half of a queue that neither blocks nor awaits."""

    def __init__(
        self,
        name: str,
        *,
        max_stream_len: int | None,
        max_delay_secs: int | None,
        on_full: OnFull,
        durability: Durability,
        strict_unique: bool,
        delayed_prefix: Prefix,
        clock: Clock | None,
    ) -> None:
        self._name = name
        self._keys = Keys(name)
        self._options = _producer_options(max_stream_len, max_delay_secs, on_full, delayed_prefix, durability)
        self._strict_unique = strict_unique
        self._clock = clock or SystemClock()
        self._memory = ProducerMemory()
        self._closed = False

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def clock(self) -> Clock:
        """What this queue dates its jobs by; when they are due is the server's opinion."""
        return self._clock

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @abstractmethod
    def get_job_result(self, job_id: str) -> Any:
        """What the job returned."""

    def _prepare(self, kind: type[J], requests: Sequence[JobRequest]) -> PreparedBatch[J]:
        return prepare_jobs(kind, requests, self._clock.now_ms(), self._options, self)

    def _prepare_bulk(self, kind: type[J], entries: Iterable[Mapping[str, Any]]) -> PreparedBatch[J]:
        """As a rule all have a name, data and nothing else: then quickly made, because there are many."""
        entries = list(entries)
        if {*map(len, entries)} - {2}:
            return self._prepare_mixed(kind, entries)
        try:
            names, data = [entry["name"] for entry in entries], [entry["data"] for entry in entries]
        except KeyError:
            return self._prepare_mixed(kind, entries)
        now_ms = self._clock.now_ms()

        def made(places: range) -> list[J]:
            some = slice(places.start, places.stop)
            minted = job_id.new_job_ids(len(places), now_ms)
            return [
                kind(new_id, name, value, 0, now_ms, self)
                for new_id, name, value in zip(minted, names[some], data[some], strict=True)
            ]

        jobs = LazyJobs(made, len(entries))
        return PreparedBatch(jobs, PackedJobs.pack(Batch(jobs, names, data), self._options))

    def _prepare_mixed(self, kind: type[J], entries: Sequence[Mapping[str, Any]]) -> PreparedBatch[J]:
        schedules: list[tuple[int, ScheduleRequest]] = []
        requests: list[JobRequest] = []
        for place, entry in enumerate(entries):
            if "data" not in entry:
                raise ArgumentError(f"job {place} has no 'data'")
            if entry.get("repeat") is None:
                requests.append(arguments.job_request_from_mapping(entry))
            else:
                spec = arguments.parse_repeat_spec(entry.get("name"), entry["data"], entry["repeat"])
                schedules.append((place, ScheduleRequest(repeatable.check_spec(spec), entry["data"])))
        prepared = self._prepare(kind, requests)
        prepared.schedules = schedules
        return prepared

    def _raise_unless_added(self, prepared: PreparedBatch[J], delivery: Delivery, retry: Callable[[], Any]) -> None:
        """Mark duplicates among the jobs. If not all jobs were added, raise the error with all that is known."""
        for place in delivery.duplicates:
            prepared.jobs[place].created = False
        if delivery.error is None:
            return
        written = delivery.written
        if all(known is False for known in written):
            raise delivery.error
        raise Unconfirmed(delivery.error, prepared.jobs[:], written, retry) from delivery.error

    def _schedule_as_job(self, kind: type[J], request: ScheduleRequest, stored: UpsertedSpec) -> J:
        now_ms, created = self._clock.now_ms(), stored.created
        return kind(stored.key, request.spec.job_name, request.data, 0, now_ms, self, created)

    def _list_schedules(self, commands: Commands, keys: Keys, limit: int) -> Flow[list[RepeatableMeta]]:
        found = yield from repeatable.list_specs(commands, keys, _check_limit(limit))
        return [meta for meta in map(arguments.to_repeatable_meta, found) if meta]

    def _cancel_delayed(self, commands: Commands, keys: Keys, job_id: str) -> Flow[bool]:
        [cancelled] = yield [commands.cancel_delayed(keys, job_id)]
        return bool(cancelled)

    def _peek_dead_letters(self, commands: Commands, keys: Keys, limit: int) -> Flow[list[dict[str, Any]]]:
        dead = yield from dead_letters.list_dead_letters(commands, keys, _check_limit(limit))
        return [_dead_letter_dict(job) for job in dead]

    def _replay_dead_letters(self, commands: Commands, keys: Keys, limit: int) -> Flow[int]:
        cap = self._options.cap
        done = yield from dead_letters.replay_oldest(commands, keys, _check_limit(limit), cap=cap)
        if done.is_stream_full and not done.moved and cap is not None:
            raise QueueFull(self._name, depth=cap, cap=cap, asked=1)
        return done.moved


def _producer_options(
    cap: int | None, max_delay_s: int | None, on_full: OnFull, prefix: Prefix, durability: Durability
) -> ProducerOptions:
    for name, value in (("max_stream_len", cap), ("max_delay_secs", max_delay_s)):
        if value is not None and value < 0:
            raise ArgumentError(f"{name} must be non-negative; got {value}")
    if on_full not in ("refuse", "grow"):
        raise ArgumentError(f"on_full is 'refuse' or 'grow', not {on_full!r}")
    if prefix not in ("u32le", "u8"):
        raise ArgumentError(f"delayed_prefix is 'u32le' or 'u8', not {prefix!r}")
    if durability not in ("written", "replicated"):
        raise ArgumentError(f"durability is 'written' or 'replicated', not {durability!r}")
    return ProducerOptions(
        replicas=int(durability == "replicated"),
        max_delay_s=_DEFAULTS.max_delay_s if max_delay_s is None else max_delay_s,
        delayed_prefix=prefix,
        cap=None if on_full == "grow" or cap == 0 else cap or _DEFAULTS.cap,
    )


def _check_limit(limit: int) -> int:
    if limit < 0:
        raise ArgumentError(f"limit must be non-negative; got {limit}")
    return limit


def _dead_letter_dict(dead: DeadLetter) -> dict[str, Any]:
    letter = dead.decoded()
    return {
        "dlq_id": dead.dead_id,
        "source_id": letter.source_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "payload": letter.d,
        "name": letter.name,
    }
