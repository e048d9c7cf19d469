"""Asks for entries: as many as will be needed soon, the next ones while those before are worked on.

What an entry holds is not looked at here, and nothing is settled.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from chasqui.consume.settlements import wait_for_event
from chasqui.errors import AuthRefused, ServerError
from chasqui.server.commands import PendingEntry
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.crash_suspects import CrashSuspects
    from chasqui.consume.held_entries import EntryLease, EntryRow, HeldEntries
    from chasqui.consume.outcomes import OutcomeHandler
    from chasqui.consume.settlements import ConsumerIdentity
    from chasqui.defaults import WorkerOptions
    from chasqui.server.commands.entry_commands import ReadRequest
    from chasqui.server.flow import Flow, Reply
    from chasqui.server.link import AsyncLink
    from chasqui.server.pipelined_connection import PipelinedConnection
    from chasqui.supervision.supervisor import LoopState

MAX_READS_IN_FLIGHT = 2
MAX_READ_COUNT = 256
MAX_READ_AHEAD = 1024
MAX_UNACKNOWLEDGED = 512
"""With more than so many acknowledgements on their way it is the server that is behind: giving us more would not help,
and what is to be said about them would pile up here."""
MEASURE_EVERY_S = 0.01
MEASURE_AFTER_JOBS = 64
OVERHEAD_PER_JOB_S = 0.00001
SIZE_SAMPLE = 4
PAGE_SIZE = 1000
CLAIM_INTERVAL_MS = 250
"""How often to look for entries that others left: a read that waits for new ones waits no longer than this."""

CLAIM_RETRY_S = 5.0
"""Who may not look for what others left looks again after so long, and reads what is new meanwhile."""


class EntryReader:
    """One line to the server that carries nothing but reads. `arrived` is given new entries, suspects go apart."""

    def __init__(
        self,
        link: AsyncLink,
        office: ConsumerIdentity,
        holdings: HeldEntries,
        suspects: CrashSuspects,
        options: WorkerOptions,
        clock: Clock,
        arrived: Callable[[Sequence[EntryRow], EntryLease], None],
        dried_up: Callable[[], None],
        outcomes: OutcomeHandler,
    ) -> None:
        self._link = link
        self._office = office
        self._holdings = holdings
        self._suspects = suspects
        self._options = options
        self._clock = clock
        self._arrived = arrived
        self._dried_up = dried_up
        self._outcomes = outcomes
        self._pace = ReadAhead(options, clock, outcomes)
        self._ready, self._new = self._read_commands()
        self._claim_due = 0.0
        self._line: PipelinedConnection | None = None
        self._in_flight = 0
        self._promised = 0
        self._flowing = False
        self._stopping = False
        self._trouble = asyncio.Event()
        self._problem: ServerError | None = None
        self._began = clock.monotonic()
        self._asyncio = asyncio.get_running_loop()
        self._loop = SupervisedLoop("reader", clock, heal=self._recover)
        self.drained_event_due = False
        self.is_empty = False

    @property
    def state(self) -> LoopState:
        """How it is."""
        return self._loop.state

    async def run(self, stop: asyncio.Event) -> None:
        """Read until told to stop."""
        try:
            await self._loop.run(self.turn, stop)
        finally:
            await self._disconnect()

    def stop(self) -> None:
        """Ask for no more."""
        self._stopping = True
        self._trouble.set()

    async def turn(self) -> TurnResult:
        """Open the line if there is none, then look after it for a while."""
        if self._line is None:
            await self._open()
            self.refill()
            return TurnResult()
        await wait_for_event(self._trouble)
        if self._line:
            self._line.check_timeout()
        if self._problem:
            await self._disconnect()
            raise self._problem
        return TurnResult()

    def refill(self) -> None:
        """Ask for what there is room for. Called whenever there may be more room."""
        while self._line and self._in_flight < MAX_READS_IN_FLIGHT and not self._stopping:
            limit = self._pace.limit()
            behind = max(0, self._outcomes.unacknowledged - MAX_UNACKNOWLEDGED)
            room = limit - self._holdings.unfinished - self._promised - behind
            if room <= 0 or (self._in_flight and (not self._flowing or room < limit // 4)):
                return
            half = -(-room // 2) if self._flowing and not self._in_flight and limit > 8 else room
            self._request(self._line, min(half, self._options.read_count or MAX_READ_COUNT))

    def _request(self, line: PipelinedConnection, count: int) -> None:
        asked = self._clock.monotonic()
        read = self._new
        if asked >= self._claim_due and self._suspects.has_room:
            read, self._claim_due = self._ready, asked + CLAIM_INTERVAL_MS / 1000
        self._in_flight += 1
        self._promised += count
        self.is_empty = False

        def told(reply: Reply) -> None:
            if line is self._line:
                self._in_flight -= 1
                self._promised -= count
                self._on_reply(read, reply, asked, count)

        line.call(read.call(count), told)

    def _on_reply(self, read: ReadRequest, reply: Reply, asked: float, count: int) -> None:
        if isinstance(reply, ServerError):
            if isinstance(reply, AuthRefused) and read is self._ready:
                self._claim_due = self._clock.monotonic() + CLAIM_RETRY_S
            self._fail(reply)
        elif rows := read.rows(reply):
            self._accept(rows, asked)
            if len(rows) < count:
                # Nothing else waits, so there is no hurry to ask for more: what has come should start first.
                self._asyncio.call_soon(self.refill)
            else:
                self.refill()
        elif self._options.burst and read is self._new and self._suspects.has_room:
            # Nothing new: before that means nothing at all, what others left is asked for.
            self._claim_due = 0.0
            self.refill()
        else:
            self.drained_event_due = self.drained_event_due or self._flowing
            self._flowing = False
            self.is_empty = True
            if not self._options.burst:
                self.refill()  # in a burst no read waits, and the next one has time until a job has ended
            self._dried_up()

    def _accept(self, rows: Sequence[EntryRow], asked: float) -> None:
        self._flowing = True
        self.is_empty = self.drained_event_due = False
        if len(rows[0]) > 2 and rows[0][2]:
            self._claim_due = 0.0  # abandoned ones: there may be more
        suspects = [row for row in rows if row[3]] if len(rows[0]) > 2 else []
        if suspects:
            rows = [row for row in rows if not row[3]]
            self._accept_own([row for row in suspects if row[0] in self._holdings.leases])
            suspects = [row for row in suspects if row[0] not in self._holdings.leases]
        if suspects:
            self._suspects.add(suspects, self._holdings.add(suspects, asked))
        if rows:
            self._pace.learn_sizes(rows)
            self._arrived(rows, self._holdings.add(rows, asked))

    def _accept_own(self, rows: Sequence[EntryRow]) -> None:
        """Our own lease had lapsed and nobody else came: we hold these already, and go on."""
        if rows:
            self._loop.count("lapsed", len(rows))
            self._holdings.lost.difference_update([row[0] for row in rows])

    async def _open(self) -> None:
        again = self._problem is not None
        if again:  # before there is a line: when the server refuses, the next turn must begin here again
            with suppress(AuthRefused):  # who may not look leaves them to their lease; it is told elsewhere
                await self.release_strays()
        line = await self._link.pipelined_connection(self._office.keys.stream, refresh_route=again)
        line.on_lost = self._fail
        self._line, self._problem = line, None
        self._in_flight = self._promised = 0
        self._trouble.clear()

    async def release_strays(self) -> None:
        """Entries that were delivered to us but never arrived go to others, and this delivery does not count."""
        since_ms = int((self._clock.monotonic() - self._began) * 1000)
        await self._link.run(_release_strays(self._office, self._holdings, since_ms))

    def _fail(self, error: ServerError) -> None:
        self._problem = self._problem or error
        self._trouble.set()

    async def _disconnect(self) -> None:
        line, self._line = self._line, None
        self._in_flight = self._promised = 0
        if line:
            await line.close()

    async def _recover(self) -> None:
        office = self._office
        await self._link.run(office.commands.ensure_group(office.keys, office.group))

    def _read_commands(self) -> tuple[ReadRequest, ReadRequest]:
        """How to ask. No wait is longer than a third of a lease: it would eat up what is surely ours."""
        office, options = self._office, self._options
        longest_ms = min(options.read_block_ms, options.claim_min_idle_ms // 3, CLAIM_INTERVAL_MS)
        who = (office.keys, office.group, office.consumer)
        return (
            office.commands.read_ready(*who, claim_idle_ms=options.claim_min_idle_ms),
            office.commands.read_new(*who, block_ms=None if options.burst else max(1, longest_ms)),
        )


class ReadAhead:
    """How many entries to hold: as many as there are slots, and what will be done within `prefetch_ms`.

    That is reckoned from how fast jobs went through lately, or from how long they took if that promises more: a slow
    server should not make us ask for less. What a job costs besides its handler is `BESIDES_S`.
    """

    def __init__(self, options: WorkerOptions, clock: Clock, outcomes: OutcomeHandler) -> None:
        self._options = options
        self._mono = clock.monotonic
        self._outcomes = outcomes
        self._measured, self._done, self._busy_s = clock.monotonic(), 0, 0.0
        self._ahead = 0
        self._bytes = 0.0

    def limit(self) -> int:
        """How many may be held right now."""
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
        """Remember about how large entries are."""
        sample = rows[:SIZE_SAMPLE]
        size = sum(sum(map(len, row[1])) for row in sample) / len(sample)
        self._bytes += (size - self._bytes) / 4 if self._bytes else size


def _release_strays(office: ConsumerIdentity, holdings: HeldEntries, since_ms: int) -> Flow[None]:
    """What was pending before we began belongs to an earlier life under the same name: that one may have crashed.

    A first delivery that did not arrive counts nothing; a claim has raised no count, so there is none to take back.
    """
    after = None
    while True:
        [rows] = yield [
            office.commands.pending_page(office.keys, office.group, PAGE_SIZE, after=after, consumer=office.consumer)
        ]
        pending = PendingEntry.list_from_reply(rows)
        strays = {
            entry.entry_id: entry.deliveries if entry.deliveries > 1 else 0
            for entry in pending
            if entry.entry_id not in holdings.leases and entry.idle_ms < since_ms
        }
        if strays:
            yield [office.commands.release(office.keys, office.group, office.consumer, strays)]
        if len(pending) < PAGE_SIZE:
            return
        after = pending[-1].entry_id
