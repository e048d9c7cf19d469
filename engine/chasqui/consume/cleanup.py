"""Tidying the group: consumers that are gone and own nothing are removed. A live one that is removed by mistake comes
back with its next read, so nothing depends on getting it right.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chasqui.errors import AuthRefused, ServerError
from chasqui.server.commands import ConsumerInfo as Row
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult

if TYPE_CHECKING:
    import asyncio

    from chasqui.clock import Clock
    from chasqui.consume.settlements import ConsumerIdentity
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink
    from chasqui.supervision.supervisor import LoopState

BATCH_SIZE = 1000


class ConsumerCleanup:
    """Looks every now and then."""

    def __init__(
        self, link: AsyncLink, office: ConsumerIdentity, clock: Clock, *, every_ms: int, dead_after_ms: int
    ) -> None:
        self._link = link
        self._office = office
        self._every_s = every_ms / 1000
        self._dead_after_ms = dead_after_ms
        self._loop = SupervisedLoop("housekeeping", clock)

    @property
    def state(self) -> LoopState:
        """How it is."""
        return self._loop.state

    async def run(self, stop: asyncio.Event) -> None:
        """Tidy until told to stop."""
        await self._loop.run(self.turn, stop)

    async def turn(self) -> TurnResult:
        """One look. Workers that were started together should not look together."""
        removed = await self._link.run(remove_idle_consumers(self._office, self._dead_after_ms))
        self._loop.count("removed", removed)
        return TurnResult(self._every_s * random.uniform(0.75, 1.25))


def remove_idle_consumers(office: ConsumerIdentity, dead_after_ms: int) -> Flow[int]:
    """Remove consumers that own nothing and have not been heard of for so long; answers how many."""
    [reply] = yield [office.commands.consumers(office.keys, office.group)]
    if isinstance(reply, AuthRefused):
        raise reply
    if isinstance(reply, ServerError):
        return 0
    me = office.consumer.encode()
    gone = [
        row.name
        for row in Row.list_from_reply(reply)
        if not row.pending and row.idle_ms > dead_after_ms and row.name != me
    ]
    removed = 0
    for at in range(0, len(gone), BATCH_SIZE):
        page = gone[at : at + BATCH_SIZE]
        [kept] = yield [office.commands.drop_consumers(office.keys, office.group, page)]
        removed += len(page) - len(kept)
    return removed
