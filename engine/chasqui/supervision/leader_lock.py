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
from chasqui.server.commands import Commands, LockState
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult
from chasqui.wire.entry_fields import printable_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chasqui.clock import Clock
    from chasqui.server.flow import Flow
    from chasqui.server.link import AsyncLink
    from chasqui.supervision.supervisor import LoopState

log = logging.getLogger("chasqui.lease")

RELEASE_TIMEOUT_S = 2.0
"""A server that does not answer our goodbye in this time will see the lease end by itself."""

EXPIRY_MARGIN_S = 0.02
MIN_POLL_S = 0.005


def new_holder(prefix: str) -> str:
    """A name nobody else has, in the reference's form."""
    return f"{prefix}-{uuid.uuid4()}"


def acquire_lock(commands: Commands, lock: str, holder: str, ttl_s: int) -> Flow[LockState]:
    """Take the lock if it is free, extend it if it is ours already; the answer says whose it is now."""
    [reply] = yield [commands.acquire_lock(lock, holder, ttl_s=ttl_s)]
    return LockState.from_reply(reply)


def release_lock(commands: Commands, lock: str, holder: str | bytes) -> Flow[bool]:
    """Give the lock up; false when it was not this holder's any more."""
    [dropped] = yield [commands.release_lock(lock, holder)]
    return bool(dropped)


def read_lock(commands: Commands, lock: str) -> Flow[LockState | None]:
    """Who leads, and for how long; None when nobody does."""
    holder, ttl_ms = yield [commands.lock_holder(lock), commands.expires_in(lock)]
    return None if holder is None else LockState(False, holder, ttl_ms if ttl_ms >= 0 else None)


def force_unlock(commands: Commands, lock: str, *, seen: bytes | None = None) -> Flow[LockState | None]:
    """Take the lock from whoever holds it, or only from the holder that was `seen`; answers what was taken.

    A live leader takes it again within a tick, so this helps against a holder that never lets go and harms no other.
    """
    found = yield from read_lock(commands, lock)
    if found is None:
        return None
    if seen is not None and found.holder != seen:
        raise Conflict(
            f"{lock} is not held by {printable_name(seen)!r} any more, but by {printable_name(found.holder)!r}"
        )
    dropped = yield from release_lock(commands, lock, found.holder)
    return found if dropped else None


class LeaderLoop:
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
        self.poll_s = max(poll_s, MIN_POLL_S)
        self._loop = SupervisedLoop(name, clock)

    @property
    def state(self) -> LoopState:
        """How it is right now."""
        return self._loop.state

    def count(self, what: str, more: int = 1) -> None:
        """Add to one of the counts in `state`."""
        self._loop.count(what, more)

    async def run(self, lead: Callable[[], Awaitable[TurnResult]], stop: asyncio.Event) -> None:
        """Take turns, as leader or waiting to be one, until told to stop; then give the lease up at once."""
        await self._loop.run(partial(self._run_turn, lead), stop)
        await self._release()

    async def _run_turn(self, lead: Callable[[], Awaitable[TurnResult]]) -> TurnResult:
        lease = await self._acquire()
        if not lease.mine:
            return self._standby_result(lease)
        try:
            return await lead()
        except ChasquiError:
            raise
        except Exception:
            await self._release()
            raise

    async def _acquire(self) -> LockState:
        commands = Commands(await self._link.features())
        return await self._link.run(acquire_lock(commands, self._lock, self.holder, self._ttl_s))

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                commands = Commands(await self._link.features())
                await self._link.run(release_lock(commands, self._lock, self.holder))
        except (ChasquiError, TimeoutError) as error:
            log.warning("%s: the lease was not given up, it ends by itself: %s", self._loop.name, error)

    def _standby_result(self, lease: LockState) -> TurnResult:
        if lease.ttl_ms is None:
            stuck = f"{self._lock} is held by {printable_name(lease.holder)!r} and never expires: nobody else can lead"
            return TurnResult(self.poll_s, "standby", (stuck,))
        return TurnResult(min(self.poll_s, lease.ttl_ms / 1000 + EXPIRY_MARGIN_S), "standby")
