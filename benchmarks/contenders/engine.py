"""An engine with the doors Queue and Worker. This one and the released one are both used through them, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from benchmarks.meter import Meter

BULK = 5_000

Handler = Callable[[Any], None]


async def produce(library: str, url: str, queue: str, jobs: int, meter: Meter) -> None:
    """Bulk adds of plain jobs, the fast way of either library; the first job only warms it up."""
    async with import_module(library).Queue(queue, redis_url=url) as producer:
        await producer.add_bulk(_plain(range(1)))
        meter.mark()
        for start in range(1, jobs, BULK):
            await producer.add_bulk(_plain(range(start, min(start + BULK, jobs))))
        meter.jobs = jobs - 1
        meter.mark()


def _plain(numbers: range) -> list[dict[str, Any]]:
    return [{"name": "", "data": {"i": number, "to": "ada@example.com"}} for number in numbers]


async def add(library: str, url: str, queue: str) -> Callable[[Any], Awaitable[Any]]:
    """A way to add one job at a time over one connection."""
    producer = import_module(library).Queue(queue, redis_url=url)
    return lambda data: producer.add("", data)


async def consume(
    library: str, url: str, queue: str, handler: Handler, *, events: bool, plain: bool, concurrency: int
) -> None:
    """Run a worker until the process ends."""

    async def awaited(job: Any) -> None:
        handler(job.data)

    def called(job: Any) -> None:
        handler(job.data)

    worker = import_module(library).Worker(
        queue,
        called if plain else awaited,
        redis_url=url,
        concurrency=concurrency,
        events_enabled=events,
    )
    running = asyncio.ensure_future(worker.run())
    await running
