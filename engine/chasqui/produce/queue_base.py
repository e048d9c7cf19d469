"""What the two queues have in common: their settings, their asks as flows, and what they make of the answers.

Which link drives a flow, and whether anybody awaits it, is decided in `queue.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from chasqui.clock import Clock, SystemClock
from chasqui.defaults import ProducerOptions
from chasqui.errors import ArgumentError, QueueFull, Unconfirmed
from chasqui.inspect import results
from chasqui.models import Job, LazyJobs, SyncJob
from chasqui.operate import dead_letters
from chasqui.produce import arguments, batch
from chasqui.produce.batch import Batch
from chasqui.produce.delivery import Delivery, ProducerMemory, send_delivery
from chasqui.schedule import repeatable
from chasqui.wire import job_id
from chasqui.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from chasqui.models import RepeatableMeta
    from chasqui.operate.dead_letters import DeadJob
    from chasqui.produce.arguments import JobRequest
    from chasqui.schedule.repeatable import UpsertedSpec
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.wire.repeat_spec import RepeatSpec

J = TypeVar("J", Job, SyncJob)
OnFull = Literal["refuse", "grow"]
Durability = Literal["written", "replicated"]
Prefix = Literal["u32le", "u8"]

DEFAULT_URL = "redis://127.0.0.1:6379"
_DEFAULTS = ProducerOptions()


@dataclass(slots=True)
class PendingAdd(Generic[J]):
    """Jobs to be added, and the specs that came among them; a part of the jobs may have been shipped already."""

    jobs: Sequence[J]
    batch: Batch
    requests: list[tuple[int, ScheduleRequest]] = field(default_factory=list)
    delivery: Delivery | None = None


class ScheduleRequest(NamedTuple):
    """One spec to be stored, and the data it came with."""

    spec: RepeatSpec
    data: Any


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
        self._ledger = ProducerMemory()
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

    def _prepare(self, kind: type[J], wanted: Sequence[JobRequest]) -> PendingAdd[J]:
        now_ms = self._clock.now_ms()
        minted = job_id.new_job_ids(len(wanted), now_ms)
        jobs = [
            kind(one.job_id or new_id, one.name, one.data, 0, now_ms, self)
            for one, new_id in zip(wanted, minted, strict=True)
        ]
        return PendingAdd(jobs, Batch.of(jobs, {place: one.options for place, one in enumerate(wanted) if one.options}))

    def _prepare_bulk(self, kind: type[J], entries: Iterable[Mapping[str, Any]]) -> PendingAdd[J]:
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
        return PendingAdd(jobs, Batch(jobs, names, data))

    def _prepare_mixed(self, kind: type[J], entries: Sequence[Mapping[str, Any]]) -> PendingAdd[J]:
        requests: list[tuple[int, ScheduleRequest]] = []
        wanted: list[JobRequest] = []
        for place, entry in enumerate(entries):
            if "data" not in entry:
                raise ArgumentError(f"job {place} has no 'data'")
            if entry.get("repeat") is None:
                wanted.append(arguments.job_request_from_mapping(entry))
            else:
                spec = arguments.parse_repeat_spec(entry.get("name"), entry["data"], entry["repeat"])
                requests.append((place, ScheduleRequest(repeatable.check_spec(spec), entry["data"])))
        order = self._prepare(kind, wanted)
        order.requests = requests
        return order

    def _deliver(self, commands: Commands, order: PendingAdd[J]) -> Flow[Delivery]:
        """Send the order, or what is left of it."""
        if order.delivery is None:
            order.delivery = yield from batch.add_jobs(
                commands, self._keys, order.batch, ledger=self._ledger, options=self._options
            )
        else:
            yield from send_delivery(order.delivery)
        return order.delivery

    def _raise_unless_added(self, order: PendingAdd[J], shipment: Delivery, retry: Callable[[], Any]) -> None:
        """See whether an order went through; otherwise raise the error, with all that is known."""
        for place in shipment.duplicates:
            order.jobs[place].created = False
        if shipment.error is None:
            return
        written = shipment.written
        if all(known is False for known in written):
            raise shipment.error
        raise Unconfirmed(shipment.error, order.jobs[:], written, retry) from shipment.error

    def _schedule_as_job(self, kind: type[J], request: ScheduleRequest, stored: UpsertedSpec) -> J:
        now_ms, created = self._clock.now_ms(), stored.created
        return kind(stored.key, request.spec.job_name, request.data, 0, now_ms, self, created)

    def _store_schedule(self, commands: Commands, request: ScheduleRequest) -> Flow[UpsertedSpec]:
        return repeatable.upsert_spec(commands, self._keys, request.spec)

    def _list_schedules(self, commands: Commands, limit: int) -> Flow[list[RepeatableMeta]]:
        found = yield from repeatable.list_specs(commands, self._keys, _check_limit(limit))
        return [meta for meta in map(arguments.to_repeatable_meta, found) if meta]

    def _remove_schedule(self, commands: Commands, key: str) -> Flow[bool]:
        return repeatable.remove_spec(commands, self._keys, key)

    def _read_results(self, commands: Commands, job_ids: Sequence[str]) -> Flow[list[Any]]:
        return results.read_results(commands, self._keys, job_ids)

    def _cancel_delayed(self, commands: Commands, job_id: str) -> Flow[bool]:
        [cancelled] = yield [commands.cancel_delayed(self._keys, job_id)]
        return bool(cancelled)

    def _peek_dead_letters(self, commands: Commands, limit: int) -> Flow[list[dict[str, Any]]]:
        dead = yield from dead_letters.list_dead_letters(commands, self._keys, _check_limit(limit))
        return [_dead_letter_dict(job) for job in dead]

    def _replay_dead_letters(self, commands: Commands, limit: int) -> Flow[int]:
        cap = self._options.cap
        done = yield from dead_letters.replay_oldest(commands, self._keys, _check_limit(limit), cap=cap)
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


def _dead_letter_dict(dead: DeadJob) -> dict[str, Any]:
    letter = dead.letter
    return {
        "dlq_id": dead.dead_id,
        "source_id": letter.source_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "payload": letter.d,
        "name": letter.name,
    }
