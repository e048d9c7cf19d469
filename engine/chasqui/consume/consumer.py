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

from chasqui.consume.async_slots import AsyncSlots
from chasqui.consume.cleanup import ConsumerCleanup
from chasqui.consume.crash_suspects import CrashSuspects
from chasqui.consume.entry_checks import Admission
from chasqui.consume.event_encoder import EventEncoder
from chasqui.consume.held_entries import HeldEntries
from chasqui.consume.lease_renewal import Heartbeat
from chasqui.consume.outbox import Outbox
from chasqui.consume.outcomes import OutcomeHandler
from chasqui.consume.reader import EntryReader
from chasqui.consume.settlements import ConsumerIdentity, EntryRelease, SettlementQueue, wait_for_event
from chasqui.consume.thread_slots import ThreadSlots
from chasqui.errors import AuthRefused, ServerError
from chasqui.wire import event_entry
from chasqui.wire.event_entry import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.crash_suspects import BufferedEntry
    from chasqui.consume.held_entries import EntryLease, EntryRow
    from chasqui.defaults import RetryDefaults
    from chasqui.defaults import WorkerOptions as Options
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink, Link
    from chasqui.supervision.supervisor import LoopState
    from chasqui.wire.keys import Keys

log = logging.getLogger("chasqui.worker")

