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

log = logging.getLogger("chasqui.loops")

Role = Literal["running", "leader", "standby", "failing", "stopped"]
"""What a loop is doing. "running" is for loops that need no lease; "failing": its last turn did not succeed."""


class Turn(NamedTuple):
    """A turn that went well: how long to rest before the next, as what it was taken, and what is amiss all the same."""

    pause_s: float = 0.0
    role: Role = "running"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopState:
    """How a loop is, for those who look.

    since_ms: since when it has this role. last_error: why the last failing turn failed, kept after recovery.
    notes: what is amiss now although turns succeed. counts: what it did since it was made.
    """

    name: str
    role: Role
    since_ms: int
    last_error: str | None = None
    last_error_ms: int | None = None
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Patience(NamedTuple):
    """How long to wait after failures in a row: the first time, and at most."""

    first_s: float
    longest_s: float

    def after(self, failures: int) -> float:
        """The pause after the n-th failure in a row: doubled each time."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 16))


SOON = Patience(0.1, 3.0)
SLOWLY = Patience(1.0, 3.0)
RARELY = Patience(1.0, 30.0)


def patience_with(error: Exception) -> Patience:
    """Trouble that passes is tried again soon; a key of the wrong type or a missing right must be put right by
    somebody, so slowly; what is no trouble of the server's is a bug, and seldom mends itself.
    """
    if isinstance(error, NoGroup) or (isinstance(error, ServerError) and error.transient):
        return SOON
    return SLOWLY if isinstance(error, ServerError) else RARELY


class Loop:
    """One loop's life. `heal` is called when the consumer group is gone, before the next turn."""

    def __init__(
        self, name: str, clock: Clock, *, heal: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.name = name
        self._clock = clock
        self._heal = heal
        self._role: Role = "stopped"
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

    async def run(self, take_turn: Callable[[], Awaitable[Turn]], stop: asyncio.Event) -> None:
        """Take turns until told to stop. The turn that is under way then is finished, the rest after it is not."""
        try:
            while not stop.is_set():
                pause_s = await self._guarded(take_turn)
                if pause_s > 0:
                    await rest(self._clock, pause_s, stop)
        finally:
            self._become("stopped")

    async def _guarded(self, take_turn: Callable[[], Awaitable[Turn]]) -> float:
        """One turn; answers how long to rest after it, however it went."""
        try:
            turn = await take_turn()
        except Exception as error:  # noqa: BLE001 - the top of a loop: nothing but a stop may end it
            return await self._failed(error)
        if self._failures:
            log.info("%s: works again after %d failures", self.name, self._failures)
            self._failures = 0
        self._note(turn.notes)
        self._become(turn.role)
        return turn.pause_s

    async def _failed(self, error: Exception) -> float:
        self._failures += 1
        self.count("failures")
        self._tell(error)
        self._become("failing")
        if isinstance(error, NoGroup) and self._heal:
            await self._healed(self._heal)
        return patience_with(error).after(self._failures)

    async def _healed(self, heal: Callable[[], Awaitable[object]]) -> None:
        """The next turn will tell whether it helped."""
        try:
            await heal()
            self.count("healed")
        except Exception as error:  # noqa: BLE001 - the same loop's top
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Log what is new, and every bug with its trace; the hundredth of the same in a row is no news."""
        told = str(error) or type(error).__name__
        if not isinstance(error, ChasquiError):
            told = f"{type(error).__name__}: {error}"
            log.error("%s: a bug, going on: %s", self.name, told, exc_info=error)
        elif self._failures == 1 or told != self._last_error:
            log.warning("%s: %s%s", self.name, told, f" ({error.hint})" if error.hint else "")
        self._last_error, self._last_error_ms = told, self._clock.now_ms()

    def _note(self, notes: tuple[str, ...]) -> None:
        for note in notes:
            if note not in self._notes:
                log.warning("%s: %s", self.name, note)
        self._notes = notes

    def _become(self, role: Role) -> None:
        if role != self._role:
            self._role, self._since_ms = role, self._clock.now_ms()


async def rest(clock: Clock, seconds: float, stop: asyncio.Event) -> None:
    """Sleep, but wake up when told to stop."""
    naps = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(naps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for nap in naps:
            nap.cancel()
        await asyncio.gather(*naps, return_exceptions=True)
