"""The promoter: jobs whose time has come, by the server's clock, leave the delayed set for the stream.

One tick is one run of a script and what follows from it; which of many promoters ticks is decided by the lease.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chasqui.clock import SystemClock
from chasqui.defaults import PromoterOptions as PromoterOptions
from chasqui.server.commands import Commands, PromoteResult
from chasqui.supervision.leader_lock import LeaderLoop, new_holder
from chasqui.supervision.supervisor import TurnResult
from chasqui.wire import envelope, event_entry
from chasqui.wire.msgpack_codec import Undecodable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.server.flow import Call, Flow
    from chasqui.server.link import AsyncLink
    from chasqui.supervision.supervisor import LoopState
    from chasqui.wire.keys import Keys

MAX_BATCH_FACTOR = 32
"""How many batches one look may span, to see past members that cannot be moved."""


def promote(
    commands: Commands,
    keys: Keys,
    options: PromoterOptions,
    *,
    batch_factor: int = 1,
    event_ts_ms: int | None = None,
) -> Flow[PromoteResult]:
    """Move a batch of due jobs; then, in one round trip, drop their side indexes and say that they wait.

    Losing the second half loses an event and leaves an index that finds nothing and expires; no job depends on it.
    told_ms: the time of the events; None for no events.
    """
    call = commands.promote(keys, batch=options.batch * batch_factor, cap=options.stream_cap, dead_cap=options.dead_cap)
    [reply] = yield [call]
    promoted = PromoteResult.from_reply(reply)
    if ids := _job_ids(promoted.envelopes):
        events = [] if event_ts_ms is None else waiting_events(commands, keys, ids, event_ts_ms, options.events_cap)
        yield [commands.delete_indexes(keys, ids), *events]
    return promoted


class Promoter:
    """Promotes for one queue while it leads. Several may run: one works, the others stand by.

    holder: the name in the lock; workers give their consumer id. events: whether to say `waiting`.
    """

    def __init__(
        self,
        link: AsyncLink,
        keys: Keys,
        *,
        holder: str | None = None,
        options: PromoterOptions | None = None,
        clock: Clock | None = None,
        events: bool = True,
    ) -> None:
        self._link = link
        self._keys = keys
        self._options = options or PromoterOptions()
        self._clock = clock or SystemClock()
        self._events = events
        self._wide = 1
        self._led = LeaderLoop(
            "promoter",
            link,
            keys.promoter_lock,
            holder=holder or new_holder("p"),
            ttl_s=self._options.lock_ttl_s,
            poll_s=self._options.poll_ms / 1000,
            clock=self._clock,
        )

    @property
    def state(self) -> LoopState:
        """How the loop is, and what it promoted and quarantined so far."""
        return self._led.state

    async def tick(self) -> PromoteResult:
        """One batch, whoever leads: the script is atomic, so two promoters at once do no harm."""
        commands = Commands(await self._link.features())
        told_ms = self._clock.now_ms() if self._events else None
        flow = promote(commands, self._keys, self._options, batch_factor=self._wide, event_ts_ms=told_ms)
        promoted = await self._link.run(flow)
        self._led.count("promoted", promoted.count)
        self._led.count("quarantined", promoted.quarantined)
        return promoted

    async def run(self, stop: asyncio.Event) -> None:
        """Lead or stand by until told to stop; no error of the server ends it."""
        await self._led.run(self._leader_turn, stop)

    async def _leader_turn(self) -> TurnResult:
        asked = self._options.batch * self._wide
        promoted = await self.tick()
        moved = promoted.count + promoted.quarantined
        # What is due and was neither moved nor left for the next batch cannot be moved: garbage, and no dead letters.
        stuck = promoted.lag_ms > 0 and moved < asked
        self._wide = 1 if not stuck else self._wide if moved else min(MAX_BATCH_FACTOR, self._wide * 2)
        pause_s = 0.0 if moved >= self._options.batch else self._led.poll_s
        return TurnResult(pause_s, "leader", (self._stuck_note(),) if stuck else ())

    def _stuck_note(self) -> str:
        return f"{self._keys.delayed} holds members that are no jobs, and {self._keys.dlq} does not take them"


def _job_ids(envelopes: Sequence[bytes]) -> list[str]:
    """Whose they are; what nobody can read goes without an event, as with the reference."""
    jobs = map(envelope.decode_or_undecodable, envelopes)
    return [job.id for job in jobs if not isinstance(job, Undecodable)]


def waiting_events(commands: Commands, keys: Keys, ids: Sequence[str], told_ms: int, cap: int) -> list[Call]:
    """One event each, without a name. An events key of the wrong type costs the events and nothing else."""
    told = (event_entry.Event(event_entry.WAITING, job_id, told_ms) for job_id in ids)
    calls = (commands.emit_event(keys, event_entry.encode(event), cap=cap) for event in told)
    return [replace(call, tolerant=True) for call in calls]
