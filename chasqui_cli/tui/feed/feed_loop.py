"""One loop reads for the tab in front: read, post a message, wait. A failed read is posted as such.

What is read is decided by the reader of the tab; here is only when it reads, and what that cost.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

from chasqui import Commands, SystemClock, no_features
from chasqui.errors import ChasquiError, ServerError
from chasqui_cli.tui.feed.queue_rows import TrendMemory
from chasqui_cli.tui.feed.tab_reader import FeedContext
from chasqui_cli.tui.feed_messages import ReadCost, ReadFailed, ReadTarget, ServerIdentified, ServerInfo, ViewReady

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message

    from chasqui import AsyncLink
    from chasqui.clock import Clock
    from chasqui_cli.queues.name_cache import NameCache
    from chasqui_cli.tui.feed.tab_reader import TabReader

INTERVAL_S = 2.0
RETRY_S = 1.0
MAX_BUSY_SHARE = 0.25
"""A tick may take this part of the interval; above it the interval doubles, and far below it halves again."""
MAX_SLOWDOWN = 32


class Feed:
    """Reads. Opened in the loop of the app, because its link belongs to one."""

    def __init__(
        self,
        open_link: Callable[[], AsyncLink],
        *,
        interval_s: float = INTERVAL_S,
        names: NameCache | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._open_link, self._names = open_link, names
        self._clock: Clock = clock or SystemClock()
        self.interval_s = interval_s
        self._slowdown = 1
        self._target = ReadTarget("fleet")
        self._listener: Callable[[Message], Any] = lambda _: None
        self._nudged, self._awake = asyncio.Event(), asyncio.Event()
        self._awake.set()
        self._place: FeedContext
        self._readers: dict[str, TabReader] = {}

    @staticmethod
    def job_details(raw: Any) -> list[tuple[str, str]]:
        """The details of one job or dead letter."""
        from chasqui_cli.tui.feed.job_details import job_details

        return job_details(raw)

    def set_listener(self, listener: Callable[[Message], Any]) -> None:
        """From now on messages go there."""
        self._listener = listener

    def set_target(self, target: ReadTarget) -> None:
        """Read for this from now on, beginning at once."""
        self._target = target
        self._nudged.set()

    def refresh(self) -> None:
        """Read now, and again what a reader cached."""
        for reader in self._readers.values():
            reader.forget()
        self._nudged.set()

    def pause(self) -> None:
        """Read no more until woken."""
        self._awake.clear()

    def resume(self) -> None:
        """Read again, at once."""
        self._awake.set()
        self._nudged.set()

    async def run(self) -> None:
        link = self._open_link()
        try:
            self._place = FeedContext(link, Commands(no_features()), TrendMemory(), self._names, self._nudged.set)
            introduced = False
            while True:
                await self._awake.wait()
                self._nudged.clear()
                took_s, answered = await self._tick(link)
                if answered and not introduced:
                    introduced = await self._identify_server(link)
                await self._wait(took_s, answered)
        finally:
            for reader in self._readers.values():
                reader.close()
            await link.close()

    def _reader(self, tab: str) -> TabReader:
        """The tab's reader, `DlqReader` of dlq_reader.py for `dlq`; imported when it is first needed."""
        if tab not in self._readers:
            module = import_module(f"{__package__}.{tab}_reader")
            self._readers[tab] = getattr(module, f"{tab.title()}Reader")(self._place)
        return self._readers[tab]

    async def _tick(self, link: AsyncLink) -> tuple[float, bool]:
        """One read, and what came of it. Answers how long it took and whether the server had an answer."""
        target, began, before = self._target, self._clock.monotonic(), _link_counters(link)
        try:
            view, now_ms = await self._reader(target.tab).read(target)
        except ChasquiError as error:
            lasting = not (isinstance(error, ServerError) and error.transient)
            self._listener(ReadFailed(target, str(error), lasting=lasting))
            return self._clock.monotonic() - began, False
        took_s = self._clock.monotonic() - began
        spent = [now - then for now, then in zip(_link_counters(link), before, strict=True)]
        cost = ReadCost(spent[0], spent[1], spent[2], took_s * 1000)
        self._adapt_interval(took_s)
        if target == self._target:
            self._listener(ViewReady(target, view, cost, now_ms, self.interval_s * self._slowdown))
        return took_s, True

    async def _identify_server(self, link: AsyncLink) -> bool:
        try:
            features = await link.features()
        except ChasquiError:
            return False
        self._listener(ServerIdentified(ServerInfo(str(link.address), features.kind, features.version)))
        return True

    def _adapt_interval(self, took_s: float) -> None:
        """A server that is slow to answer is asked less often."""
        interval = self.interval_s * self._slowdown
        if took_s > interval * MAX_BUSY_SHARE:
            self._slowdown = min(MAX_SLOWDOWN, self._slowdown * 2)
        elif self._slowdown > 1 and took_s < interval * MAX_BUSY_SHARE / 4:
            self._slowdown //= 2

    async def _wait(self, took_s: float, answered: bool) -> None:
        least_s = self._reader(self._target.tab).least_s
        interval = max(least_s, self.interval_s * self._slowdown) if answered else RETRY_S
        try:
            async with asyncio.timeout(max(0.02, interval - took_s)):
                await self._nudged.wait()
        except TimeoutError:
            pass


def _link_counters(link: AsyncLink) -> tuple[int, int, int]:
    return link.round_trips, link.commands, link.bytes_in + link.bytes_out
