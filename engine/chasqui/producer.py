"""Flows that put jobs into a queue: now or later, one or a hundred thousand. Nothing here connects or tells the time.

What a job looks like in bytes is the wire room's business; which words the server understands, the server room's;
how the pieces travel, and travel again, is in `shipment.py`; how jobs are taken back, in `withdrawal.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING

from chasqui.errors import ArgumentError, QueueFull
from chasqui.options import Producer
from chasqui.server.commands import After, time_ms
from chasqui.shipment import Piece, Shipment, send
from chasqui.wire import delayed_member, ids, packed, retry_override, stream_entry
from chasqui.withdrawal import take_back as take_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chasqui.records import AnyJob
    from chasqui.server.call import Call, Flow
    from chasqui.server.commands import Commands, Due
    from chasqui.shipment import Ledger
    from chasqui.wire.keys import Keys
    from chasqui.wire.packed import Value
    from chasqui.wire.retry_override import RetryOverride

RUN, RUN_BYTES = 500, 1 << 20
"""How many jobs one call adds at most, and about how many bytes: a server does nothing else meanwhile."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a job asks for besides being run, as most jobs do not.

    named: its id is the caller's, so that adding it again adds nothing. unique: also if somebody else used that id.
    retry: what it does differently from its queue. due: when it may run.
    """

    named: bool = False
    unique: bool = False
    retry: RetryOverride | None = None
    due: Due | None = None


PLAIN = Terms()


@dataclass(frozen=True, slots=True)
class Batch:
    """New jobs of one moment, and the terms of those that have any, by place.

    Names and data stand apart, because they are looked at first: the jobs may still have to be made.
    """

    jobs: Sequence[AnyJob]
    names: Sequence[str | None]
    data: Sequence[Value]
    terms: Mapping[int, Terms] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Sequence[AnyJob], terms: Mapping[int, Terms] | None = None) -> Batch:
        """Jobs that are made already."""
        return cls(jobs, [job.name for job in jobs], [job.data for job in jobs], terms or {})


def add(
    commands: Commands, keys: Keys, batch: Batch, *, ledger: Ledger, options: Producer | None = None
) -> Flow[Shipment]:
    """Add jobs, in this order. If one of them is not fit to be sent, or there is no room for all, none is.

    When a delayed job is due is counted by the server, not from the job's own date. It takes one round trip for ten
    thousand jobs, and one before them for a first or long call, near the cap, or with absolute times.
    """
    goods = Goods.pack_up(batch, options or Producer())
    server_ms = yield from _admitted(commands, keys, batch, ledger, goods.options.cap)
    clerk = _Clerk(commands, keys, goods, ledger, server_ms)
    look = None if goods.options.cap is None else commands.length(keys.stream)
    wanted, wait_ms = goods.options.replicas, goods.options.replica_wait_ms
    copied = (commands.replicated(wanted, wait_ms), wanted) if wanted else None
    return (yield from send(Shipment(list(clerk.pieces()), ledger, look, copied)))


def _admitted(commands: Commands, keys: Keys, batch: Batch, ledger: Ledger, cap: int | None) -> Flow[int]:
    """Ask for room and for the time, whichever is needed; answers the server's time, or 0 if it was not."""
    dues = [terms.due for terms in batch.terms.values() if terms.due is not None]
    count, dated = len(batch.jobs) - len(dues), any(isinstance(due, int) for due in dues)
    crowded = cap is not None and count > 0 and not _fits(ledger.depth, count, cap)
    questions = [commands.server_time()] if dated else []
    if crowded:
        questions.append(replace(commands.length(keys.stream), tolerant=True))
    replies = (yield questions) if questions else []
    if crowded and cap is not None:
        ledger.learn(replies[-1])
        if ledger.depth is not None and ledger.depth + count > cap:
            raise QueueFull(keys.queue, depth=ledger.depth, cap=cap, asked=count)
    return time_ms(replies[0]) if dated else 0


def _fits(depth: int | None, count: int, cap: int) -> bool:
    """Whether a depth seen a while ago is good enough: for a short call, and as long as there is room for another.
    Producers that add at the same time may pass the cap by a little, and nothing is trimmed for it.
    """
    return depth is not None and count <= RUN and depth + count + RUN <= cap


@dataclass(frozen=True, slots=True)
class Goods:
    """Jobs that were found fit, with their data packed; envelopes, and perhaps the jobs themselves, are made later,
    while others are on their way.
    """

    jobs: Sequence[AnyJob]
    terms: Mapping[int, Terms]
    names: list[bytes]
    contents: list[bytes]
    options: Producer

    @classmethod
    def pack_up(cls, batch: Batch, options: Producer) -> Goods:
        """Whatever is wrong with a job by itself is found here."""
        names = _Names(options.max_name_bytes)
        for place, terms in batch.terms.items():
            _check(batch.jobs[place].id, terms, options)
        return cls(
            batch.jobs,
            batch.terms,
            [names[name] for name in batch.names],
            packed.pack_each(batch.data),
            options,
        )

    def envelopes(self, places: range) -> list[bytes]:
        """The bytes of jobs that never ran, as `wire/envelope.py` makes them one at a time."""
        job_ids = [job.id for job in self.jobs[places.start : places.stop]]
        contents = self.contents[places.start : places.stop]
        now_ms = self.jobs[places.start].created_at_ms
        elements: Iterator[tuple[Value, ...]] = zip(job_ids, contents, repeat(now_ms), repeat(0))
        if self.terms:
            elements = (
                (*four, retry_override.to_list(retry)) if (retry := self.of(at).retry) else four
                for at, four in zip(places, elements, strict=True)
            )
        return packed.pack_each(elements)

    def of(self, place: int) -> Terms:
        """The terms of the job at this place."""
        return self.terms.get(place, PLAIN)

    def fields(self, at: int) -> list[bytes]:
        """The words of a job's entry."""
        [envelope] = self.envelopes(range(at, at + 1))
        return stream_entry.encode(envelope, self.names[at])

    def member(self, at: int) -> bytes:
        """The job as a member of the delayed set."""
        [envelope] = self.envelopes(range(at, at + 1))
        return delayed_member.encode(envelope, self.names[at], self.options.delayed_prefix)


