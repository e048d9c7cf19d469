"""The leader's lock: of many workers, one promotes and one schedules. It is acquired, renewed and released here.

Keys, holders and times are those of the reference, so workers of both kinds elect one leader together. What a
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

log = logging.getLogger("chasqui.lease")

RELEASE_TIMEOUT_S = 2.0
"""How long the server may take to release the lock at the end; after that it expires."""

EXPIRY_MARGIN_S = 0.02
MIN_POLL_S = 0.005


def new_holder(prefix: str) -> str:
    """A unique name, in the reference's form."""
    return f"{prefix}-{uuid.uuid4()}"


def acquire_lock(commands: Commands, lock: str, holder: str, ttl_s: int) -> Flow[LockState]:
    """Take the lock if it is free, extend it if it is ours; returns who holds it now."""
    [reply] = yield [commands.acquire_lock(lock, holder, ttl_s=ttl_s)]
    return LockState.from_reply(reply)


def release_lock(commands: Commands, lock: str, holder: str | bytes) -> Flow[bool]:
    """Release the lock; false when this holder did not have it any more."""
    [dropped] = yield [commands.release_lock(lock, holder)]
    return bool(dropped)


def read_lock(commands: Commands, lock: str) -> Flow[LockState | None]:
    """Which holder leads, and for how long; None without a leader."""
    holder, ttl_ms = yield [commands.lock_holder(lock), commands.expires_in(lock)]
    return None if holder is None else LockState(False, holder, ttl_ms if ttl_ms >= 0 else None)


def force_unlock(commands: Commands, lock: str, *, seen: bytes | None = None) -> Flow[LockState | None]:
    """Take the lock from its holder, or only from the holder that was `seen`; returns what was taken.

    A live leader takes it again within a tick, so this helps against a holder that never releases it, and harms no other.
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


class LeaderLoop(SupervisedLoop):
    """A loop in which only the leader takes turns; the others check, at each poll, whether the lock has expired.

    A leader whose turns fail because of the server keeps the lock: another would fare no better, and an engine that
    gives up at the first refusal should not get its turn just then. After a bug of ours another may try.
    """

    def __init__(
        self, name: str, link: AsyncLink, lock: str, *, holder: str, ttl_s: int, poll_s: float, clock: Clock
    ) -> None:
        super().__init__(name, clock)
        self.holder = holder
        self._link = link
        self._lock = lock
        self._ttl_s = ttl_s
        self.poll_s = max(poll_s, MIN_POLL_S)

    async def run(self, take_turn: Callable[[], Awaitable[TurnResult]], stop: asyncio.Event) -> None:
        """Take turns, as leader or on standby, until stopped; then release the lock at once."""
        await super().run(partial(self._leader_turn, take_turn), stop)
        await self._release()

    async def _leader_turn(self, take_turn: Callable[[], Awaitable[TurnResult]]) -> TurnResult:
        lock = await self._acquire()
        if not lock.mine:
            return self._standby_result(lock)
        try:
            return await take_turn()
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
            log.warning("%s: the lock was not released, it expires: %s", self.name, error)

    def _standby_result(self, lock: LockState) -> TurnResult:
        if lock.ttl_ms is None:
            stuck = f"{self._lock} is held by {printable_name(lock.holder)!r} and never expires: nobody else can lead"
            return TurnResult(self.poll_s, "standby", (stuck,))
        return TurnResult(min(self.poll_s, lock.ttl_ms / 1000 + EXPIRY_MARGIN_S), "standby")
