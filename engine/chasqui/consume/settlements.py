"""What shall become of an entry, when that takes more than an acknowledgement: said to the server until it is done.

Each verdict is one owner-checked script, so saying it twice is saying it once, and a stale owner is refused. The
plain acknowledgements of jobs that went well are the outbox's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from chasqui.errors import ServerError
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.held_entries import HeldEntries
    from chasqui.server.commands import Commands
    from chasqui.server.flow import Call, Flow, Reply
    from chasqui.server.link import AsyncLink
    from chasqui.supervision.supervisor import LoopState
    from chasqui.wire.event_entry import Event
    from chasqui.wire.keys import Keys

BATCH_SIZE = 500
"""How many verdicts go in one round trip."""


IDLE_WAIT_S = 1.0
"""How long a loop with nothing to do waits before it says that it is still there."""


async def wait_for_event(event: asyncio.Event, seconds: float = IDLE_WAIT_S) -> None:
    """Wait for the event, but not for ever."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


@dataclass(frozen=True, slots=True)
class ConsumerIdentity:
    """In whose name verdicts are spoken."""

    commands: Commands
    keys: Keys
    group: str
    consumer: str


class Settlement(Protocol):
    """One decision about one or more entries."""

    @property
    def entry_ids(self) -> Iterable[bytes]:
        """The entries it is about."""
        ...

    def call(self, office: ConsumerIdentity) -> Call:
        """What is said to the server; it may be said again."""
        ...

    def event_after(self, reply: Reply) -> Event | None:
        """What to tell once it is done; nothing when the entry was no longer ours."""
        ...


@dataclass(frozen=True, slots=True)
class Completion:
    """The job went well. For entries that may be lost by now, and for results to be kept."""

    entry_id: bytes
    job_id: str
    event: Event | None
    data: bytes = b""
    ttl_s: int = 1

    @property
    def entry_ids(self) -> Sequence[bytes]:
        """The one entry."""
        return (self.entry_id,)

    def call(self, office: ConsumerIdentity) -> Call:
        """Settle if still ours."""
        return office.commands.settle_owned(
            office.keys,
            office.group,
            office.consumer,
            self.entry_id,
            self.job_id,
            data=self.data,
            ttl_s=self.ttl_s,
        )

    def event_after(self, reply: Reply) -> Event | None:
        """It is completed, by us."""
        return self.event if reply == 1 else None


@dataclass(frozen=True, slots=True)
class ScheduledRetry:
    """The job failed and shall be tried again later. The server counts the delay."""

    entry_id: bytes
    member: bytes
    delay_ms: int
    event: Event

    @property
    def entry_ids(self) -> Sequence[bytes]:
        """The one entry."""
        return (self.entry_id,)

    def call(self, office: ConsumerIdentity) -> Call:
        """Park if still ours."""
        return office.commands.schedule_retry(
            office.keys,
            office.group,
            office.consumer,
            self.entry_id,
            self.member,
            delay_ms=self.delay_ms,
        )

    def event_after(self, reply: Reply) -> Event | None:
        """The retry is scheduled."""
        return self.event if reply is not None else None


@dataclass(frozen=True, slots=True)
class DeadLetterMove:
    """Nobody shall try this again by himself."""

    entry_id: bytes
    fields: Sequence[bytes]
    cap: int
    event: Event

    @property
    def entry_ids(self) -> Sequence[bytes]:
        """The one entry."""
        return (self.entry_id,)

    def call(self, office: ConsumerIdentity) -> Call:
        """Bury if still ours."""
        return office.commands.move_to_dlq(
            office.keys, office.group, office.consumer, self.entry_id, self.fields, cap=self.cap
        )

    def event_after(self, reply: Reply) -> Event | None:
        """It lies among the dead letters."""
        return self.event if reply is not None else None


@dataclass(frozen=True, slots=True)
class EntryRelease:
    """Others shall have these: they were not started, so this delivery does not count."""

    deliveries: Mapping[bytes, int]

    @property
    def entry_ids(self) -> Iterable[bytes]:
        """All of them."""
        return self.deliveries.keys()

    def call(self, office: ConsumerIdentity) -> Call:
        """Hand back those that are still ours."""
        return office.commands.release(office.keys, office.group, office.consumer, self.deliveries)

    def event_after(self, reply: Reply) -> Event | None:
        """Nothing happened to anybody."""
        return None


class SettlementQueue:
    """Carries verdicts out, many in one round trip. One that cannot be carried out now stays until it can."""

    def __init__(
        self,
        link: AsyncLink,
        office: ConsumerIdentity,
        holdings: HeldEntries,
        clock: Clock,
        heal: Callable[[], Flow[bool]],
        tell: Callable[[Event], None],
        changed: Callable[[], None],
    ) -> None:
        self._link = link
        self._office = office
        self._holdings = holdings
        self._tell = tell
        self._changed = changed
        self._waiting: deque[Settlement] = deque()
        self._under_way = 0
        self._bell = asyncio.Event()
        self._bell.set()
        self._loop = SupervisedLoop("verdicts", clock, heal=lambda: link.run(heal()))

    @property
    def state(self) -> LoopState:
        """How it is."""
        return self._loop.state

    @property
    def unsettled(self) -> int:
        """How many are not carried out yet."""
        return len(self._waiting) + self._under_way

    def add(self, verdict: Settlement) -> None:
        """To be carried out as soon as may be."""
        self._waiting.append(verdict)
        self._bell.set()

    def wake(self) -> None:
        """Wake the loop, for instance to notice that it should stop."""
        self._bell.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Carry out what comes until told to stop."""
        await self._loop.run(self.turn, stop)

    async def turn(self) -> TurnResult:
        """Carry out what there is; wait for some when there is none."""
        if not self._waiting:
            await wait_for_event(self._bell)
        self._bell.clear()
        batch = [self._waiting.popleft() for _ in range(min(BATCH_SIZE, len(self._waiting)))]
        if batch:
            await self._apply(batch)
        return TurnResult()

    async def _apply(self, batch: Sequence[Settlement]) -> None:
        """Say them all. What was refused, or not heard, is said again in the next turn."""
        self._under_way = len(batch)
        left: Sequence[Settlement] = batch
        try:
            replies = await self._link.run(_send(self._office, batch))
            told = list(zip(batch, replies, strict=True))
            left = [verdict for verdict, reply in told if isinstance(reply, ServerError)]
        finally:
            self._under_way = 0
            self._waiting.extend(left)
        self._finish([(verdict, reply) for verdict, reply in told if not isinstance(reply, ServerError)])
        for reply in replies:
            if isinstance(reply, ServerError):
                raise reply

    def _finish(self, outcomes: Sequence[tuple[Settlement, Reply]]) -> None:
        for verdict, reply in outcomes:
            self._holdings.remove(verdict.entry_ids)
            if event := verdict.event_after(reply):
                self._tell(event)
        self._loop.count("done", len(outcomes))
        self._changed()


def _send(office: ConsumerIdentity, verdicts: Sequence[Settlement]) -> Flow[list[Reply]]:
    """All in one round trip. One that is refused keeps none of the others from being carried out."""
    return (yield [replace(verdict.call(office), tolerant=True) for verdict in verdicts])
