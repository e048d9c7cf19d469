"""The supervisor of every loop that runs for long: take a turn, rest, and when a turn fails decide how to go on.

No error of the server ends a loop. What a turn does is its owner's business; here it is only kept going, and its
state kept for those who look.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from chasqui.errors import ChasquiError, NoGroup, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from chasqui.clock import Clock

log = logging.getLogger("chasqui.supervision.supervisor")

LoopRole = Literal["running", "leader", "standby", "failing", "stopped"]
"""What a loop is doing. "running" is for loops that need no lease; "failing": its last turn did not succeed."""


class TurnResult(NamedTuple):
    """A turn that went well: how long to rest before the next, as what it was taken, and what is amiss all the same."""

    pause_s: float = 0.0
    role: LoopRole = "running"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopState:
    """How a loop is, for those who look.

    since_ms: since when it has this role. last_error: why the last failing turn failed, kept after recovery.
    notes: what is amiss now although turns succeed. counts: what it did since it was made.
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
    """Trouble that passes is tried again soon; a key of the wrong type or a missing right must be put right by
    somebody, so slowly; what is no trouble of the server's is a bug, and seldom mends itself.
    """
    if isinstance(error, NoGroup) or (isinstance(error, ServerError) and error.transient):
        return TRANSIENT_BACKOFF
    return CONFIG_BACKOFF if isinstance(error, ServerError) else BUG_BACKOFF


class SupervisedLoop:
    """One loop's life. `heal` is called when the consumer group is gone, before the next turn."""

    def __init__(self, name: str, clock: Clock, *, heal: Callable[[], Awaitable[object]] | None = None) -> None:
        self.name = name
        self._clock = clock
        self._heal = heal
        self._role: LoopRole = "stopped"
        self._since_ms = clock.now_ms()
        self._last_error: str | None = None
        self._last_error_ms: int | None = None
        self._notes: tuple[str, ...] = ()
        self._counts: Counter[str] = Counter()
        self._failures = 0

    @property
    def state(self) -> LoopState:
        """How it is right now."""
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

    async def run(self, take_turn: Callable[[], Awaitable[TurnResult]], stop: asyncio.Event) -> None:
        """Take turns until told to stop. The turn that is under way then is finished, the rest after it is not."""
        try:
            while not stop.is_set():
                pause_s = await self._run_turn(take_turn)
                if pause_s > 0:
                    await sleep_or_stop(self._clock, pause_s, stop)
        finally:
            self._set_role("stopped")

    async def _run_turn(self, take_turn: Callable[[], Awaitable[TurnResult]]) -> float:
        """One turn; answers how long to rest after it, however it went."""
        try:
            turn = await take_turn()
        except Exception as error:  # noqa: BLE001 - the top of a loop: nothing but a stop may end it
            return await self._on_failure(error)
        if self._failures:
            log.info("%s: works again after %d failures", self.name, self._failures)
            self._failures = 0
        self._log_notes(turn.notes)
        self._set_role(turn.role)
        return turn.pause_s

    async def _on_failure(self, error: Exception) -> float:
        self._failures += 1
        self.count("failures")
        self._log_error(error)
        self._set_role("failing")
        if isinstance(error, NoGroup) and self._heal:
            await self._try_recovery(self._heal)
        return backoff_for(error).delay_s(self._failures)

    async def _try_recovery(self, heal: Callable[[], Awaitable[object]]) -> None:
        """The next turn will tell whether it helped."""
        try:
            await heal()
            self.count("healed")
        except Exception as error:  # noqa: BLE001 - the same loop's top
            self._log_error(error)

    def _log_error(self, error: Exception) -> None:
        """Log what is new, and every bug with its trace; the hundredth of the same in a row is no news."""
        told = str(error) or type(error).__name__
        if not isinstance(error, ChasquiError):
            told = f"{type(error).__name__}: {error}"
            log.error("%s: a bug, going on: %s", self.name, told, exc_info=error)
        elif self._failures == 1 or told != self._last_error:
            log.warning("%s: %s%s", self.name, told, f" ({error.hint})" if error.hint else "")
        self._last_error, self._last_error_ms = told, self._clock.now_ms()

    def _log_notes(self, notes: tuple[str, ...]) -> None:
        for note in notes:
            if note not in self._notes:
                log.warning("%s: %s", self.name, note)
        self._notes = notes

    def _set_role(self, role: LoopRole) -> None:
        if role != self._role:
            self._role, self._since_ms = role, self._clock.now_ms()


async def sleep_or_stop(clock: Clock, seconds: float, stop: asyncio.Event) -> None:
    """Sleep, but wake up when told to stop."""
    naps = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(naps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for nap in naps:
            nap.cancel()
        await asyncio.gather(*naps, return_exceptions=True)
