"""Jobs described by somebody else, on their way into a queue: made, looked at, sent, and written down to be taken back.

`queue.py` is the door for programs; this is the one for tools, which want to know where each job went.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chasqui import producer, shipment
from chasqui.arguments import Wanted, retry_of
from chasqui.errors import ArgumentError
from chasqui.producer import PLAIN, Batch, Goods, Terms
from chasqui.records import SyncJob
from chasqui.server.commands import After
from chasqui.shipment import Ledger
from chasqui.wire import delayed_member, ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.arguments import BackoffLike
    from chasqui.errors import ServerError
    from chasqui.options import Producer
    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.wire.keys import Keys
    from chasqui.withdrawal import Footing

__all__ = ["Added", "Ledger", "Load", "Wanted", "described", "made", "send"]


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
class Load:
    """Jobs that travel together; once sent, `added` tells about each of them."""

    batch: Batch
    options: Producer
    shipment: shipment.Shipment | None = field(default=None, repr=False)

    @property
    def problem(self) -> ServerError | None:
        """Why not all of it was written."""
        return self.shipment.problem if self.shipment else None

    @property
    def added(self) -> list[Added]:
        """Each job, in order."""
        if self.shipment is None:
            return [Added(job.id, None, None, False, False) for job in self.batch.jobs]
        parts = zip(self.batch.jobs, self.shipment.landings, self.shipment.written, strict=True)
        again = self.shipment.repeated
        return [
            Added(job.id, landing.entry_id, landing.run_at_ms, place in again, written)
            for place, (job, landing, written) in enumerate(parts)
        ]

    def items(self, footing: Footing) -> list[dict[str, Any]]:
        """What to write down about each job before it is sent, for `withdrawal.take_back`."""
        members = self._members()
        return [self._item(place, footing, members.get(place)) for place in range(len(self.batch.jobs))]

    def _item(self, place: int, footing: Footing, member: bytes | None) -> dict[str, Any]:
        job, terms = self.batch.jobs[place], self.batch.terms.get(place, PLAIN)
        known = {"kind": "added", "id": job.id, "created_at_ms": job.created_at_ms, "after": footing.last_id}
        unique = {"unique": True} if terms.unique else {}
        return known | unique | ({"member": member.hex()} if member else {})

    def _members(self) -> dict[int, bytes]:
        """The bytes of those that are for later, as they will stand in the delayed set."""
        places = [place for place, terms in self.batch.terms.items() if terms.due is not None]
        terms = {nth: self.batch.terms[place] for nth, place in enumerate(places)}
        goods = Goods.pack_up(Batch.of([self.batch.jobs[place] for place in places], terms), self.options)
        return {place: goods.member(nth) for nth, place in enumerate(places)}


def described(
    name: str,
    data: Any,
    *,
    job_id: str | None = None,
    unique: bool = False,
    delay_ms: int | None = None,
    at_ms: int | None = None,
    attempts: int | None = None,
    backoff: BackoffLike | None = None,
) -> Wanted:
    """A job somebody wants; what is wrong with it by itself is told here, or by `made`."""
    if job_id is not None:
        ids.check(job_id)
    elif unique:
        raise ArgumentError("a unique job needs an id", hint="give it one: --id, or `id` in its line")
    if delay_ms is not None and at_ms is not None:
        raise ArgumentError("delay and at say the same thing: give one of them")
    retry = None if attempts is None and backoff is None else retry_of(attempts, backoff)
    due = After(delay_ms) if delay_ms else at_ms
    terms = Terms(named=job_id is not None, unique=unique, retry=retry, due=due)
    return Wanted(name, data, job_id, None if terms == PLAIN else terms)


def made(wanted: Sequence[Wanted], now_ms: int, options: Producer) -> Load:
    """The jobs, with ids and dates, found fit to be sent: if one is not, `ArgumentError` says why."""
    minted = ids.mint_many(len(wanted), now_ms)
    jobs = [
        SyncJob(one.job_id or new_id, one.name, one.data, 0, now_ms)
        for one, new_id in zip(wanted, minted, strict=True)
    ]
    batch = Batch.of(jobs, {place: one.terms for place, one in enumerate(wanted) if one.terms})
    Goods.pack_up(batch, options)
    for terms in batch.terms.values():
        if isinstance(terms.due, int):
            delayed_member.check_delay(max(0, terms.due - now_ms), options.max_delay_s)
    return Load(batch, options)


def send(commands: Commands, keys: Keys, load: Load, ledger: Ledger) -> Flow[Load]:
    """Send a load, or what is left of it after trouble. The same ledger every time: then nothing comes twice."""
    if load.shipment is None:
        load.shipment = yield from producer.add(
            commands, keys, load.batch, ledger=ledger, options=load.options
        )
    else:
        yield from shipment.send(load.shipment)
    return load
