"""A job's stay in the worker: read, run, and settled, parked or buried. `Consumer` puts the parts together.

Promoting, scheduling and signals are not here; `worker.py` sees to them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Any

from chasqui.consumer.arrivals import Door
from chasqui.consumer.heartbeat import Heartbeat
from chasqui.consumer.holdings import Holdings
from chasqui.consumer.housekeeping import Housekeeping
from chasqui.consumer.outbox import Outbox
from chasqui.consumer.outcomes import Outcomes
from chasqui.consumer.reader import Reader
from chasqui.consumer.slots import Slots
from chasqui.consumer.suspects import Suspects
from chasqui.consumer.telling import Teller
from chasqui.consumer.threads import Threads
from chasqui.consumer.verdicts import HandBack, Office, Verdicts, waited
from chasqui.errors import AuthRefused, ServerError
from chasqui.wire import event_entry
from chasqui.wire.event_entry import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consumer.holdings import Batch, Row
    from chasqui.consumer.suspects import Delivered
    from chasqui.loops import LoopState
    from chasqui.options import Retry
    from chasqui.options import Worker as Options
    from chasqui.server.call import Flow
    from chasqui.server.commands import Commands
    from chasqui.server.link import AsyncLink, Link
    from chasqui.wire.keys import Keys

log = logging.getLogger("chasqui.worker")

TIDY_UP_S = 1.0
"""How long a handler that is called off may take to end."""
LAST_WORDS_S = 5.0
"""How long the server may take to hear what became of the last jobs."""


class Consumer:
    """Reads one queue and runs one handler. Made and used within one event loop."""

    def __init__(
        self,
        link: AsyncLink,
        commands: Commands,
        keys: Keys,
        handler: Callable[[Any], Any],
        *,
        consumer_id: str,
        make_job: Callable[..., Any],
        open_link: Callable[[], Link],
        options: Options,
        retry: Retry,
        clock: Clock,
    ) -> None:
        self._link = link
        self._options = options
        self._clock = clock
        self._office = office = Office(commands, keys, options.group, consumer_id)
        lease_ms = options.claim_min_idle_ms
        self._holdings = holdings = Holdings(lease_ms / 1000)
        self._buffer: deque[Delivered] = deque()
        self._teller = Teller(commands, keys, options.events_cap, clock)
        door = Door(make_job, retry, options.max_payload_bytes)
        self._verdicts = Verdicts(link, office, holdings, clock, self._group, self._tell, self._look)
        self._suspects = Suspects(
            link,
            office,
            holdings,
            self._verdicts,
            clock,
            door,
            retry.crash_limit,
            lease_ms,
            self._start_suspect,
        )
        self._outbox = Outbox(link, office, holdings, self._verdicts, clock, self._look)
        self._outcomes = outcomes = Outcomes(
            holdings, self._outbox, self._verdicts, self._suspects, self._teller, retry, options, clock
        )
        self._slots: Slots | Threads
        if makes_coroutines(handler):
            self._slots = Slots(
                handler, options.concurrency, self._buffer, door, holdings, outcomes, self._suspects, clock
            )
        else:
            self._slots = Threads(
                handler, options.concurrency, self._buffer, door, holdings, outcomes, self._suspects, clock
            )
        self._reader = Reader(
            link,
            office,
            holdings,
            self._suspects,
            options,
            clock,
            arrived=self._arrived,
            dried_up=self._dried_up,
            outcomes=outcomes,
        )
        self._housekeeping = Housekeeping(
            link,
            office,
            clock,
            every_ms=options.housekeeping_ms,
            dead_after_ms=max(options.dead_consumer_ms, 2 * lease_ms),  # a lease long the dead are evidence
        )
        beat_ms = options.heartbeat_ms or max(1, lease_ms // 3)
        self._heartbeat = Heartbeat(
            open_link, office, holdings, clock, beat_ms / 1000, asyncio.get_running_loop()
        )
        self._changed = asyncio.Event()

    @property
    def states(self) -> list[LoopState]:
        """How the loops are."""
        parts = (self._reader, self._outbox, self._verdicts, self._suspects, self._housekeeping)
        return [*(part.state for part in parts), self._heartbeat.state]

    @property
    def done(self) -> int:
        """How many runs came to an end, and how many entries were refused at the door."""
        return self._outcomes.done

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop, or until there is nothing left in burst mode; then end what is under way.

        Cancelled, it calls the handlers off at once.
        """
        await self._begin()
        quiet, silent = asyncio.Event(), asyncio.Event()
        loops = [
            asyncio.create_task(part.run(event), name=f"chasqui {part.state.name}")
            for part, event in (
                (self._reader, quiet),
                (self._suspects, quiet),
                (self._housekeeping, quiet),
                (self._verdicts, silent),
                (self._outbox, silent),
            )
        ]
        self._heartbeat.start()
        patience_s = 0.0
        try:
            await self._until(stop)
            patience_s = self._options.shutdown_timeout_s
        finally:
            quiet.set()
            await self._wind_up(loops[:3], patience_s)
            silent.set()
            self._verdicts.ring()
            self._outbox.stop()
            await asyncio.gather(*loops[3:])
            self._heartbeat.stop()
            await asyncio.to_thread(self._heartbeat.join)
            await self._leave()

    async def _begin(self) -> None:
        """See that there is a group. Who may not make one can read one that is there; else the reader will tell."""
        try:
            await self._link.run(self._group())
        except AuthRefused as error:
            if error.code != "NOPERM":
                raise
            log.warning("the group cannot be made here: %s (%s)", error, error.hint)

    async def _until(self, stop: asyncio.Event) -> None:
        if not self._options.burst:
            await stop.wait()
        while not stop.is_set() and not self._is_idle:
            self._changed.clear()
            await waited(self._changed, 0.1)

    @property
    def _is_idle(self) -> bool:
        return self._reader.is_dry and not self._holdings.load and not self._unsettled

    @property
    def _unsettled(self) -> int:
        return self._outbox.open + self._verdicts.open

    async def _wind_up(self, reading: Sequence[asyncio.Task[None]], patience_s: float) -> None:
        """Read no more, give back what was not started, and let what runs come to its end if it can in time."""
        self._reader.stop()
        self._suspects.ring()
        await asyncio.gather(*reading)
        self._give_back_unstarted()
        await self._give_back_strays()
        await self._until_true(lambda: not self._holdings.load, patience_s)
        if self._holdings.load:
            log.warning("%d handlers did not end within %.0f s", self._holdings.load, patience_s)
        await self._slots.abandon(TIDY_UP_S)
        self._give_back_unstarted()
        await self._until_true(lambda: not self._unsettled, LAST_WORDS_S)

    def _give_back_unstarted(self) -> None:
        unstarted = self._suspects.given_up()
        while self._buffer:
            row, _ = self._buffer.popleft()
            unstarted[row[0]] = row[3] if len(row) > 2 else 0
        if unstarted:
            self._holdings.load -= len(unstarted)
            self._verdicts.add(HandBack(unstarted))

    async def _until_true(self, holds: Callable[[], bool], seconds: float) -> None:
        end = self._clock.mono() + seconds
        while not holds() and (left := end - self._clock.mono()) > 0:
            self._changed.clear()
            await waited(self._changed, min(left, 0.1))

    async def _give_back_strays(self) -> None:
        """What was delivered to us just now and did not arrive any more."""
        try:
            await self._reader.give_back_strays()
        except ServerError as error:
            log.info("entries that were on their way to us are left to their lease: %s", error)

    async def _leave(self) -> None:
        """Take our name off the list, if nothing is pending in it."""
        await self._give_back_strays()
        try:
            await self._link.run(_gone(self._office))
        except ServerError as error:
            log.info("left without a farewell: %s", error)

    def _arrived(self, rows: Sequence[Row], batch: Batch) -> None:
        self._teller.set_clock()
        self._buffer.extend(zip(rows, repeat(batch)))
        self._slots.wake()

    def _start_suspect(self, delivered: Delivered) -> None:
        self._buffer.appendleft(delivered)
        self._slots.wake()

    def _tell(self, event: Event) -> None:
        self._outcomes.tell(event)

    def _look(self) -> None:
        """Something was sent or settled: there may be room for more, or nothing left to do."""
        self._reader.refill()
        self._dried_up()

    def _dried_up(self) -> None:
        """There was nothing to read. The queue is drained once nothing runs or is to be moved any more either."""
        if self._reader.drained_due and not self._holdings.load and not self._verdicts.open:
            self._reader.drained_due = False
            self._tell(Event(event_entry.DRAINED, None, self._clock.now_ms()))
        self._changed.set()

    def _group(self) -> Flow[bool]:
        return self._office.commands.ensure_group(self._office.keys, self._office.group)


def makes_coroutines(handler: Callable[[Any], Any]) -> bool:
    """Whether calling it makes a coroutine, also for objects and partial functions.

    A plain function that answers something to be awaited is one too, but that is only known when it has run: it runs
    in a thread like any plain function, and what it answers is awaited here.
    """
    call = getattr(handler, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _gone(office: Office) -> Flow[None]:
    yield [office.commands.drop_consumers(office.keys, office.group, [office.consumer])]