def _check(job_id: str, terms: Terms, options: Producer) -> None:
    if terms.named:
        ids.check(job_id)
    if terms.retry and terms.retry.backoff:
        retry_override.check_backoff(terms.retry.backoff)
    if isinstance(terms.due, After):
        delayed_member.check_delay(terms.due.delay_ms, options.max_delay_s)


class _Names(dict[str | None, bytes]):
    """Names as bytes, each looked at once; None is no name."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    def __missing__(self, name: str | None) -> bytes:
        if name is not None and not isinstance(name, str):
            raise ArgumentError("opts.name must be a string")
        self[name] = raw = stream_entry.check_name(name or "", self._max_bytes)
        return raw


@dataclass(frozen=True, slots=True)
class _Clerk:
    """Decides which call adds which jobs."""

    commands: Commands
    keys: Keys
    goods: Goods
    ledger: Ledger
    server_ms: int

    def pieces(self) -> Iterator[Piece]:
        """In the order of the jobs, only that what is delayed comes after what is not."""
        later: list[int] = []
        start = 0
        for at, terms in sorted(self.goods.terms.items()):
            if terms.due is None and not terms.named:
                continue
            yield from self._runs(range(start, at))
            start = at + 1
            if terms.due is not None and self._is_to_come(terms.due):
                later.append(at)
            else:
                yield self._alone(at)
        yield from self._runs(range(start, len(self.goods.jobs)))
        yield from self._later(later)

    def _is_to_come(self, due: Due) -> bool:
        """By the server's clock; what is due already needs no detour."""
        if isinstance(due, After):
            return due.delay_ms > 0
        delay_ms = due - self.server_ms
        return delay_ms > 0 and delayed_member.check_delay(delay_ms, self.goods.options.max_delay_s) > 0

    def _runs(self, places: range) -> Iterator[Piece]:
        """Jobs without ids of their own, as many at a time as a server should be asked to add in one breath."""
        for start in range(0, len(places), RUN):
            yield from self._cut(places[start : start + RUN])

    def _cut(self, places: range) -> Iterator[Piece]:
        if len(places) == 1:
            yield self._alone(places[0])
        elif sum(map(len, self.goods.contents[places.start : places.stop])) > RUN_BYTES:
            middle = len(places) // 2
            yield from self._cut(places[:middle])
            yield from self._cut(places[middle:])
        else:
            yield Piece(places, partial(self._add_all, places))

    def _add_all(self, places: range) -> Call:
        jobs, names = self.goods.envelopes(places), self.goods.names[places.start : places.stop]
        name = names[0] if names.count(names[0]) == len(names) else None
        if name is None:
            jobs = list(chain.from_iterable(zip(jobs, names, strict=True)))
        return self.commands.add_all(self.keys, self.ledger.producer_id, self._id(places[0]), jobs, name=name)

    def _alone(self, at: int) -> Piece:
        terms = self.goods.of(at)
        if terms.unique:
            return Piece([at], partial(self._add_unique, at), lambda reply: reply is not None)
        is_new = partial(self.ledger.is_new, self._id(at)) if terms.named else None
        return Piece([at], partial(self._add_entry, at), is_new)

    def _add_entry(self, at: int) -> Call:
        fields = self.goods.fields(at)
        return self.commands.add_entry(self.keys, self.ledger.producer_id, self._id(at), fields)

    def _add_unique(self, at: int) -> Call:
        fields, ttl_s = self.goods.fields(at), self.goods.options.unique_s
        return self.commands.add_unique(self.keys, self._id(at), fields, ttl_s=ttl_s)

    def _later(self, places: Sequence[int]) -> Iterator[Piece]:
        """Each id has a marker of its own; those without share one."""
        for at in places:
            if self.goods.of(at).named:
                yield Piece([at], partial(self._schedule_once, at), bool, [self._due(at)])
        nameless = [at for at in places if not self.goods.of(at).named]
        for start in range(0, len(nameless), RUN):
            some = nameless[start : start + RUN]
            yield Piece(some, partial(self._schedule_all, some), dues=[self._due(at) for at in some])

    def _schedule_once(self, at: int) -> Call:
        due, member = self.goods.of(at).due, self.goods.member(at)
        if isinstance(due, After):
            return self.commands.delay_once(self.keys, self._id(at), member, due.delay_ms)
        return self.commands.schedule_once(self.keys, self._id(at), member, due or 0, now_ms=self.server_ms)

    def _schedule_all(self, places: Sequence[int]) -> Call:
        jobs = [(self._due(at), self.goods.member(at)) for at in places]
        return self.commands.schedule_all(self.keys, self.ledger.producer_id, self._id(places[0]), jobs)

    def _due(self, at: int) -> Due:
        return self.goods.of(at).due or 0

    def _id(self, at: int) -> str:
        return self.goods.jobs[at].id
