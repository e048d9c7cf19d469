"""The leader's lease: of many workers, one promotes and one schedules. Taken, kept and dropped here.

Keys, holders and times are those of the reference, so workers of both kinds elect one leader between them. What a
leader does is in `promoter.py` and `scheduler.py`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING

from chasqui.errors import ChasquiError, Conflict
from chasqui.loops import Loop, Turn
from chasqui.server.commands import Commands, Lease

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chasqui.clock import Clock
    from chasqui.loops import LoopState
    from chasqui.server.call import Flow
    from chasqui.server.link import AsyncLink

log = logging.getLogger("chasqui.lease")

FAREWELL_S = 2.0
"""A server that does not answer our goodbye in this time will see the lease end by itself."""

A_MOMENT_S = 0.02
LEAST_POLL_S = 0.005


def new_holder(prefix: str) -> str:
    """A name nobody else has, in the reference's form."""
    return f"{prefix}-{uuid.uuid4()}"


def take(commands: Commands, lock: str, holder: str, ttl_s: int) -> Flow[Lease]:
    """Take the lock if it is free, extend it if it is ours already; the answer says whose it is now."""
    [reply] = yield [commands.take_lease(lock, holder, ttl_s=ttl_s)]
    return Lease.of(reply)


def drop(commands: Commands, lock: str, holder: str | bytes) -> Flow[bool]:
    """Give the lock up; false when it was not this holder's any more."""
    [dropped] = yield [commands.drop_lease(lock, holder)]
    return bool(dropped)


def look(commands: Commands, lock: str) -> Flow[Lease | None]:
    """Who leads, and for how long; None when nobody does."""
    holder, ttl_ms = yield [commands.holder(lock), commands.time_left(lock)]
    return None if holder is None else Lease(False, holder, ttl_ms if ttl_ms >= 0 else None)


def force_unlock(commands: Commands, lock: str, *, seen: bytes | None = None) -> Flow[Lease | None]:
    """Take the lock from whoever holds it, or only from the holder that was `seen`; answers what was taken.

    A live leader takes it again within a tick, so this helps against a holder that never lets go and harms no other.
    """
    found = yield from look(commands, lock)
    if found is None:
        return None
    if seen is not None and found.holder != seen:
        raise Conflict(f"{lock} is not held by {_shown(seen)} any more, but by {_shown(found.holder)}")
    dropped = yield from drop(commands, lock, found.holder)
    return found if dropped else None


class LedLoop:
    """A loop in which only the leader takes turns; the others ask, at each poll, whether the lease has ended.

    A leader whose turns fail for the server's sake keeps the lease: another would fare no better, and an engine that
    gives up at the first refusal should not get its turn just then. After a bug of ours others may try.
    """

    def __init__(
        self, name: str, link: AsyncLink, lock: str, *, holder: str, ttl_s: int, poll_s: float, clock: Clock
    ) -> None:
        self.holder = holder
        self._link = link
        self._lock = lock
        self._ttl_s = ttl_s
        self.poll_s = max(poll_s, LEAST_POLL_S)
        self._loop = Loop(name, clock)

    @property
    def state(self) -> LoopState:
        """How it is right now."""
        return self._loop.state

    def count(self, what: str, more: int = 1) -> None:
        """Add to one of the counts in `state`."""
        self._loop.count(what, more)

    async def run(self, lead: Callable[[], Awaitable[Turn]], stop: asyncio.Event) -> None:
        """Take turns, as leader or waiting to be one, until told to stop; then give the lease up at once."""
        await self._loop.run(partial(self._turn, lead), stop)
        await self._drop()

    async def _turn(self, lead: Callable[[], Awaitable[Turn]]) -> Turn:
        lease = await self._take()
        if not lease.mine:
            return self._standby(lease)
        try:
            return await lead()
        except ChasquiError:
            raise
        except Exception:
            await self._drop()
            raise

    async def _take(self) -> Lease:
        commands = Commands(await self._link.features())
        return await self._link.run(take(commands, self._lock, self.holder, self._ttl_s))

    async def _drop(self) -> None:
        try:
            async with asyncio.timeout(FAREWELL_S):
                commands = Commands(await self._link.features())
                await self._link.run(drop(commands, self._lock, self.holder))
        except (ChasquiError, TimeoutError) as error:
            log.warning("%s: the lease was not given up, it ends by itself: %s", self._loop.name, error)

    def _standby(self, lease: Lease) -> Turn:
        if lease.ttl_ms is None:
            stuck = f"{self._lock} is held by {_shown(lease.holder)} and never expires: nobody else can lead"
            return Turn(self.poll_s, "standby", (stuck,))
        return Turn(min(self.poll_s, lease.ttl_ms / 1000 + A_MOMENT_S), "standby")


def _shown(holder: bytes) -> str:
    return repr(holder.decode("utf-8", "backslashreplace"))
