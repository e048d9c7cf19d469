"""Follows events as they come: one queue's, as in the reference package, or many queues' at once.

No server error ends it: it waits and reads on where it was. `inspect/events.py` reads the events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from chasqui.clock import SystemClock
from chasqui.defaults import FollowOptions
from chasqui.errors import ServerError
from chasqui.inspect import events
from chasqui.inspect.events import Gap, StoredEvent
from chasqui.server.address import with_tls
from chasqui.server.commands import Commands
from chasqui.server.link import AsyncLink
from chasqui.supervision.supervisor import backoff_for, sleep_or_stop
from chasqui.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from pathlib import Path
    from types import TracebackType

    from chasqui.clock import Clock
    from chasqui.inspect.events import EventBatch, EventPosition
    from chasqui.server.connection_setup import Credentials
    from chasqui.wire.event_entry import Event

log = logging.getLogger("chasqui.events")

_NUMBERS = ("attempt", "backoff_ms", "delay_ms", "duration_us", "ts")
_DEFAULTS = FollowOptions()


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """One event. `name` is what happened, `job_id` is None where no single job is meant, `job_name` is "" for none.

    fields: everything else in the event, by name; numbers as `int` where they are numbers.
    queue, entry_id: where it is stored. `QueueEvents(..., last_event_id=entry_id)` goes on after it.
    """

    name: str
    job_id: str | None
    job_name: str
    fields: dict[str, Any]
    queue: str = ""
    entry_id: str = ""

    @classmethod
    def from_stored(cls, stored: StoredEvent) -> QueueEvent:
        """The event as users see it."""
        event = stored.event
        return cls(event.kind, event.job_id, event.name, _fields(event), stored.queue, stored.entry_id)


class EventFollower:
    """The events of any number of queues, as they come, over one link; gaps among them.

    On a single server one call waits for all queues. In a cluster no call can; there several queues are asked in turn.
    """

    def __init__(
        self,
        link: AsyncLink,
        queues: Sequence[str],
        *,
        last_event_id: str = events.NEWEST,
        options: FollowOptions = _DEFAULTS,
        clock: Clock | None = None,
    ) -> None:
        self._link = link
        self._options = options
        self._clock = clock or SystemClock()
        self._pending = [(queue, last_event_id) for queue in queues]
        self._positions: dict[str, EventPosition] = {}
        self._items: deque[StoredEvent | Gap] = deque()
        self._stop = asyncio.Event()
        self._failures = 0

    def add_queue(self, queue: str, last_event_id: str = "0") -> None:
        """One more queue, from the next read on; by default with all its events."""
        self._pending.append((queue, last_event_id))

    async def start(self) -> None:
        """Find the position of each queue now: from here on nothing is missed. The first read does it if needed."""
        while self._pending:
            last_event_id = self._pending[0][1]
            batch = [pair for pair in self._pending if pair[1] == last_event_id]
            commands = Commands(await self._link.features())
            positions = await self._link.run(
                events.start_positions(commands, [Keys(queue) for queue, _ in batch], last_event_id)
            )
            for pair in batch:  # and no others: more may have been added meanwhile
                self._pending.remove(pair)
            self._positions |= {at.keys.queue: at for at in positions}

    def __aiter__(self) -> AsyncIterator[StoredEvent | Gap]:
        return self._iterate()

    async def close(self) -> None:
        """End every iteration, also one that waits right now. The link is the caller's and stays open."""
        self._stop.set()

    async def _iterate(self) -> AsyncIterator[StoredEvent | Gap]:
        """Items that were read and not yielded stay, so a second iteration goes on where the first ended."""
        while not self._stop.is_set():
            if not self._items:
                await self._read_with_retry()
            while self._items and not self._stop.is_set():
                yield self._items.popleft()

    async def _read_with_retry(self) -> None:
        """One read. After an error, a pause; an error of one queue does not stop the others."""
        try:
            error = await self._until_stopped(self._read())
        except ServerError as trouble:
            error = trouble
        if error is None:
            self._failures = 0
        elif not self._stop.is_set():
            self._failures += 1
            if self._failures == 1:
                log.warning("events: %s; going on", error)
            await sleep_or_stop(self._clock, backoff_for(error).delay_s(self._failures), self._stop)

    async def _read(self) -> ServerError | None:
        """Read on and queue the items; returns the error of a queue, if there was one."""
        await self.start()
        commands, single = Commands(await self._link.features()), self._can_block()
        flow = events.read_after(
            commands,
            list(self._positions.values()),
            count=self._options.count,
            block_ms=self._options.block_ms if single else None,
        )
        batches = await self._link.run(flow)
        self._accept(batches)
        if not self._items and not (single and self._options.block_ms):
            await sleep_or_stop(self._clock, self._options.poll_ms / 1000, self._stop)
        return next((batch.error for batch in batches if batch.error), None)

    def _accept(self, batches: Sequence[EventBatch]) -> None:
        self._positions |= {batch.position.keys.queue: batch.position for batch in batches}
        for batch in batches:
            self._items.extend(batch.items)

    def _can_block(self) -> bool:
        return self._link.address.kind != "cluster" or len(self._positions) == 1

    async def _until_stopped(self, work: Coroutine[Any, Any, ServerError | None]) -> ServerError | None:
        """The result of the work, unless stopped: then it is cancelled, whatever it waits for."""
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for future in (task, stopped):
                future.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)


