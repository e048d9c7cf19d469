"""What follows for the whole consumer when one part made progress: the next read, the `drained` event, the end of a wait."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from chasqui.supervision.supervisor import wait_for_event
from chasqui.wire import event_entry
from chasqui.wire.event_entry import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.clock import Clock
    from chasqui.consume.held_entries import HeldEntries
    from chasqui.consume.outcomes import OutcomeHandler
    from chasqui.consume.reader import EntryReader
    from chasqui.consume.settlements import SettlementQueue

POLL_S = 0.1


class ConsumerProgress:
    """Made before the parts that report to it; `connect` gives it those it needs."""

    def __init__(self, held: HeldEntries, clock: Clock) -> None:
        self._held = held
        self._clock = clock
        self._changed = asyncio.Event()
        self._reader: EntryReader
        self._outcomes: OutcomeHandler
        self._settlements: SettlementQueue

    def connect(self, reader: EntryReader, outcomes: OutcomeHandler, settlements: SettlementQueue) -> None:
        self._reader, self._outcomes, self._settlements = reader, outcomes, settlements

    def send_event(self, event: Event) -> None:
        self._outcomes.send_event(event)

    def changed(self) -> None:
        """Something was sent or settled: there may be room for more, or nothing left to do."""
        self._reader.refill()
        self.read_was_empty()

    def read_was_empty(self) -> None:
        """There was nothing to read. The queue is drained once nothing runs or is to be settled either."""
        if self._reader.drained_event_due and not self._held.unfinished and not self._settlements.unsettled:
            self._reader.drained_event_due = False
            self.send_event(Event(event_entry.DRAINED, None, self._clock.now_ms()))
        self._changed.set()

    async def wait_until(self, holds: Callable[[], bool], timeout_s: float = math.inf) -> None:
        """Wait until it holds, but not longer than this."""
        end = self._clock.monotonic() + timeout_s
        while not holds() and (left := end - self._clock.monotonic()) > 0:
            self._changed.clear()
            await wait_for_event(self._changed, min(left, POLL_S))
