"""Removes consumers from the group that are gone and own nothing. A live one that is removed by mistake comes back with
its next read.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chasqui.consume.loop_part import LoopPart
from chasqui.errors import AuthRefused, ServerError
from chasqui.server.commands import ConsumerInfo
from chasqui.supervision.supervisor import TurnResult

if TYPE_CHECKING:
    from chasqui.clock import Clock
    from chasqui.consume.identity import ConsumerIdentity
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink

BATCH_SIZE = 1000


class ConsumerCleanup(LoopPart):
    def __init__(
        self, link: AsyncLink, identity: ConsumerIdentity, clock: Clock, *, every_ms: int, dead_after_ms: int
    ) -> None:
        super().__init__("cleanup", link, identity, clock)
        self._every_s = every_ms / 1000
        self._dead_after_ms = dead_after_ms

    async def turn(self) -> TurnResult:
        """Clean up once. Workers that were started together should not do it at the same moment."""
        removed = await self._link.run(remove_idle_consumers(self._identity, self._dead_after_ms))
        self._loop.count("removed", removed)
        return TurnResult(self._every_s * random.uniform(0.75, 1.25))


def remove_idle_consumers(identity: ConsumerIdentity, dead_after_ms: int) -> Flow[int]:
    """Remove consumers that own nothing and have been silent for longer than this; returns how many."""
    commands, keys, group = identity.commands, identity.keys, identity.group
    [reply] = yield [commands.consumers(keys, group)]
    if isinstance(reply, AuthRefused):
        raise reply
    if isinstance(reply, ServerError):
        return 0
    own_name = identity.consumer.encode()
    idle = [
        row.name
        for row in ConsumerInfo.list_from_reply(reply)
        if not row.pending and row.idle_ms > dead_after_ms and row.name != own_name
    ]
    removed = 0
    for start in range(0, len(idle), BATCH_SIZE):
        batch = idle[start : start + BATCH_SIZE]
        [not_removed] = yield [commands.drop_consumers(keys, group, batch)]
        removed += len(batch) - len(not_removed)
    return removed
