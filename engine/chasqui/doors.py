"""What the two queues have in common: their settings, their asks as flows, and what they make of the answers.

Which link drives a flow, and whether anybody awaits it, is decided in `queue.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from chasqui import arguments, dlq, producer, repeatable, results
from chasqui.clock import Clock, SystemClock
from chasqui.errors import ArgumentError, QueueFull, Unconfirmed
from chasqui.options import Producer
from chasqui.producer import Batch
from chasqui.records import Job, Roll, SyncJob
from chasqui.shipment import Ledger, Shipment, send
from chasqui.wire import ids
from chasqui.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from chasqui.arguments import Wanted
    from chasqui.dlq import DeadJob
    from chasqui.records import RepeatableMeta
    from chasqui.repeatable import Stored
    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.repeat_spec import RepeatSpec

J = TypeVar("J", Job, SyncJob)
OnFull = Literal["refuse", "grow"]
Durability = Literal["written", "replicated"]
Prefix = Literal["u32le", "u8"]

DEFAULT_URL = "redis://127.0.0.1:6379"
_DEFAULTS = Producer()


@dataclass(slots=True)
class Order(Generic[J]):
    """Jobs to be added, and the specs that came among them; a part of the jobs may have been shipped already."""

    jobs: Sequence[J]
    batch: Batch
    requests: list[tuple[int, Request]] = field(default_factory=list)
    shipment: Shipment | None = None


class Request(NamedTuple):
    """One spec to be stored, and the data it came with."""

    spec: RepeatSpec
    data: Any


class Doors(ABC):
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
        self._options = _options(max_stream_len, max_delay_secs, on_full, delayed_prefix, durability)
        self._strict_unique = strict_unique
        self._clock = clock or SystemClock()
        self._ledger = Ledger()
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

    def _order(self, kind: type[J], wanted: Sequence[Wanted]) -> Order[J]:
        now_ms = self._clock.now_ms()
        minted = ids.mint_many(len(wanted), now_ms)
        jobs = [
            kind(one.job_id or new_id, one.name, one.data, 0, now_ms, self)
            for one, new_id in zip(wanted, minted, strict=True)
        ]
        return Order(
            jobs, Batch.of(jobs, {place: one.terms for place, one in enumerate(wanted) if one.terms})
        )

    def _bulk_order(self, kind: type[J], entries: Iterable[Mapping[str, Any]]) -> Order[J]:
        """As a rule all have a name, data and nothing else: then quickly made, because there are many."""
        entries = list(entries)
        if {*map(len, entries)} - {2}:
            return self._mixed_order(kind, entries)
        try:
            names, data = [entry["name"] for entry in entries], [entry["data"] for entry in entries]
        except KeyError:
            return self._mixed_order(kind, entries)
        now_ms = self._clock.now_ms()

        def made(places: range) -> list[J]:
            some = slice(places.start, places.stop)
            minted = ids.mint_many(len(places), now_ms)
            return [
                kind(new_id, name, value, 0, now_ms, self)
                for new_id, name, value in zip(minted, names[some], data[some], strict=True)
            ]

        jobs = Roll(made, len(entries))
        return Order(jobs, Batch(jobs, names, data))

    def _mixed_order(self, kind: type[J], entries: Sequence[Mapping[str, Any]]) -> Order[J]:
        requests: list[tuple[int, Request]] = []
        wanted: list[Wanted] = []
        for place, entry in enumerate(entries):
            if "data" not in entry:
                raise ArgumentError(f"job {place} has no 'data'")
            if entry.get("repeat") is None:
                wanted.append(arguments.wanted_of(entry))
            else:
                spec = arguments.spec_of(entry.get("name"), entry["data"], entry["repeat"])
                requests.append((place, Request(repeatable.check(spec), entry["data"])))
        order = self._order(kind, wanted)
        order.requests = requests
        return order

    def _ship(self, commands: Commands, order: Order[J]) -> Flow[Shipment]:
        """Send the order, or what is left of it."""
        if order.shipment is None:
            order.shipment = yield from producer.add(
                commands, self._keys, order.batch, ledger=self._ledger, options=self._options
            )
        else:
            yield from send(order.shipment)
        return order.shipment

    def _receipt(self, order: Order[J], shipment: Shipment, retry: Callable[[], Any]) -> None:
        """See whether an order went through; otherwise raise the error, with all that is known."""
        for place in shipment.repeated:
            order.jobs[place].created = False
        if shipment.problem is None:
            return
        written = shipment.written
        if all(known is False for known in written):
            raise shipment.problem
        raise Unconfirmed(shipment.problem, order.jobs[:], written, retry) from shipment.problem

    def _stored(self, kind: type[J], request: Request, stored: Stored) -> J:
        now_ms, created = self._clock.now_ms(), stored.created
        return kind(stored.key, request.spec.job_name, request.data, 0, now_ms, self, created)

    def _store(self, commands: Commands, request: Request) -> Flow[Stored]:
        return repeatable.upsert(commands, self._keys, request.spec)

    def _listing(self, commands: Commands, limit: int) -> Flow[list[RepeatableMeta]]:
        found = yield from repeatable.listing(commands, self._keys, _count(limit))
        return [meta for meta in map(arguments.meta_of, found) if meta]

    def _removal(self, commands: Commands, key: str) -> Flow[bool]:
        return repeatable.remove(commands, self._keys, key)

    def _results(self, commands: Commands, job_ids: Sequence[str]) -> Flow[list[Any]]:
        return results.results(commands, self._keys, job_ids)

    def _cancel(self, commands: Commands, job_id: str) -> Flow[bool]:
        [cancelled] = yield [commands.cancel_delayed(self._keys, job_id)]
        return bool(cancelled)

    def _peek(self, commands: Commands, limit: int) -> Flow[list[dict[str, Any]]]:
        dead = yield from dlq.peek(commands, self._keys, _count(limit))
        return [_as_dict(job) for job in dead]

    def _replay(self, commands: Commands, limit: int) -> Flow[int]:
        cap = self._options.cap
        done = yield from dlq.replay(commands, self._keys, _count(limit), cap=cap)
        if done.full and not done.moved and cap is not None:
            raise QueueFull(self._name, depth=cap, cap=cap, asked=1)
        return done.moved


def _options(
    cap: int | None, max_delay_s: int | None, on_full: OnFull, prefix: Prefix, durability: Durability
) -> Producer:
    for name, value in (("max_stream_len", cap), ("max_delay_secs", max_delay_s)):
        if value is not None and value < 0:
            raise ArgumentError(f"{name} must be non-negative; got {value}")
    if on_full not in ("refuse", "grow"):
        raise ArgumentError(f"on_full is 'refuse' or 'grow', not {on_full!r}")
    if prefix not in ("u32le", "u8"):
        raise ArgumentError(f"delayed_prefix is 'u32le' or 'u8', not {prefix!r}")
    if durability not in ("written", "replicated"):
        raise ArgumentError(f"durability is 'written' or 'replicated', not {durability!r}")
    return Producer(
        replicas=int(durability == "replicated"),
        max_delay_s=_DEFAULTS.max_delay_s if max_delay_s is None else max_delay_s,
        delayed_prefix=prefix,
        cap=None if on_full == "grow" or cap == 0 else cap or _DEFAULTS.cap,
    )


def _count(limit: int) -> int:
    if limit < 0:
        raise ArgumentError(f"limit must be non-negative; got {limit}")
    return limit


def _as_dict(dead: DeadJob) -> dict[str, Any]:
    letter = dead.letter
    return {
        "dlq_id": dead.dead_id,
        "source_id": letter.source_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "payload": letter.d,
        "name": letter.name,
    }
