"""Reads entries: as many as will be needed soon, the next ones while those before are processed.

The content of an entry is not looked at here, and nothing is settled.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from chasqui.consume.held_entries import FIELDS, ID, IDLE_MS, STARTS
from chasqui.consume.lease_renewal import renewal_interval_ms
from chasqui.consume.loop_part import LoopPart
from chasqui.errors import AuthRefused, ServerError
from chasqui.server.commands import PendingEntry
from chasqui.supervision.supervisor import TurnResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.consume.consumer_progress import ConsumerProgress
    from chasqui.consume.crash_suspects import CrashSuspects
    from chasqui.consume.event_encoder import EventEncoder
    from chasqui.consume.held_entries import EntryRow, HeldEntries, JobBuffer
    from chasqui.consume.identity import ConsumerIdentity
    from chasqui.consume.outcomes import OutcomeHandler
    from chasqui.defaults import WorkerOptions
    from chasqui.server.commands.entry_commands import ReadRequest
    from chasqui.server.flow import Flow, Reply
    from chasqui.server.link import AsyncLink
    from chasqui.server.pipelined_connection import PipelinedConnection

MAX_READS_IN_FLIGHT = 2
MAX_READ_COUNT = 256
MAX_READ_AHEAD = 1024
MAX_UNACKNOWLEDGED = 512
"""With more acknowledgements than this on their way the server is behind: more entries would not help, and their
acknowledgements would pile up here."""
MEASURE_EVERY_S = 0.01
MEASURE_AFTER_JOBS = 64
OVERHEAD_PER_JOB_S = 0.00001
SIZE_SAMPLE = 4
PAGE_SIZE = 1000
CLAIM_INTERVAL_MS = 250
"""How often to look for abandoned entries: a read that waits for new ones waits no longer than this."""

CLAIM_RETRY_S = 5.0
"""If the ACL forbids claiming, it is tried again after this time; new entries are read meanwhile."""


class EntryReader(LoopPart):
    """One pipelined connection for reads. New entries go to the buffer, those delivered before to the suspects."""

    def __init__(
        self,
        link: AsyncLink,
        identity: ConsumerIdentity,
        held: HeldEntries,
        suspects: CrashSuspects,
        options: WorkerOptions,
        clock: Clock,
        buffer: JobBuffer,
        progress: ConsumerProgress,
        outcomes: OutcomeHandler,
        encoder: EventEncoder,
    ) -> None:
        super().__init__("reader", link, identity, clock, recovers_group=True)
        self._held = held
        self._suspects = suspects
        self._options = options
        self._buffer = buffer
        self._progress = progress
        self._outcomes = outcomes
        self._encoder = encoder
        self._read_ahead = ReadAhead(options, clock, outcomes)
        self._ready, self._new = self._read_commands()
        self._claim_due = 0.0
        self._connection: PipelinedConnection | None = None
        self._in_flight = 0
        self._requested = 0
        self._flowing = False
        self._stopping = False
        self._error: ServerError | None = None
        self._began = clock.monotonic()
        self._event_loop = asyncio.get_running_loop()
        self.drained_event_due = False
        self.is_empty = False

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await super().run(stop)
        finally:
            await self._disconnect()

    def stop(self) -> None:
        """Read no more."""
        self._stopping = True
        self.wake()

    async def turn(self) -> TurnResult:
        """Open the connection if there is none, then watch it for a while."""
        if self._connection is None:
            await self._open()
            self.refill()
            return TurnResult()
        await self._wait()
        if self._connection:
            self._connection.check_timeout()
        if self._error:
            await self._disconnect()
            raise self._error
        return TurnResult()

    def refill(self) -> None:
        """Read as many as there is room for. Called whenever there may be more room."""
        while self._connection and self._in_flight < MAX_READS_IN_FLIGHT and not self._stopping:
            limit = self._read_ahead.limit()
            behind = max(0, self._outcomes.unacknowledged - MAX_UNACKNOWLEDGED)
            room = limit - self._held.unfinished - self._requested - behind
            if room <= 0 or (self._in_flight and (not self._flowing or room < limit // 4)):
                return
            half = -(-room // 2) if self._flowing and not self._in_flight and limit > 8 else room
            self._request(self._connection, min(half, self._options.read_count or MAX_READ_COUNT))

    def _request(self, connection: PipelinedConnection, count: int) -> None:
        asked = self._clock.monotonic()
        read = self._new
        if asked >= self._claim_due and self._suspects.has_room:
            read, self._claim_due = self._ready, asked + CLAIM_INTERVAL_MS / 1000
        self._in_flight += 1
        self._requested += count
        self.is_empty = False

        def on_reply(reply: Reply) -> None:
            if connection is self._connection:
                self._in_flight -= 1
                self._requested -= count
                self._on_reply(read, reply, asked, count)

        connection.call(read.call(count), on_reply)

    def _on_reply(self, read: ReadRequest, reply: Reply, asked: float, count: int) -> None:
        if isinstance(reply, ServerError):
            if isinstance(reply, AuthRefused) and read is self._ready:
                self._claim_due = self._clock.monotonic() + CLAIM_RETRY_S
            self._fail(reply)
        elif rows := read.rows(reply):
            self._accept(rows, asked)
            if len(rows) < count:
                # Nothing else waits, so what has arrived should start before the next read.
                self._event_loop.call_soon(self.refill)
            else:
                self.refill()
        elif self._options.burst and read is self._new and self._suspects.has_room:
            # Nothing new: look for abandoned entries before the queue counts as empty.
            self._claim_due = 0.0
            self.refill()
        else:
            self.drained_event_due = self.drained_event_due or self._flowing
            self._flowing = False
            self.is_empty = True
            if not self._options.burst:
                self.refill()  # in a burst no read waits, and the next one has time until a job has ended
            self._progress.read_was_empty()

    def _accept(self, rows: Sequence[EntryRow], asked: float) -> None:
        self._flowing = True
        self.is_empty = self.drained_event_due = False
        if len(rows[0]) > IDLE_MS:
            if rows[0][IDLE_MS]:
                self._claim_due = 0.0  # abandoned ones: there may be more
            if suspects := [row for row in rows if row[STARTS]]:
                rows = [row for row in rows if not row[STARTS]]
                self._accept_suspects(suspects, asked)
        if rows:
            self._read_ahead.learn_sizes(rows)
            lease = self._held.add(rows, asked)
            self._encoder.sync_clock()
            self._buffer.add(rows, lease)

    def _accept_suspects(self, rows: Sequence[EntryRow], asked: float) -> None:
        """Those that we hold already go on: our own lease had expired, and no other worker came."""
        if own := [row[ID] for row in rows if row[ID] in self._held.leases]:
            self._loop.count("expired", len(own))
            self._held.lost.difference_update(own)
        if others := [row for row in rows if row[ID] not in self._held.leases]:
            self._suspects.add(others, self._held.add(others, asked))

    async def _open(self) -> None:
        again = self._error is not None
        if again:  # before the connection is set: when the server refuses, the next turn must begin here again
            with suppress(AuthRefused):  # without the right to look they are left to their lease; logged elsewhere
                await self.release_strays()
        connection = await self._link.pipelined_connection(self._identity.keys.stream, refresh_route=again)
        connection.on_lost = self._fail
        self._connection, self._error = connection, None
        self._in_flight = self._requested = 0

    async def release_strays(self) -> None:
        """Entries that were delivered to us but never arrived go to other workers, and this delivery does not count."""
        since_ms = int((self._clock.monotonic() - self._began) * 1000)
        await self._link.run(_release_strays(self._identity, self._held, since_ms))

    def _fail(self, error: ServerError) -> None:
        self._error = self._error or error
        self.wake()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._in_flight = self._requested = 0
        if connection:
            await connection.close()

    def _read_commands(self) -> tuple[ReadRequest, ReadRequest]:
        """A read waits no longer than leases are renewed after: the wait counts against the lease of what it returns."""
        identity, options = self._identity, self._options
        wait_ms = min(options.read_block_ms, renewal_interval_ms(options.claim_min_idle_ms), CLAIM_INTERVAL_MS)
        return (
            identity.commands.read_ready(*identity.settle_args, claim_idle_ms=options.claim_min_idle_ms),
            identity.commands.read_new(*identity.settle_args, block_ms=None if options.burst else max(1, wait_ms)),
        )


class ReadAhead:
    """How many entries to hold: one per slot, and as many as will be done within `prefetch_ms`.

    That is estimated from how many jobs ended lately, or from how long they took if that gives more: a slow server
    should not make us read less. What a job costs apart from its handler is `OVERHEAD_PER_JOB_S`.
    """

    def __init__(self, options: WorkerOptions, clock: Clock, outcomes: OutcomeHandler) -> None:
        self._options = options
        self._mono = clock.monotonic
        self._outcomes = outcomes
        self._measured, self._done, self._busy_s = clock.monotonic(), 0, 0.0
        self._ahead = 0
        self._bytes = 0.0

    def limit(self) -> int:
        """How many may be held now."""
        now, done = self._mono(), self._outcomes.done - self._done
        passed = now - self._measured
        if done and (passed >= MEASURE_EVERY_S or done >= MEASURE_AFTER_JOBS):
            took_s = (self._outcomes.busy_s - self._busy_s) / done
            rate = max(done / passed, 1 / (took_s + OVERHEAD_PER_JOB_S))
            self._ahead = min(MAX_READ_AHEAD, int(rate * self._options.prefetch_ms / 1000))
            self._measured, self._done, self._busy_s = now, self._outcomes.done, self._outcomes.busy_s
        limit = self._options.concurrency + self._ahead
        return limit if not self._bytes else min(limit, max(1, int(self._options.prefetch_bytes / self._bytes)))

    def learn_sizes(self, rows: Sequence[EntryRow]) -> None:
        """Update the estimate of how large an entry is."""
        sample = rows[:SIZE_SAMPLE]
        size = sum(sum(map(len, row[FIELDS])) for row in sample) / len(sample)
        self._bytes += (size - self._bytes) / 4 if self._bytes else size


def _release_strays(identity: ConsumerIdentity, held: HeldEntries, since_ms: int) -> Flow[None]:
    """What was pending before we began belongs to an earlier consumer of this name, which may have crashed: it stays.

    A first delivery that did not arrive does not count; a claim has raised no count, so there is none to lower.
    """
    after = None
    while True:
        [rows] = yield [
            identity.commands.pending_page(
                identity.keys, identity.group, PAGE_SIZE, after=after, consumer=identity.consumer
            )
        ]
        pending = PendingEntry.list_from_reply(rows)
        strays = {
            entry.entry_id: entry.deliveries if entry.deliveries > 1 else 0
            for entry in pending
            if entry.entry_id not in held.leases and entry.idle_ms < since_ms
        }
        if strays:
            yield [identity.commands.release(*identity.settle_args, strays)]
        if len(pending) < PAGE_SIZE:
            return
        after = pending[-1].entry_id
