"""Asks for entries: as many as will be needed soon, the next ones while those before are worked on.

What an entry holds is not looked at here, and nothing is settled.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from chasqui.consumer.verdicts import waited
from chasqui.errors import AuthRefused, ServerError
from chasqui.loops import Loop, Turn
from chasqui.server.commands import PendingEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consumer.holdings import Batch, Holdings, Row
    from chasqui.consumer.outcomes import Outcomes
    from chasqui.consumer.suspects import Suspects
    from chasqui.consumer.verdicts import Office
    from chasqui.loops import LoopState
    from chasqui.options import Worker
    from chasqui.server.call import Flow, Reply
    from chasqui.server.commands.entries import Read
    from chasqui.server.link import AsyncLink
    from chasqui.server.stream_line import StreamLine

IN_FLIGHT = 2
MOST_AT_ONCE = 256
MOST_AHEAD = 1024
MOST_UNSETTLED = 512
"""With more than so many acknowledgements on their way it is the server that is behind: giving us more would not help,
and what is to be said about them would pile up here."""
MEASURE_S = 0.01
ENOUGH = 64
BESIDES_S = 0.00001
SAMPLE = 4
PAGE = 1000
CLAIM_EVERY_MS = 250
"""How often to look for entries that others left: a read that waits for new ones waits no longer than this."""

REFUSED_S = 5.0
"""Who may not look for what others left looks again after so long, and reads what is new meanwhile."""


class Reader:
    """One line to the server that carries nothing but reads. `arrived` is given new entries, suspects go apart."""

    def __init__(
        self,
        link: AsyncLink,
        office: Office,
        holdings: Holdings,
        suspects: Suspects,
        options: Worker,
        clock: Clock,
        arrived: Callable[[Sequence[Row], Batch], None],
        dried_up: Callable[[], None],
        outcomes: Outcomes,
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
        self._pace = Pace(options, clock, outcomes)
        self._ready, self._new = self._ways()
        self._claim_due = 0.0
        self._line: StreamLine | None = None
        self._in_flight = 0
        self._promised = 0
        self._flowing = False
        self._stopping = False
        self._trouble = asyncio.Event()
        self._problem: ServerError | None = None
        self._began = clock.mono()
        self._asyncio = asyncio.get_running_loop()
        self._loop = Loop("reader", clock, heal=self._heal)
        self.drained_due = False
        self.is_dry = False

    @property
    def state(self) -> LoopState:
        """How it is."""
        return self._loop.state

    async def run(self, stop: asyncio.Event) -> None:
        """Read until told to stop."""
        try:
            await self._loop.run(self.turn, stop)
        finally:
            await self._hang_up()

    def stop(self) -> None:
        """Ask for no more."""
        self._stopping = True
        self._trouble.set()

    async def turn(self) -> Turn:
        """Open the line if there is none, then look after it for a while."""
        if self._line is None:
            await self._open()
            self.refill()
            return Turn()
        await waited(self._trouble)
        if self._line:
            self._line.check()
        if self._problem:
            await self._hang_up()
            raise self._problem
        return Turn()

    def refill(self) -> None:
        """Ask for what there is room for. Called whenever there may be more room."""
        while self._line and self._in_flight < IN_FLIGHT and not self._stopping:
            limit = self._pace.limit()
            behind = max(0, self._outcomes.unsettled - MOST_UNSETTLED)
            room = limit - self._holdings.load - self._promised - behind
            if room <= 0 or (self._in_flight and (not self._flowing or room < limit // 4)):
                return
            half = -(-room // 2) if self._flowing and not self._in_flight and limit > 8 else room
            self._ask(self._line, min(half, self._options.read_count or MOST_AT_ONCE))

    def _ask(self, line: StreamLine, count: int) -> None:
        asked = self._clock.mono()
        read = self._new
        if asked >= self._claim_due and self._suspects.has_room:
            read, self._claim_due = self._ready, asked + CLAIM_EVERY_MS / 1000
        self._in_flight += 1
        self._promised += count
        self.is_dry = False

        def told(reply: Reply) -> None:
            if line is self._line:
                self._in_flight -= 1
                self._promised -= count
                self._answered(read, reply, asked, count)

        line.call(read.call(count), told)

    def _answered(self, read: Read, reply: Reply, asked: float, count: int) -> None:
        if isinstance(reply, ServerError):
            if isinstance(reply, AuthRefused) and read is self._ready:
                self._claim_due = self._clock.mono() + REFUSED_S
            self._fail(reply)
        elif rows := read.rows(reply):
            self._take(rows, asked)
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
            self.drained_due = self.drained_due or self._flowing
            self._flowing = False
            self.is_dry = True
            if not self._options.burst:
                self.refill()  # in a burst no read waits, and the next one has time until a job has ended
            self._dried_up()

    def _take(self, rows: Sequence[Row], asked: float) -> None:
        self._flowing = True
        self.is_dry = self.drained_due = False
        if len(rows[0]) > 2 and rows[0][2]:
            self._claim_due = 0.0  # abandoned ones: there may be more
        suspects = [row for row in rows if row[3]] if len(rows[0]) > 2 else []
        if suspects:
            rows = [row for row in rows if not row[3]]
            self._take_again([row for row in suspects if row[0] in self._holdings.held])
            suspects = [row for row in suspects if row[0] not in self._holdings.held]
        if suspects:
            self._suspects.arrived(suspects, self._holdings.take(suspects, asked))
        if rows:
            self._pace.weigh(rows)
            self._arrived(rows, self._holdings.take(rows, asked))

    def _take_again(self, rows: Sequence[Row]) -> None:
        """Our own lease had lapsed and nobody else came: we hold these already, and go on."""
        if rows:
            self._loop.count("lapsed", len(rows))
            self._holdings.lost.difference_update([row[0] for row in rows])

    async def _open(self) -> None:
        again = self._problem is not None
        if again:  # before there is a line: when the server refuses, the next turn must begin here again
            with suppress(AuthRefused):  # who may not look leaves them to their lease; it is told elsewhere
                await self.give_back_strays()
        line = await self._link.line_to(self._office.keys.stream, asked_anew=again)
        line.lost = self._fail
        self._line, self._problem = line, None
        self._in_flight = self._promised = 0
        self._trouble.clear()

    async def give_back_strays(self) -> None:
        """Entries that were delivered to us but never arrived go to others, and this delivery does not count."""
        since_ms = int((self._clock.mono() - self._began) * 1000)
        await self._link.run(_strays_given_back(self._office, self._holdings, since_ms))

    def _fail(self, error: ServerError) -> None:
        self._problem = self._problem or error
        self._trouble.set()

    async def _hang_up(self) -> None:
        line, self._line = self._line, None
        self._in_flight = self._promised = 0
        if line:
            await line.close()

    async def _heal(self) -> None:
        office = self._office
        await self._link.run(office.commands.ensure_group(office.keys, office.group))

    def _ways(self) -> tuple[Read, Read]:
        """How to ask. No wait is longer than a third of a lease: it would eat up what is surely ours."""
        office, options = self._office, self._options
        longest_ms = min(options.read_block_ms, options.claim_min_idle_ms // 3, CLAIM_EVERY_MS)
        who = (office.keys, office.group, office.consumer)
        return (
            office.commands.read_ready(*who, claim_idle_ms=options.claim_min_idle_ms),
            office.commands.read_new(*who, block_ms=None if options.burst else max(1, longest_ms)),
        )


class Pace:
    """How many entries to hold: as many as there are slots, and what will be done within `prefetch_ms`.

    That is reckoned from how fast jobs went through lately, or from how long they took if that promises more: a slow
    server should not make us ask for less. What a job costs besides its handler is `BESIDES_S`.
    """

    def __init__(self, options: Worker, clock: Clock, outcomes: Outcomes) -> None:
        self._options = options
        self._mono = clock.mono
        self._outcomes = outcomes
        self._measured, self._done, self._busy_s = clock.mono(), 0, 0.0
        self._ahead = 0
        self._bytes = 0.0

    def limit(self) -> int:
        """How many may be held right now."""
        now, done = self._mono(), self._outcomes.done - self._done
        passed = now - self._measured
        if done and (passed >= MEASURE_S or done >= ENOUGH):
            took_s = (self._outcomes.busy_s - self._busy_s) / done
            rate = max(done / passed, 1 / (took_s + BESIDES_S))
            self._ahead = min(MOST_AHEAD, int(rate * self._options.prefetch_ms / 1000))
            self._measured, self._done, self._busy_s = now, self._outcomes.done, self._outcomes.busy_s
        limit = self._options.concurrency + self._ahead
        return (
            limit if not self._bytes else min(limit, max(1, int(self._options.prefetch_bytes / self._bytes)))
        )

    def weigh(self, rows: Sequence[Row]) -> None:
        """Remember about how large entries are."""
        sample = rows[:SAMPLE]
        size = sum(sum(map(len, row[1])) for row in sample) / len(sample)
        self._bytes += (size - self._bytes) / 4 if self._bytes else size


def _strays_given_back(office: Office, holdings: Holdings, since_ms: int) -> Flow[None]:
    """What was pending before we began belongs to an earlier life under the same name: that one may have crashed.

    A first delivery that did not arrive counts nothing; a claim has raised no count, so there is none to take back.
    """
    after = None
    while True:
        [rows] = yield [
            office.commands.pending_page(
                office.keys, office.group, PAGE, after=after, consumer=office.consumer
            )
        ]
        pending = PendingEntry.list_of(rows)
        strays = {
            entry.entry_id: entry.deliveries if entry.deliveries > 1 else 0
            for entry in pending
            if entry.entry_id not in holdings.held and entry.idle_ms < since_ms
        }
        if strays:
            yield [office.commands.hand_back(office.keys, office.group, office.consumer, strays)]
        if len(pending) < PAGE:
            return
        after = pending[-1].entry_id
