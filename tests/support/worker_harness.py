"""A workshop: one queue on one server, jobs to put in, workers to let loose on them, and everything left behind to see.

For tests of the worker; the handlers and the judgement are theirs.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui.clock import SystemClock
from chasqui.server.commands.replies import PendingEntry, RawEntry
from chasqui.wire import dead_letter_entry, envelope, event_entry, payload, stream_entry
from chasqui.wire.envelope import Envelope
from chasqui.worker import Worker
from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from chasqui.wire.dead_letter_entry import DeadLetterEntry
    from chasqui.wire.event_entry import Event
    from chasqui.wire.retry_override import RetryOverride

CLOCK = SystemClock()
PATIENCE_S = 15.0


async def wait_until(holds: Callable[[], object], what: str) -> None:
    """Let everything run until it holds."""
    end = CLOCK.monotonic() + PATIENCE_S
    while not holds():
        assert CLOCK.monotonic() < end, f"never: {what}"
        await CLOCK.sleep(0.003)


@dataclass(slots=True)
class WorkerHarness:
    bench: QueueHarness
    url: str

    def add(
        self,
        job_id: str,
        data: Any = None,
        *,
        name: str = "",
        attempt: int = 0,
        retry: RetryOverride | None = None,
    ) -> bytes:
        job = Envelope(job_id, payload.from_data(data), CLOCK.now_ms(), attempt, retry)
        return self.add_raw(*stream_entry.encode(envelope.encode(job), name))

    def add_raw(self, *fields: bytes) -> bytes:
        entry_id: bytes = self.bench.run_calls(self.bench.commands.add_unchecked(self.bench.keys, fields))
        return entry_id

    def worker(self, handler: Callable[[Any], Any], **options: Any) -> Worker:
        return Worker(self.bench.queue, handler, redis_url=self.url, **options)

    @asynccontextmanager
    async def running_worker(self, handler: Callable[[Any], Any], **options: Any) -> AsyncIterator[Worker]:
        """A worker for the length of the block; it has ended cleanly after it."""
        worker = self.worker(handler, **options)
        running = asyncio.ensure_future(worker.run())
        try:
            yield worker
        finally:
            await worker.close()
            await running

    async def run_until_empty(self, handler: Callable[[Any], Any], **options: Any) -> Worker:
        """Let a worker do what there is, and return when it has."""
        worker = self.worker(handler, burst=True, **options)
        await worker.run()
        return worker

    def events(self, job_id: str | None = None) -> list[Event]:
        rows = self.bench.command("XRANGE", self.bench.keys.events, "-", "+")
        events = [event_entry.decode(entry.fields) for entry in RawEntry.list_from_reply(rows)]
        return [event for event in events if job_id is None or event.job_id == job_id]

    def kinds(self, job_id: str | None = None) -> list[str]:
        return [event.kind for event in self.events(job_id)]

    def dead(self) -> list[DeadLetterEntry]:
        rows = self.bench.command("XRANGE", self.bench.keys.dlq, "-", "+")
        return [dead_letter_entry.decode(entry.fields) for entry in RawEntry.list_from_reply(rows)]

    def pending(self) -> dict[bytes, PendingEntry]:
        rows = self.bench.run_calls(self.bench.commands.pending_page(self.bench.keys, GROUP, 1000))
        return {entry.entry_id: entry for entry in PendingEntry.list_from_reply(rows)}

    def waiting(self) -> int:
        length: int = self.bench.command("XLEN", self.bench.keys.stream)
        return length

    def groups(self) -> list[bytes]:
        rows = self.bench.command("EXISTS", self.bench.keys.stream) and self.bench.command(
            "XINFO", "GROUPS", self.bench.keys.stream
        )
        return [row[1] for row in rows or []]

    def consumers(self, group: str = GROUP) -> list[bytes]:
        rows = self.bench.command("XINFO", "CONSUMERS", self.bench.keys.stream, group)
        return [row[1] for row in rows]

    def counts(self, worker: Worker, loop: str) -> Mapping[str, int]:
        """What one of a worker's loops has counted."""
        return {state.name: state.counts for state in worker.loops}[loop]

    def abandon(self, *entry_ids: bytes, deliveries: int, idle_ms: int = 10_000_000) -> None:
        """Let entries look as if a worker had died over them, that many times."""
        stream = self.bench.keys.stream
        self.bench.run(self.bench.commands.ensure_group(self.bench.keys, GROUP))
        self.bench.command("XREADGROUP", "GROUP", GROUP, "dead", "COUNT", 1000, "STREAMS", stream, ">")
        for entry_id in entry_ids:
            words = ("IDLE", idle_ms, "RETRYCOUNT", deliveries, "JUSTID")
            self.bench.command("XCLAIM", stream, GROUP, "dead", 0, entry_id, *words)

    def is_empty(self) -> bool:
        return not self.waiting() and not self.bench.command("ZCARD", self.bench.keys.delayed)
