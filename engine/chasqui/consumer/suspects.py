"""Jobs that were delivered before without an outcome: one of them may have taken its worker down.

They are held back and let go one after the other, and their deliveries are counted here: one more right before each
start, none for having been claimed. So the job that kills workers uses its chances up alone, and those that merely
waited or ran beside it lose none. Before one is buried for its crashes, the other dead are looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from chasqui import attempts
from chasqui.consumer.verdicts import HandBack, waited
from chasqui.errors import ServerError
from chasqui.loops import Loop, Turn
from chasqui.server.commands import Consumer, time_ms
from chasqui.server.commands.entries import RELEASED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consumer.arrivals import Door
    from chasqui.consumer.holdings import Batch, Holdings, Row
    from chasqui.consumer.verdicts import Office, Verdicts
    from chasqui.loops import LoopState
    from chasqui.server.call import Flow
    from chasqui.server.link import AsyncLink

log = logging.getLogger("chasqui.worker")

HELD = 64
"""More than these are given to others at once."""
FEW = 16
"""With fewer than these, abandoned entries are asked for again."""
APART_S = 0.01
"""A suspect that has lived so long lets the next one start, unless both are at their last chance: what kills at once
kills alone, and a hundred jobs of a dead worker still run again within a second."""

Delivered = tuple["Row", "Batch"]


class Suspects:
    """The lane in which suspects wait. `start` hands one to the slots."""

    def __init__(
        self,
        link: AsyncLink,
        office: Office,
        holdings: Holdings,
        verdicts: Verdicts,
        clock: Clock,
        door: Door,
        crash_limit: int,
        lease_ms: int,
        start: Callable[[Delivered], None],
    ) -> None:
        self._link = link
        self._office = office
        self._holdings = holdings
        self._verdicts = verdicts
        self._clock = clock
        self._door = door
        self._crash_limit = crash_limit
        self._last_chance = crash_limit - 1
        self._lease_ms = lease_ms
        self._start = start
        self._waiting: deque[Delivered] = deque()
        self._running: dict[bytes, int] = {}
        self._last_start = 0.0
        self._bell = asyncio.Event()
        self._bell.set()
        self._loop = Loop("suspects", clock)

    @property
    def state(self) -> LoopState:
        """How it is."""
        return self._loop.state

    @property
    def has_room(self) -> bool:
        """Whether more of them may be asked for."""
        return len(self._waiting) < FEW

    def arrived(self, rows: Sequence[Row], batch: Batch) -> None:
        """Hold them; those that are too many go to others."""
        self._loop.count("arrived", len(rows))
        kept = max(0, HELD - len(self._waiting))
        self._waiting += [(row, batch) for row in rows[:kept]]
        if rows[kept:]:
            self._holdings.load -= len(rows[kept:])
            self._verdicts.add(HandBack({row[0]: row[3] for row in rows[kept:]}))
        self._bell.set()

    async def confirmed(self, row: Row, job: Any) -> bool:
        """A suspect is about to run, and that counts. False when it is no longer ours, or when the server cannot be
        asked; then it goes back as it came.
        """
        entry_id, before = row[0], row[3]
        try:
            if await self._link.run(recounted(self._office, {entry_id: before + 1})):
                return True
            log.info("job %s was taken over by another worker before it started", job.id)
        except ServerError as error:
            log.warning("job %s is not started: %s", job.id, error)
        self._verdicts.add(HandBack({entry_id: before}))
        self._holdings.load -= 1
        self.ended(entry_id)
        return False

    def ended(self, entry_id: bytes) -> None:
        """One has come to an end: the next may start."""
        self._running.pop(entry_id, None)
        self._door.spared.discard(entry_id)
        self._bell.set()

    def given_up(self) -> dict[bytes, int]:
        """All that wait, and how many deliveries of each count: the worker leaves."""
        left, self._waiting = self._waiting, deque()
        return {row[0]: row[3] for row, _ in left}

    def ring(self) -> None:
        """Wake the loop."""
        self._bell.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Let them go, one after the other, until told to stop."""
        await self._loop.run(self.turn, stop)

    async def turn(self) -> Turn:
        """Start whoever may start; none whose last start it was without a look at the other dead."""
        await waited(self._bell)
        self._bell.clear()
        while self._waiting and self._may_start():
            if self._waiting[0][0][3] >= self._crash_limit:
                await self._hear(self._waiting[0][0])
            if self._waiting:  # else all were given up meanwhile
                self._let_go()
        return Turn()

    async def _hear(self, row: Row) -> None:
        """Spare the job if it may be a bystander."""
        entry_id, starts = row[0], row[3]
        deaths = await self._link.run(deaths_since(self._office, entry_id, self._lease_ms))
        if attempts.is_in_doubt(starts, deaths, self._crash_limit):
            log.warning(
                "entry %s was started %d times and never ended, but %d workers died meanwhile: it starts again",
                entry_id.decode(),
                starts,
                deaths,
            )
            self._door.spared.add(entry_id)

    def _may_start(self) -> bool:
        deliveries = self._waiting[0][0][3]
        if not self._running:
            return True
        if deliveries >= self._last_chance and max(self._running.values()) >= self._last_chance:
            return False
        left = self._last_start + APART_S - self._clock.mono()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._bell.set)
        return left <= 0

    def _let_go(self) -> None:
        delivered = self._waiting.popleft()
        row = delivered[0]
        self._running[row[0]] = row[3]
        self._last_start = self._clock.mono()
        self._start(delivered)


def recounted(office: Office, deliveries: dict[bytes, int]) -> Flow[list[bytes]]:
    """Say how many deliveries of each entry count; answers those that are still ours."""
    [mine] = yield [office.commands.recount(office.keys, office.group, office.consumer, deliveries)]
    return list(mine)


def deaths_since(office: Office, entry_id: bytes, lease_ms: int) -> Flow[int]:
    """How many consumers fell silent for longer than a lease since this entry was added. Who leaves in peace takes
    his name along.
    """
    reply, clock = yield [
        office.commands.consumers(office.keys, office.group),
        office.commands.server_time(),
    ]
    if isinstance(reply, ServerError):
        raise reply
    age_ms = time_ms(clock) - int(entry_id.partition(b"-")[0])
    return sum(
        lease_ms < row.idle_ms < age_ms for row in Consumer.list_of(reply) if row.name != RELEASED.encode()
    )
