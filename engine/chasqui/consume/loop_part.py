"""The base of the worker's parts that run a supervised loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from chasqui.supervision.supervisor import SupervisedLoop, wait_for_event

if TYPE_CHECKING:
    from chasqui.clock import Clock
    from chasqui.consume.identity import ConsumerIdentity
    from chasqui.server.link import AsyncLink
    from chasqui.supervision.supervisor import LoopState, TurnResult


class LoopPart(ABC):
    """`run` repeats `turn` until stopped; `wake` ends the wait of the current turn."""

    def __init__(
        self, name: str, link: AsyncLink, identity: ConsumerIdentity, clock: Clock, *, recovers_group: bool = False
    ) -> None:
        self._link = link
        self._identity = identity
        self._clock = clock
        self._woken = asyncio.Event()
        self._woken.set()
        self._loop = SupervisedLoop(name, clock, recover=self._ensure_group if recovers_group else None)

    @property
    def state(self) -> LoopState:
        return self._loop.state

    def wake(self) -> None:
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        await self._loop.run(self.turn, stop)

    @abstractmethod
    async def turn(self) -> TurnResult:
        """Do what there is to do, or wait a while for it."""

    async def _wait(self) -> None:
        await wait_for_event(self._woken)
        self._woken.clear()

    async def _ensure_group(self) -> None:
        await self._link.run(self._identity.ensure_group())
