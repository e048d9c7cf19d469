"""Settlements that take more than an acknowledgement: each is sent to the server until it is done.

Each is one script that checks the owner, so sending it twice changes nothing, and a stale owner is refused. The plain
acknowledgements of completed jobs are sent by the outbox.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chasqui.consume.loop_part import LoopPart
from chasqui.errors import ServerError
from chasqui.supervision.supervisor import TurnResult

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.consumer_progress import ConsumerProgress
    from chasqui.consume.held_entries import HeldEntries
    from chasqui.consume.identity import ConsumerIdentity
    from chasqui.server.flow import Call, Flow, Reply
    from chasqui.server.link import AsyncLink
    from chasqui.wire.event_entry import Event

BATCH_SIZE = 500
"""How many settlements go in one round trip."""


class Settlement(ABC):
    """What shall become of one or more entries."""

    __slots__ = ()

    @property
    @abstractmethod
    def entry_ids(self) -> Collection[bytes]: ...

    @abstractmethod
    def call(self, identity: ConsumerIdentity) -> Call:
        """The call that does it for the entries that are still ours; it may be sent again."""

    def event_after(self, reply: Reply) -> Event | None:
        """The event to send once it is done; None when the entry was no longer ours."""
        return None


@dataclass(frozen=True, slots=True)
class _EntrySettlement(Settlement):
    entry_id: bytes
    event: Event | None

    @property
    def entry_ids(self) -> Collection[bytes]:
        return (self.entry_id,)

    def event_after(self, reply: Reply) -> Event | None:
        return None if reply is None else self.event


@dataclass(frozen=True, slots=True)
class Completion(_EntrySettlement):
    """The job completed. For entries that may be lost, and for results to be stored."""

    job_id: str = ""
    data: bytes = b""
    ttl_s: int = 1

    def call(self, identity: ConsumerIdentity) -> Call:
        return identity.commands.settle_owned(
            *identity.settle_args, self.entry_id, self.job_id, data=self.data, ttl_s=self.ttl_s
        )

    def event_after(self, reply: Reply) -> Event | None:
        return self.event if reply == 1 else None


@dataclass(frozen=True, slots=True)
class ScheduledRetry(_EntrySettlement):
    """The job failed and shall run again later. The server counts the delay."""

    member: bytes
    delay_ms: int

    def call(self, identity: ConsumerIdentity) -> Call:
        return identity.commands.schedule_retry(
            *identity.settle_args, self.entry_id, self.member, delay_ms=self.delay_ms
        )


@dataclass(frozen=True, slots=True)
class DeadLetterMove(_EntrySettlement):
    """The job goes to the dead letters."""

    fields: Sequence[bytes]
    cap: int

    def call(self, identity: ConsumerIdentity) -> Call:
        return identity.commands.move_to_dlq(*identity.settle_args, self.entry_id, self.fields, cap=self.cap)


@dataclass(frozen=True, slots=True)
class EntryRelease(Settlement):
    """Other workers shall have these entries: they were not started, so this delivery does not count."""

    deliveries: Mapping[bytes, int]

    @property
    def entry_ids(self) -> Collection[bytes]:
        return self.deliveries.keys()

    def call(self, identity: ConsumerIdentity) -> Call:
        return identity.commands.release(*identity.settle_args, self.deliveries)


class SettlementQueue(LoopPart):
    """Sends settlements, many in one round trip. One that fails is sent again in the next turn."""

    def __init__(
        self, link: AsyncLink, identity: ConsumerIdentity, held: HeldEntries, clock: Clock, progress: ConsumerProgress
    ) -> None:
        super().__init__("settlements", link, identity, clock, recovers_group=True)
        self._held = held
        self._progress = progress
        self._waiting: deque[Settlement] = deque()
        self._in_flight = 0

    @property
    def unsettled(self) -> int:
        """How many are not done yet."""
        return len(self._waiting) + self._in_flight

    def add(self, settlement: Settlement) -> None:
        self._waiting.append(settlement)
        self.wake()

    async def turn(self) -> TurnResult:
        """Send what there is; wait for some when there is none."""
        if not self._waiting:
            await self._wait()
        self._woken.clear()
        if batch := [self._waiting.popleft() for _ in range(min(BATCH_SIZE, len(self._waiting)))]:
            await self._apply(batch)
        return TurnResult()

    async def _apply(self, batch: Sequence[Settlement]) -> None:
        """Send them all. Those that are refused, or whose reply is lost, are sent again in the next turn."""
        self._in_flight = len(batch)
        failed = batch
        try:
            replies = await self._link.run(_send(self._identity, batch))
            results = list(zip(batch, replies, strict=True))
            failed = [settlement for settlement, reply in results if isinstance(reply, ServerError)]
        finally:
            self._in_flight = 0
            self._waiting.extend(failed)
        self._finish([(settlement, reply) for settlement, reply in results if not isinstance(reply, ServerError)])
        for reply in replies:
            if isinstance(reply, ServerError):
                raise reply

    def _finish(self, results: Sequence[tuple[Settlement, Reply]]) -> None:
        for settlement, reply in results:
            self._held.remove(settlement.entry_ids)
            if event := settlement.event_after(reply):
                self._progress.send_event(event)
        self._loop.count("done", len(results))
        self._progress.changed()


def _send(identity: ConsumerIdentity, batch: Sequence[Settlement]) -> Flow[list[Reply]]:
    """All in one round trip. One that is refused keeps none of the others from being done."""
    return (yield [replace(settlement.call(identity), tolerant=True) for settlement in batch])
