"""Supervises every loop of a worker: take a turn, pause, and when a turn fails decide when to try again.

No server error ends a loop. What a turn does is defined by the owner of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from chasqui.errors import ChasquiError, NoGroup, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from chasqui.clock import Clock

log = logging.getLogger("chasqui.loops")

LoopRole = Literal["running", "leader", "standby", "failing", "stopped"]
"""What a loop is doing. "running" is for loops that need no lock; "failing": its last turn did not succeed."""

IDLE_WAIT_S = 1.0
"""How long an idle loop waits at most before its turn ends, which shows that it is alive."""


class TurnResult(NamedTuple):
    """A turn that succeeded: the pause before the next, the role it was taken in, and what is wrong nevertheless."""

    pause_s: float = 0.0
    role: LoopRole = "running"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopState:
    """The state of a loop.

    since_ms: since when it has this role. last_error: why the last failing turn failed, also after recovery.
    notes: what is wrong now although turns succeed. counts: what it did since it was made.
    """

    name: str
    role: LoopRole
    since_ms: int
    last_error: str | None = None
    last_error_ms: int | None = None
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class ErrorBackoff(NamedTuple):
    """How long to wait after failures in a row: the first time, and at most."""

    first_s: float
    max_s: float

    def delay_s(self, failures: int) -> float:
        """The pause after the n-th failure in a row: doubled each time."""
        return min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 16))


TRANSIENT_BACKOFF = ErrorBackoff(0.1, 3.0)
CONFIG_BACKOFF = ErrorBackoff(1.0, 3.0)
BUG_BACKOFF = ErrorBackoff(1.0, 30.0)


def backoff_for(error: Exception) -> ErrorBackoff:
    """Transient errors are tried again soon; a key of the wrong type or a missing right must be fixed by a person, so
    slowly; what is not a server error is a bug, and seldom passes.
    """
    if isinstance(error, NoGroup) or (isinstance(error, ServerError) and error.transient):
        return TRANSIENT_BACKOFF
    return CONFIG_BACKOFF if isinstance(error, ServerError) else BUG_BACKOFF


class LoopStatus:
    """Keeps the state of one loop, and logs what is new. `failures`: how many turns in a row have failed."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.failures = 0
        self._clock = clock
        self._role: LoopRole = "stopped"
        self._since_ms = clock.now_ms()
        self._last_error: str | None = None
        self._last_error_ms: int | None = None
        self._notes: tuple[str, ...] = ()
        self._counts: Counter[str] = Counter()

    @property
    def state(self) -> LoopState:
        """How the loop is right now."""
        return LoopState(
            self.name,
            self._role,
            self._since_ms,
            self._last_error,
            self._last_error_ms,
            self._notes,
            dict(self._counts),
        )

    def count(self, what: str, more: int = 1) -> None:
        """Add to one of the counts in `state`."""
        self._counts[what] += more

    def set_role(self, role: LoopRole) -> None:
        if role != self._role:
            self._role, self._since_ms = role, self._clock.now_ms()

    def on_success(self, role: LoopRole, notes: tuple[str, ...] = ()) -> None:
        """A turn succeeded, in this role, with these notes."""
        if self.failures:
            log.info("%s: works again after %d failures", self.name, self.failures)
            self.failures = 0
        for note in notes:
            if note not in self._notes:
                log.warning("%s: %s", self.name, note)
        self._notes = notes
        self.set_role(role)

    def on_failure(self, error: Exception) -> None:
        """A turn failed."""
        self.failures += 1
        self.count("failures")
        self.record_error(error)
        self.set_role("failing")

    def record_error(self, error: Exception) -> None:
        """Keep the error. It is logged if it is new; a bug always, with its trace."""
        text = str(error) or type(error).__name__
        if not isinstance(error, ChasquiError):
            text = f"{type(error).__name__}: {error}"
            log.error("%s: a bug, going on: %s", self.name, text, exc_info=error)
        elif self.failures == 1 or text != self._last_error:
            log.warning("%s: %s%s", self.name, text, f" ({error.hint})" if error.hint else "")
        self._last_error, self._last_error_ms = text, self._clock.now_ms()


class SupervisedLoop(LoopStatus):
    """Takes turns until stopped. `recover` is called when the consumer group is gone, before the next turn."""

    def __init__(self, name: str, clock: Clock, *, recover: Callable[[], Awaitable[object]] | None = None) -> None:
        super().__init__(name, clock)
        self._recover = recover

    async def run(self, take_turn: Callable[[], Awaitable[TurnResult]], stop: asyncio.Event) -> None:
        """Take turns until stopped. The current turn is finished then, the pause after it is not."""
        try:
            while not stop.is_set():
                pause_s = await self._run_turn(take_turn)
                if pause_s > 0:
                    await sleep_or_stop(self._clock, pause_s, stop)
        finally:
            self.set_role("stopped")

    async def _run_turn(self, take_turn: Callable[[], Awaitable[TurnResult]]) -> float:
        """One turn; returns how long to pause after it, also when it failed."""
        try:
            turn = await take_turn()
        except Exception as error:  # noqa: BLE001 - the top of a loop: nothing but a stop may end it
            self.on_failure(error)
            if isinstance(error, NoGroup) and self._recover:
                await self._try_recovery(self._recover)
            return backoff_for(error).delay_s(self.failures)
        self.on_success(turn.role, turn.notes)
        return turn.pause_s

    async def _try_recovery(self, recover: Callable[[], Awaitable[object]]) -> None:
        """The next turn shows whether it helped."""
        try:
            await recover()
            self.count("recovered")
        except Exception as error:  # noqa: BLE001 - the same loop's top
            self.record_error(error)


async def wait_for_event(event: asyncio.Event, seconds: float = IDLE_WAIT_S) -> None:
    """Wait for the event, but not longer than this."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def sleep_or_stop(clock: Clock, seconds: float, stop: asyncio.Event) -> None:
    """Sleep, but wake up when stopped."""
    naps = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(naps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for nap in naps:
            nap.cancel()
        await asyncio.gather(*naps, return_exceptions=True)
