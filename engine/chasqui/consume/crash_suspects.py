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

from chasqui.consume import attempts
from chasqui.consume.settlements import EntryRelease, wait_for_event
from chasqui.errors import ServerError
from chasqui.server.commands import ConsumerInfo, parse_server_time
from chasqui.server.commands.entry_commands import RELEASED_CONSUMER
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.entry_checks import Admission
    from chasqui.consume.held_entries import EntryLease, EntryRow, HeldEntries
    from chasqui.consume.settlements import ConsumerIdentity, SettlementQueue
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink
    from chasqui.supervision.supervisor import LoopState

log = logging.getLogger("chasqui.worker")

MAX_WAITING = 64
"""More than these are given to others at once."""
REFILL_BELOW = 16
"""With fewer than these, abandoned entries are asked for again."""
START_INTERVAL_S = 0.01
"""A suspect that has lived so long lets the next one start, unless both are at their last chance: what kills at once
kills alone, and a hundred jobs of a dead worker still run again within a second."""

BufferedEntry = tuple["EntryRow", "EntryLease"]


class CrashSuspects:
    """The lane in which suspects wait. `start` hands one to the slots."""

    def __init__(
        self,
        link: AsyncLink,
        office: ConsumerIdentity,
        holdings: HeldEntries,
        verdicts: SettlementQueue,
        clock: Clock,
        door: Admission,
        crash_limit: int,
        lease_ms: int,
        start: Callable[[BufferedEntry], None],
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
        self._waiting: deque[BufferedEntry] = deque()
        self._running: dict[bytes, int] = {}
        self._last_start = 0.0
        self._bell = asyncio.Event()
        self._bell.set()
        self._loop = SupervisedLoop("suspects", clock)

    @property
    def state(self) -> LoopState:
        """How it is."""
        return self._loop.state

    @property
    def has_room(self) -> bool:
        """Whether more of them may be asked for."""
        return len(self._waiting) < REFILL_BELOW

    def add(self, rows: Sequence[EntryRow], batch: EntryLease) -> None:
        """Hold them; those that are too many go to others."""
        self._loop.count("arrived", len(rows))
        kept = max(0, MAX_WAITING - len(self._waiting))
        self._waiting += [(row, batch) for row in rows[:kept]]
        if rows[kept:]:
            self._holdings.unfinished -= len(rows[kept:])
            self._verdicts.add(EntryRelease({row[0]: row[3] for row in rows[kept:]}))
        self._bell.set()

    async def confirm_start(self, row: EntryRow, job: Any) -> bool:
        """A suspect is about to run, and that counts. False when it is no longer ours, or when the server cannot be
        asked; then it goes back as it came.
        """
        entry_id, before = row[0], row[3]
        try:
            if await self._link.run(set_start_counts(self._office, {entry_id: before + 1})):
                return True
            log.info("job %s was taken over by another worker before it started", job.id)
        except ServerError as error:
            log.warning("job %s is not started: %s", job.id, error)
        self._verdicts.add(EntryRelease({entry_id: before}))
        self._holdings.unfinished -= 1
        self.on_run_end(entry_id)
        return False

    def on_run_end(self, entry_id: bytes) -> None:
        """One has come to an end: the next may start."""
        self._running.pop(entry_id, None)
        self._door.extra_start_ids.discard(entry_id)
        self._bell.set()

    def drain(self) -> dict[bytes, int]:
        """All that wait, and how many deliveries of each count: the worker leaves."""
        left, self._waiting = self._waiting, deque()
        return {row[0]: row[3] for row, _ in left}

    def wake(self) -> None:
        """Wake the loop."""
        self._bell.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Let them go, one after the other, until told to stop."""
        await self._loop.run(self.turn, stop)

    async def turn(self) -> TurnResult:
        """Start whoever may start; none whose last start it was without a look at the other dead."""
        await wait_for_event(self._bell)
        self._bell.clear()
        while self._waiting and self._can_start():
            if self._waiting[0][0][3] >= self._crash_limit:
                await self._grant_extra_start(self._waiting[0][0])
            if self._waiting:  # else all were given up meanwhile
                self._start_next()
        return TurnResult()

    async def _grant_extra_start(self, row: EntryRow) -> None:
        """Spare the job if it may be a bystander."""
        entry_id, starts = row[0], row[3]
        deaths = await self._link.run(count_silent_consumers(self._office, entry_id, self._lease_ms))
        if attempts.deserves_extra_start(starts, deaths, self._crash_limit):
            log.warning(
                "entry %s was started %d times and never ended, but %d workers died meanwhile: it starts again",
                entry_id.decode(),
                starts,
                deaths,
            )
            self._door.extra_start_ids.add(entry_id)

    def _can_start(self) -> bool:
        deliveries = self._waiting[0][0][3]
        if not self._running:
            return True
        if deliveries >= self._last_chance and max(self._running.values()) >= self._last_chance:
            return False
        left = self._last_start + START_INTERVAL_S - self._clock.monotonic()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._bell.set)
        return left <= 0

    def _start_next(self) -> None:
        delivered = self._waiting.popleft()
        row = delivered[0]
        self._running[row[0]] = row[3]
        self._last_start = self._clock.monotonic()
        self._start(delivered)


def set_start_counts(office: ConsumerIdentity, deliveries: dict[bytes, int]) -> Flow[list[bytes]]:
    """Say how many deliveries of each entry count; answers those that are still ours."""
    [mine] = yield [office.commands.set_delivery_counts(office.keys, office.group, office.consumer, deliveries)]
    return list(mine)


def count_silent_consumers(office: ConsumerIdentity, entry_id: bytes, lease_ms: int) -> Flow[int]:
    """How many consumers fell silent for longer than a lease since this entry was added. Who leaves in peace takes
    his name along.
    """
    reply, clock = yield [
        office.commands.consumers(office.keys, office.group),
        office.commands.server_time(),
    ]
    if isinstance(reply, ServerError):
        raise reply
    age_ms = parse_server_time(clock) - int(entry_id.partition(b"-")[0])
    return sum(
        lease_ms < row.idle_ms < age_ms
        for row in ConsumerInfo.list_from_reply(reply)
        if row.name != RELEASED_CONSUMER.encode()
    )
