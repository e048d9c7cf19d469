"""Clocks for tests: one whose nights pass at once, one that goes wrong, and a way to wait for what must come true."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path

from chasqui.clock import SystemClock

_REAL = SystemClock()


class FakeClock:
    """No sleep waits: it is recorded, moves the time on, and lets other tasks run for a moment."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic(self) -> float:
        return self._now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        self.sleep_sync(seconds)
        await _REAL.sleep(0)

    def sleep_sync(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now_ms += seconds * 1000


class SkewedClock(SystemClock):
    """The machine's clock, wrong by this much."""

    def __init__(self, wrong_by_ms: int) -> None:
        self._wrong_by_ms = wrong_by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._wrong_by_ms


class FileControlledClock(SystemClock):
    """The machine's clock, wrong by the number of ms in a file: a test can move it while it is in use."""

    def __init__(self, rudder: Path) -> None:
        self._rudder = rudder

    def now_ms(self) -> int:
        return super().now_ms() + int(self._rudder.read_text())


async def eventually(holds: Callable[[], object | Awaitable[object]], seconds: float = 15) -> float:
    """Look until it holds; answers after how many seconds it did."""
    begun = _REAL.monotonic()
    while True:
        held = holds()
        if inspect.isawaitable(held):
            held = await held
        waited = _REAL.monotonic() - begun
        if held:
            return waited
        assert waited < seconds, f"{inspect.getsource(holds).strip()} did not hold within {seconds} s"
        await _REAL.sleep(0.01)
