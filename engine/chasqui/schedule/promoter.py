"""The promoter: jobs whose time has come, by the server's clock, leave the delayed set for the stream.

One tick is one run of a script and what follows from it; the leader's lock decides which of many promoters ticks.
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
"""How many batches one run may span, to get past members that cannot be moved."""


def promote(
    commands: Commands, keys: Keys, options: PromoterOptions, *, batch_factor: int = 1, event_ts_ms: int | None = None
) -> Flow[PromoteResult]:
    """Move a batch of due jobs; then, in one round trip, delete their indexes and send their `waiting` events.

    Losing the second half loses an event and leaves an index that finds nothing and expires; no job depends on it.
    event_ts_ms: the time of the events; None for no events.
    """
    call = commands.promote(keys, batch=options.batch * batch_factor, cap=options.stream_cap, dead_cap=options.dead_cap)
    [reply] = yield [call]
    promoted = PromoteResult.from_reply(reply)
    if ids := _job_ids(promoted.envelopes):
        events = [] if event_ts_ms is None else waiting_events(commands, keys, ids, event_ts_ms, options.events_cap)
        yield [commands.delete_indexes(keys, ids), *events]
    return promoted


class Promoter:
    """Promotes for one queue while it leads. Several may run: one leads, the others stand by.

    holder: the name in the lock; workers give their consumer id. events: whether to send `waiting` events.
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
        self._batch_factor = 1
        self._loop = LeaderLoop(
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
        """The state of the loop, and what it promoted and quarantined so far."""
        return self._loop.state

    async def tick(self) -> PromoteResult:
        """One batch, also without the lock: the script is atomic, so two promoters at once do no harm."""
        commands = Commands(await self._link.features())
        event_ts_ms = self._clock.now_ms() if self._events else None
        flow = promote(commands, self._keys, self._options, batch_factor=self._batch_factor, event_ts_ms=event_ts_ms)
        promoted = await self._link.run(flow)
        self._loop.count("promoted", promoted.count)
        self._loop.count("quarantined", promoted.quarantined)
        return promoted

    async def run(self, stop: asyncio.Event) -> None:
        """Lead or stand by until stopped; no server error ends it."""
        await self._loop.run(self._leader_turn, stop)

    async def _leader_turn(self) -> TurnResult:
        asked = self._options.batch * self._batch_factor
        promoted = await self.tick()
        moved = promoted.count + promoted.quarantined
        # What is due and was neither moved nor left for the next batch cannot be moved: garbage while the dlq key is bad.
        stuck = promoted.lag_ms > 0 and moved < asked
        self._batch_factor = (
            1 if not stuck else self._batch_factor if moved else min(MAX_BATCH_FACTOR, self._batch_factor * 2)
        )
        pause_s = 0.0 if moved >= self._options.batch else self._loop.poll_s
        return TurnResult(pause_s, "leader", (self._stuck_note(),) if stuck else ())

    def _stuck_note(self) -> str:
        return f"{self._keys.delayed} holds members that are no jobs, and {self._keys.dlq} does not take them"


def _job_ids(envelopes: Sequence[bytes]) -> list[str]:
    """The ids of promoted jobs; one that cannot be decoded gets no event, as with the reference."""
    jobs = map(envelope.decode_or_undecodable, envelopes)
    return [job.id for job in jobs if not isinstance(job, Undecodable)]


def waiting_events(commands: Commands, keys: Keys, ids: Sequence[str], ts_ms: int, cap: int) -> list[Call]:
    """One event each, without a name. An events key of the wrong type costs the events and nothing else."""
    events = (event_entry.Event(event_entry.WAITING, job_id, ts_ms) for job_id in ids)
    calls = (commands.emit_event(keys, event_entry.encode(event), cap=cap) for event in events)
    return [replace(call, tolerant=True) for call in calls]
