"""A job's stay in the worker: read, checked, run, and settled. `Consumer` connects the parts.

A read fills the buffer (`reader.py`); entries that were delivered before wait apart (`crash_suspects.py`). The slots take
entries from the buffer, check them (`entry_checks.py`) and run the handler. `outcomes.py` decides what follows: events and
acknowledgements go through the outbox, everything else is a settlement. `consumer_progress.py` starts the next read.

Promoting, scheduling and signals are in `worker.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

from chasqui.consume.async_slots import AsyncSlots
from chasqui.consume.cleanup import ConsumerCleanup
from chasqui.consume.consumer_progress import ConsumerProgress
from chasqui.consume.crash_suspects import CrashSuspects
from chasqui.consume.entry_checks import Admission
from chasqui.consume.event_encoder import EventEncoder
from chasqui.consume.held_entries import ID, HeldEntries, JobBuffer, counted_starts
from chasqui.consume.identity import ConsumerIdentity
from chasqui.consume.lease_renewal import Heartbeat, renewal_interval_ms
from chasqui.consume.outbox import Outbox
from chasqui.consume.outcomes import OutcomeHandler
from chasqui.consume.reader import EntryReader
from chasqui.consume.settlements import EntryRelease, SettlementQueue
from chasqui.consume.thread_slots import ThreadSlots
from chasqui.errors import AuthRefused, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.defaults import RetryDefaults
    from chasqui.defaults import WorkerOptions as Options
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink, Link
    from chasqui.supervision.supervisor import LoopState
    from chasqui.wire.keys import Keys

log = logging.getLogger("chasqui.worker")

CANCEL_TIMEOUT_S = 1.0
"""How long a cancelled handler may take to end."""
FINAL_FLUSH_S = 5.0
"""How long the server may take to settle the last jobs."""


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
        lease_ms = options.claim_min_idle_ms
        self._identity = identity = ConsumerIdentity(commands, keys, options.group, consumer_id)
        self._held = held = HeldEntries(lease_ms / 1000)
        self._buffer = buffer = JobBuffer()
        self._progress = progress = ConsumerProgress(held, clock)
        encoder = EventEncoder(commands, keys, options.events_cap, clock)
        admission = Admission(make_job, retry, options.max_payload_bytes)
        self._settlements = settlements = SettlementQueue(link, identity, held, clock, progress)
        self._outbox = outbox = Outbox(link, identity, held, settlements, clock, progress)
        self._suspects = suspects = CrashSuspects(
            link, identity, held, settlements, clock, admission, retry.crash_limit, lease_ms, buffer
        )
        self._outcomes = outcomes = OutcomeHandler(held, outbox, settlements, suspects, encoder, retry, options, clock)
        slots = AsyncSlots if is_async_handler(handler) else ThreadSlots
        self._slots = slots(handler, options.concurrency, buffer, admission, held, outcomes, suspects, clock)
        self._reader = EntryReader(link, identity, held, suspects, options, clock, buffer, progress, outcomes, encoder)
        progress.connect(self._reader, outcomes, settlements)
        self._cleanup = ConsumerCleanup(
            link,
            identity,
            clock,
            every_ms=options.cleanup_interval_ms,
            dead_after_ms=max(options.dead_consumer_ms, 2 * lease_ms),  # for a lease the dead ones count as crashes
        )
        renew_s = (options.heartbeat_ms or renewal_interval_ms(lease_ms)) / 1000
        self._heartbeat = Heartbeat(open_link, identity, held, clock, renew_s, asyncio.get_running_loop())

    @property
    def states(self) -> list[LoopState]:
        parts = (self._reader, self._outbox, self._settlements, self._suspects, self._cleanup, self._heartbeat)
        return [part.state for part in parts]

    @property
    def done(self) -> int:
        """How many runs have ended, and how many entries were rejected."""
        return self._outcomes.done

    async def run(self, stop: asyncio.Event) -> None:
        """Work until stopped, or until there is nothing left in burst mode; then let what runs end.

        Cancelled, it cancels the handlers at once.
        """
        await self._ensure_group_or_warn()
        stop_reading, stop_settling = asyncio.Event(), asyncio.Event()
        loops = [
            asyncio.create_task(part.run(event), name=f"chasqui {part.state.name}")
            for part, event in (
                (self._reader, stop_reading),
                (self._suspects, stop_reading),
                (self._cleanup, stop_reading),
                (self._settlements, stop_settling),
                (self._outbox, stop_settling),
            )
        ]
        self._heartbeat.start()
        timeout_s = 0.0
        try:
            await self._wait_for_end(stop)
            timeout_s = self._options.shutdown_timeout_s
        finally:
            stop_reading.set()
            await self._drain(loops[:3], timeout_s)
            stop_settling.set()
            self._settlements.wake()
            self._outbox.wake()
            await asyncio.gather(*loops[3:])
            self._heartbeat.stop()
            await asyncio.to_thread(self._heartbeat.join)
            await self._deregister()

    async def _ensure_group_or_warn(self) -> None:
        """Create the group if it is missing. Without the right to do so an existing one can be read all the same; if
        there is none, the reader reports it.
        """
        try:
            await self._link.run(self._identity.ensure_group())
        except AuthRefused as error:
            if error.code != "NOPERM":
                raise
            log.warning("the group cannot be made here: %s (%s)", error, error.hint)

    async def _wait_for_end(self, stop: asyncio.Event) -> None:
        if self._options.burst:
            await self._progress.wait_until(lambda: stop.is_set() or self._is_idle)
        else:
            await stop.wait()

    @property
    def _is_idle(self) -> bool:
        return self._reader.is_empty and not self._held.unfinished and not self._unsettled

    @property
    def _unsettled(self) -> int:
        return self._outbox.unanswered + self._settlements.unsettled

    async def _drain(self, reading: Sequence[asyncio.Task[None]], timeout_s: float) -> None:
        """Stop reading, give back what was not started, and let what runs end in this time if it can."""
        self._reader.stop()
        self._suspects.wake()
        await asyncio.gather(*reading)
        self._release_unstarted()
        await self._release_strays()
        await self._progress.wait_until(lambda: not self._held.unfinished, timeout_s)
        if self._held.unfinished:
            log.warning("%d handlers did not end within %.0f s", self._held.unfinished, timeout_s)
        await self._slots.stop(CANCEL_TIMEOUT_S)
        self._release_unstarted()
        await self._progress.wait_until(lambda: not self._unsettled, FINAL_FLUSH_S)

    def _release_unstarted(self) -> None:
        unstarted = self._suspects.drain()
        while self._buffer:
            row, _ = self._buffer.popleft()
            unstarted[row[ID]] = counted_starts(row)
        if unstarted:
            self._held.finish(len(unstarted))
            self._settlements.add(EntryRelease(unstarted))

    async def _release_strays(self) -> None:
        """Give back what was delivered to us at the end but never arrived."""
        try:
            await self._reader.release_strays()
        except ServerError as error:
            log.info("entries that were on their way to us are left to their lease: %s", error)

    async def _deregister(self) -> None:
        """Remove our name from the group, if nothing is pending in it."""
        await self._release_strays()
        try:
            await self._link.run(_remove_consumer(self._identity))
        except ServerError as error:
            log.info("left without a farewell: %s", error)


def is_async_handler(handler: Callable[[Any], Any]) -> bool:
    """Whether calling it makes a coroutine, also for objects and partial functions.

    A plain function that returns an awaitable is one too, but that is only known when it has run: it runs in a thread
    like any plain function, and the awaitable is awaited in the event loop.
    """
    call = getattr(handler, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _remove_consumer(identity: ConsumerIdentity) -> Flow[None]:
    yield [identity.commands.drop_consumers(identity.keys, identity.group, [identity.consumer])]