class QueueEvents:
    """One queue's events as an async iterator, from now on or after an event that was seen before.

        async with QueueEvents("emails") as events:
            async for event in events:
                print(event.name, event.job_id, event.fields)

    Entering the context fixes where "now" is; without it that happens at the first event asked for. Iterating ends
    with `close()`. For events that were lost before they could be read `on_gap` is called, by default a warning in the
    log; `with_gaps()` puts them among the events instead. credential_provider, data_dir, link: as for a `Queue`.
    """

    def __init__(
        self,
        queue_name: str,
        *,
        redis_url: str = "redis://127.0.0.1:6379",
        tls: bool = False,
        last_event_id: str = events.NEWEST,
        block_ms: int = _DEFAULTS.block_ms,
        count: int = _DEFAULTS.count,
        on_gap: Callable[[Gap], None] | None = None,
        credential_provider: Credentials | None = None,
        data_dir: Path | None = None,
        link: AsyncLink | None = None,
    ) -> None:
        self._name = queue_name
        self._is_ours = link is None
        self._link = link or AsyncLink.open(
            with_tls(redis_url) if tls else redis_url,
            read_only=True,
            data_dir=data_dir,
            credentials=credential_provider,
        )
        options = FollowOptions(block_ms=block_ms, count=count)
        self._follower = EventFollower(self._link, [queue_name], last_event_id=last_event_id, options=options)
        self._on_gap = on_gap or _log_gap

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    def __aiter__(self) -> AsyncIterator[QueueEvent]:
        return self._iterate()

    async def with_gaps(self) -> AsyncIterator[QueueEvent | Gap]:
        """The events, and among them what was lost between them."""
        async for item in self._follower:
            yield item if isinstance(item, Gap) else QueueEvent.from_stored(item)

    async def _iterate(self) -> AsyncIterator[QueueEvent]:
        async for event in self.with_gaps():
            if isinstance(event, Gap):
                self._on_gap(event)
            else:
                yield event

    async def close(self) -> None:
        """End iteration and close the connections."""
        await self._follower.close()
        if self._is_ours:
            await self._link.close()

    async def __aenter__(self) -> Self:
        await self._follower.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _fields(event: Event) -> dict[str, Any]:
    """The fields of the event beyond kind, job and name. The first of a name counts; odd bytes are replaced."""
    known = {name: getattr(event, name) for name in (*_NUMBERS, "reason")}
    fields = {name: value for name, value in known.items() if value is not None}
    for raw, value in event.extra:
        name = raw.decode("utf-8", "replace")
        fields.setdefault(name, _parse_value(name, value.decode("utf-8", "replace")))
    return fields


def _parse_value(name: str, text: str) -> int | str:
    """A number as the reference reads one, so also where we would not write it that way."""
    if name in _NUMBERS:
        with suppress(ValueError):
            return int(text)
    return text


def _log_gap(gap: Gap) -> None:
    lost = "some" if gap.lost_estimate is None else gap.lost_estimate
    log.warning("%s: events between %s and %s were lost (%s; %s)", gap.queue, gap.from_id, gap.to_id, lost, gap.why)