CANCEL_TIMEOUT_S = 1.0
"""How long a handler that is called off may take to end."""
FINAL_FLUSH_S = 5.0
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
        retry: RetryDefaults,
        clock: Clock,
    ) -> None:
        self._link = link
        self._options = options
        self._clock = clock
        self._office = office = ConsumerIdentity(commands, keys, options.group, consumer_id)
        lease_ms = options.claim_min_idle_ms
        self._holdings = holdings = HeldEntries(lease_ms / 1000)
        self._buffer: deque[BufferedEntry] = deque()
        self._teller = EventEncoder(commands, keys, options.events_cap, clock)
        door = Admission(make_job, retry, options.max_payload_bytes)
        self._verdicts = SettlementQueue(
            link, office, holdings, clock, self._ensure_group, self._emit_event, self._on_progress
        )
        self._suspects = CrashSuspects(
            link,
            office,
            holdings,
            self._verdicts,
            clock,
            door,
            retry.crash_limit,
            lease_ms,
            self._buffer_first,
        )
        self._outbox = Outbox(link, office, holdings, self._verdicts, clock, self._on_progress)
        self._outcomes = outcomes = OutcomeHandler(
            holdings, self._outbox, self._verdicts, self._suspects, self._teller, retry, options, clock
        )
        self._slots: AsyncSlots | ThreadSlots
        if is_async_handler(handler):
            self._slots = AsyncSlots(
                handler, options.concurrency, self._buffer, door, holdings, outcomes, self._suspects, clock
            )
        else:
            self._slots = ThreadSlots(
                handler, options.concurrency, self._buffer, door, holdings, outcomes, self._suspects, clock
            )
        self._reader = EntryReader(
            link,
            office,
            holdings,
            self._suspects,
            options,
            clock,
            arrived=self._on_entries,
            dried_up=self._on_empty_read,
            outcomes=outcomes,
        )
        self._housekeeping = ConsumerCleanup(
            link,
            office,
            clock,
            every_ms=options.cleanup_interval_ms,
            dead_after_ms=max(options.dead_consumer_ms, 2 * lease_ms),  # a lease long the dead are evidence
        )
        beat_ms = options.heartbeat_ms or max(1, lease_ms // 3)
        self._heartbeat = Heartbeat(open_link, office, holdings, clock, beat_ms / 1000, asyncio.get_running_loop())
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
        await self._ensure_group_or_warn()
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
            await self._wait_for_end(stop)
            patience_s = self._options.shutdown_timeout_s
        finally:
            quiet.set()
            await self._drain(loops[:3], patience_s)
            silent.set()
            self._verdicts.wake()
            self._outbox.stop()
            await asyncio.gather(*loops[3:])
            self._heartbeat.stop()
            await asyncio.to_thread(self._heartbeat.join)
            await self._deregister()

    async def _ensure_group_or_warn(self) -> None:
        """See that there is a group. Who may not make one can read one that is there; else the reader will tell."""
        try:
            await self._link.run(self._ensure_group())
        except AuthRefused as error:
            if error.code != "NOPERM":
                raise
            log.warning("the group cannot be made here: %s (%s)", error, error.hint)

    async def _wait_for_end(self, stop: asyncio.Event) -> None:
        if not self._options.burst:
            await stop.wait()
        while not stop.is_set() and not self._is_idle:
            self._changed.clear()
            await wait_for_event(self._changed, 0.1)

    @property
    def _is_idle(self) -> bool:
        return self._reader.is_empty and not self._holdings.unfinished and not self._unsettled

    @property
    def _unsettled(self) -> int:
        return self._outbox.unanswered + self._verdicts.unsettled

    async def _drain(self, reading: Sequence[asyncio.Task[None]], patience_s: float) -> None:
        """Read no more, give back what was not started, and let what runs come to its end if it can in time."""
        self._reader.stop()
        self._suspects.wake()
        await asyncio.gather(*reading)
        self._release_unstarted()
        await self._release_strays()
        await self._wait_until(lambda: not self._holdings.unfinished, patience_s)
        if self._holdings.unfinished:
            log.warning("%d handlers did not end within %.0f s", self._holdings.unfinished, patience_s)
        await self._slots.stop(CANCEL_TIMEOUT_S)
        self._release_unstarted()
        await self._wait_until(lambda: not self._unsettled, FINAL_FLUSH_S)

    def _release_unstarted(self) -> None:
        unstarted = self._suspects.drain()
        while self._buffer:
            row, _ = self._buffer.popleft()
            unstarted[row[0]] = row[3] if len(row) > 2 else 0
        if unstarted:
            self._holdings.unfinished -= len(unstarted)
            self._verdicts.add(EntryRelease(unstarted))

    async def _wait_until(self, holds: Callable[[], bool], seconds: float) -> None:
        end = self._clock.monotonic() + seconds
        while not holds() and (left := end - self._clock.monotonic()) > 0:
            self._changed.clear()
            await wait_for_event(self._changed, min(left, 0.1))

    async def _release_strays(self) -> None:
        """What was delivered to us just now and did not arrive any more."""
        try:
            await self._reader.release_strays()
        except ServerError as error:
            log.info("entries that were on their way to us are left to their lease: %s", error)

    async def _deregister(self) -> None:
        """Take our name off the list, if nothing is pending in it."""
        await self._release_strays()
        try:
            await self._link.run(_remove_consumer(self._office))
        except ServerError as error:
            log.info("left without a farewell: %s", error)

    def _on_entries(self, rows: Sequence[EntryRow], batch: EntryLease) -> None:
        self._teller.sync_clock()
        self._buffer.extend(zip(rows, repeat(batch)))
        self._slots.wake()

    def _buffer_first(self, delivered: BufferedEntry) -> None:
        self._buffer.appendleft(delivered)
        self._slots.wake()

    def _emit_event(self, event: Event) -> None:
        self._outcomes.send_event(event)

    def _on_progress(self) -> None:
        """Something was sent or settled: there may be room for more, or nothing left to do."""
        self._reader.refill()
        self._on_empty_read()

    def _on_empty_read(self) -> None:
        """There was nothing to read. The queue is drained once nothing runs or is to be moved any more either."""
        if self._reader.drained_event_due and not self._holdings.unfinished and not self._verdicts.unsettled:
            self._reader.drained_event_due = False
            self._emit_event(Event(event_entry.DRAINED, None, self._clock.now_ms()))
        self._changed.set()

    def _ensure_group(self) -> Flow[bool]:
        return self._office.commands.ensure_group(self._office.keys, self._office.group)


def is_async_handler(handler: Callable[[Any], Any]) -> bool:
    """Whether calling it makes a coroutine, also for objects and partial functions.

    A plain function that answers something to be awaited is one too, but that is only known when it has run: it runs
    in a thread like any plain function, and what it answers is awaited here.
    """
    call = getattr(handler, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _remove_consumer(office: ConsumerIdentity) -> Flow[None]:
    yield [office.commands.drop_consumers(office.keys, office.group, [office.consumer])]
