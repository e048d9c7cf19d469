"""Jobs that were delivered before without an outcome: one of them may have crashed its worker.

They are held back and started one after the other, and their deliveries are counted here: one more right before each
start, none for having been claimed. So the job that kills workers uses up its own chances, and those that only
waited or ran next to it lose none. Before a job becomes a dead letter for its crashes, the other dead workers are counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from chasqui.consume import attempts
from chasqui.consume.held_entries import ID, STARTS
from chasqui.consume.loop_part import LoopPart
from chasqui.consume.settlements import EntryRelease
from chasqui.errors import ServerError
from chasqui.server.commands import ConsumerInfo, parse_server_time
from chasqui.server.commands.entry_commands import RELEASED_CONSUMER
from chasqui.supervision.supervisor import TurnResult
from chasqui.wire.entry_id import time_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.consume.entry_checks import Admission
    from chasqui.consume.held_entries import BufferedEntry, EntryLease, EntryRow, HeldEntries, JobBuffer
    from chasqui.consume.identity import ConsumerIdentity
    from chasqui.consume.settlements import SettlementQueue
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink

log = logging.getLogger("chasqui.worker")

MAX_WAITING = 64
"""Entries beyond this number are given to other workers at once."""
REFILL_BELOW = 16
"""With fewer than these, abandoned entries are asked for again."""
START_INTERVAL_S = 0.01
"""A suspect that has run for so long lets the next one start, unless both are at their last chance: what kills at once
kills alone, and a hundred jobs of a dead worker still run again within a second."""
COUNT_RETRY_S = 5.0
"""If the server refuses to list the consumers, jobs that need to know the dead ones wait this long for another try."""


class CrashSuspects(LoopPart):
    """The queue in which suspects wait for their start."""

    def __init__(
        self,
        link: AsyncLink,
        identity: ConsumerIdentity,
        held: HeldEntries,
        settlements: SettlementQueue,
        clock: Clock,
        admission: Admission,
        crash_limit: int,
        lease_ms: int,
        buffer: JobBuffer,
    ) -> None:
        super().__init__("crash suspects", link, identity, clock)
        self._held = held
        self._settlements = settlements
        self._admission = admission
        self._crash_limit = crash_limit
        self._last_chance = crash_limit - 1
        self._lease_ms = lease_ms
        self._buffer = buffer
        self._waiting: deque[BufferedEntry] = deque()
        self._undecided: deque[BufferedEntry] = deque()
        self._decide_at = 0.0
        self._notes: tuple[str, ...] = ()
        self._running: dict[bytes, int] = {}
        self._last_start = 0.0

    @property
    def has_room(self) -> bool:
        """Whether more of them may be asked for."""
        return len(self._waiting) + len(self._undecided) < REFILL_BELOW

    def add(self, rows: Sequence[EntryRow], lease: EntryLease) -> None:
        """Hold them; those that are too many go to other workers."""
        self._loop.count("arrived", len(rows))
        room = max(0, MAX_WAITING - len(self._waiting) - len(self._undecided))
        self._waiting += [(row, lease) for row in rows[:room]]
        if surplus := rows[room:]:
            self._held.finish(len(surplus))
            self._settlements.add(EntryRelease({row[ID]: row[STARTS] for row in surplus}))
        self.wake()

    async def confirm_start(self, row: EntryRow, job: Any) -> bool:
        """A suspect is about to run, and that counts. False when it is no longer ours, or when the server cannot be
        asked; then it is released with its count unchanged.
        """
        entry_id, starts = row[ID], row[STARTS]
        try:
            if await self._link.run(set_start_counts(self._identity, {entry_id: starts + 1})):
                return True
            log.info("job %s was taken over by another worker before it started", job.id)
        except ServerError as error:
            log.warning("job %s is not started: %s", job.id, error)
        self._settlements.add(EntryRelease({entry_id: starts}))
        self._held.finish()
        self.on_run_end(entry_id)
        return False

    def on_run_end(self, entry_id: bytes) -> None:
        """One run has ended: the next suspect may start."""
        self._running.pop(entry_id, None)
        self._admission.extra_start_ids.discard(entry_id)
        self.wake()

    def drain(self) -> dict[bytes, int]:
        """Remove all that wait; returns how many deliveries of each count."""
        drained = {row[ID]: row[STARTS] for row, _ in (*self._undecided, *self._waiting)}
        self._undecided, self._waiting = deque(), deque()
        return drained

    async def turn(self) -> TurnResult:
        """Start those that may start; one whose starts are used up only after the dead workers were counted."""
        await self._wait()
        if self._undecided and self._clock.monotonic() >= self._decide_at:
            self._waiting.extendleft(reversed(self._undecided))
            self._undecided.clear()
        while self._waiting and self._can_start():
            row, _ = self._waiting[0]
            if row[STARTS] >= self._crash_limit and not await self._decide(row):
                continue
            if self._waiting:  # else all were drained meanwhile
                self._start_next()
        return TurnResult(notes=self._notes)

    async def _decide(self, row: EntryRow) -> bool:
        """Whether the job can be started, or rejected as crashed. If the server refuses to list the dead workers it waits
        apart, so that the suspects behind it go on.
        """
        if self._clock.monotonic() >= self._decide_at:
            try:
                await self._grant_extra_start(row)
            except ServerError as error:
                if error.transient:
                    raise
                self._decide_at = self._clock.monotonic() + COUNT_RETRY_S
                hint = f" ({error.hint})" if error.hint else ""
                self._notes = (f"jobs that were started {self._crash_limit} times wait: {error}{hint}",)
            else:
                self._notes = ()
                return True
        if self._waiting:
            self._undecided.append(self._waiting.popleft())
        return False

    async def _grant_extra_start(self, row: EntryRow) -> None:
        """Let the job start once more if it may be innocent."""
        entry_id, starts = row[ID], row[STARTS]
        deaths = await self._link.run(count_silent_consumers(self._identity, entry_id, self._lease_ms))
        if attempts.deserves_extra_start(starts, deaths, self._crash_limit):
            log.warning(
                "entry %s was started %d times and never ended, but %d workers died meanwhile: it starts again",
                entry_id.decode(),
                starts,
                deaths,
            )
            self._admission.extra_start_ids.add(entry_id)

    def _can_start(self) -> bool:
        starts = self._waiting[0][0][STARTS]
        if not self._running:
            return True
        if starts >= self._last_chance and max(self._running.values()) >= self._last_chance:
            return False
        left = self._last_start + START_INTERVAL_S - self._clock.monotonic()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self.wake)
        return left <= 0

    def _start_next(self) -> None:
        entry = self._waiting.popleft()
        row = entry[0]
        self._running[row[ID]] = row[STARTS]
        self._last_start = self._clock.monotonic()
        self._buffer.add_first(entry)


def set_start_counts(identity: ConsumerIdentity, deliveries: dict[bytes, int]) -> Flow[list[bytes]]:
    """Set how many deliveries of each entry count; returns those that are still ours."""
    [mine] = yield [identity.commands.set_delivery_counts(*identity.settle_args, deliveries)]
    return list(mine)


def count_silent_consumers(identity: ConsumerIdentity, entry_id: bytes, lease_ms: int) -> Flow[int]:
    """How many consumers fell silent for longer than a lease since this entry was added. One that closes removes its
    name, so it is not among them.
    """
    reply, clock = yield [identity.commands.consumers(identity.keys, identity.group), identity.commands.server_time()]
    if isinstance(reply, ServerError):
        raise reply
    age_ms = parse_server_time(clock) - time_ms(entry_id)
    return sum(
        lease_ms < row.idle_ms < age_ms
        for row in ConsumerInfo.list_from_reply(reply)
        if row.name != RELEASED_CONSUMER.encode()
    )
