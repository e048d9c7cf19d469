"""The only file that reads the local clock. What is *due* is decided by the server's clock, never by this one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """`now_ms` to store, `monotonic` to subtract, `sleep` to wait."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970, to be stored."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, to be subtracted."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let others run for a while."""
        ...

    def sleep_sync(self, seconds: float) -> None:
        """Block this thread for a while."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970, to be stored."""
        return time.time_ns() // 1_000_000  # noqa: TID251 - this is the clock

    # Asked several times for every job that passes, so there is not another call around it.
    monotonic = staticmethod(time.monotonic)  # noqa: TID251 - this is the clock

    async def sleep(self, seconds: float) -> None:
        """Let others run for a while."""
        import asyncio  # 50 ms of imports that a caller who never awaits should not pay

        await asyncio.sleep(seconds)  # noqa: TID251 - this is the clock

    def sleep_sync(self, seconds: float) -> None:
        """Block this thread for a while."""
        time.sleep(seconds)  # noqa: TID251 - this is the clock
