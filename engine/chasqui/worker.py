"""The worker: one queue, one handler, and the promoter and scheduler that every worker has.

Names, arguments and defaults are those of the reference; what is ours comes after them, by keyword only. `consume/`
reads and runs the jobs; signal handlers are installed only by `serve`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import uuid
from typing import TYPE_CHECKING, Any, Self

from chasqui.clock import SystemClock
from chasqui.consume.consumer import Consumer
from chasqui.defaults import PromoterOptions as PromoterOptions
from chasqui.defaults import RetryDefaults
from chasqui.defaults import SchedulerOptions as SchedulerOptions
from chasqui.defaults import WorkerOptions as Options
from chasqui.errors import ConfigError
from chasqui.models import Job
from chasqui.schedule.promoter import Promoter
from chasqui.schedule.scheduler import Scheduler
from chasqui.server.address import with_tls
from chasqui.server.commands import Commands
from chasqui.server.link import AsyncLink
from chasqui.server.server_info import eviction_policy
from chasqui.wire.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

    from chasqui.clock import Clock
    from chasqui.server.connection_setup import Credentials
    from chasqui.server.secret import Secret
    from chasqui.supervision.supervisor import LoopState

log = logging.getLogger("chasqui.worker")

MIN_LEASE_MS = 50
"""A job that can be claimed sooner would be claimed before it is started."""

GC_THRESHOLD = 10_000
"""Every entry is four lists while it passes, and with prefetch there are a thousand entries."""

EVICTION_WARNING = "when memory is full this server deletes keys (%s), jobs among them: set maxmemory-policy noeviction"

_DEFAULTS = Options()
_RETRY_DEFAULTS = RetryDefaults()
_TICK_MS = SchedulerOptions().tick_ms


class Worker:
    """Runs a handler for every job of one queue.

    The handler is a coroutine function, or a plain function, which is run in a thread. It gets a `Job`; what it
    returns is the job's result, what it raises is its failure.

    Ours: crash_limit: after this many starts that no worker survived the job becomes a dead letter (`crashed`). heartbeat_ms: how
    often running jobs' leases are renewed; a third of `claim_min_idle_ms` by default. shutdown_timeout: seconds that
    `close` gives running handlers before they are cancelled and their jobs released. burst: end as soon as there
    is nothing to read. data_dir: where `embedded://` servers live. link: an open link to use instead of a new
    one; it is not closed.
    """

    def __init__(
        self,
        queue_name: str,
        handler: Callable[[Job], Awaitable[Any]] | Callable[[Job], Any],
        *,
        redis_url: str | Secret = "redis://127.0.0.1:6379",
        tls: bool = False,
        concurrency: int = _DEFAULTS.concurrency,
        max_attempts: int = _RETRY_DEFAULTS.max_attempts,
        group: str = _DEFAULTS.group,
        consumer_id: str | None = None,
        read_block_ms: int | None = None,
        read_count: int | None = None,
        claim_min_idle_ms: int | None = None,
        max_payload_bytes: int | None = None,
        dlq_max_stream_len: int | None = None,
        events_enabled: bool = True,
        delayed_enabled: bool = True,
        run_scheduler: bool = True,
        scheduler_tick_ms: int | None = None,
        store_results: bool = False,
        result_ttl_ms: int | None = None,
        credential_provider: Credentials | None = None,
        crash_limit: int = _RETRY_DEFAULTS.crash_limit,
        heartbeat_ms: int | None = None,
        shutdown_timeout: float = _DEFAULTS.shutdown_timeout_s,
        burst: bool = False,
        data_dir: Path | None = None,
        link: AsyncLink | None = None,
        clock: Clock | None = None,
    ) -> None:
        counts = {
            "concurrency": concurrency,
            "max_attempts": max_attempts,
            "read_block_ms": read_block_ms,
            "read_count": read_count,
            "claim_min_idle_ms": claim_min_idle_ms,
            "max_payload_bytes": max_payload_bytes,
            "dlq_max_stream_len": dlq_max_stream_len,
            "scheduler_tick_ms": scheduler_tick_ms,
            "crash_limit": crash_limit,
        }
        _check_counts(counts)
        self._queue_name = queue_name
        self._handler = handler
        self._url = with_tls(redis_url) if tls else redis_url
        self._credentials = credential_provider
        self._data_dir = data_dir
        self._given_link = link
        self._clock = clock or SystemClock()
        self._id = consumer_id or f"c-{uuid.uuid4()}"
        self._delayed, self._schedules = delayed_enabled, run_scheduler
        self._tick_ms = scheduler_tick_ms or _TICK_MS
        self._retry = RetryDefaults(max_attempts=max_attempts, crash_limit=max(1, crash_limit))
        self._options = _with_given(
            _DEFAULTS._replace(
                concurrency=max(1, concurrency),
                group=group,
                events=events_enabled,
                store_results=store_results,
                shutdown_timeout_s=shutdown_timeout,
                burst=burst,
            ),
            read_block_ms=read_block_ms,
            read_count=None if read_count is None else max(1, read_count),
            claim_min_idle_ms=None if claim_min_idle_ms is None else max(MIN_LEASE_MS, claim_min_idle_ms),
            heartbeat_ms=heartbeat_ms,
            max_payload_bytes=max_payload_bytes,
            dlq_cap=dlq_max_stream_len,
            result_ttl_ms=result_ttl_ms,
        )
        if self._options.result_ttl_ms <= 0:
            raise ConfigError(f"result_ttl_ms must be positive; got {self._options.result_ttl_ms}")
        self._stop: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._consumer: Consumer | None = None
        self._leaders: list[Promoter | Scheduler] = []
        self._closed = False

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue_name

    @property
    def consumer_id(self) -> str:
        """Its name in the group."""
        return self._id

    @property
    def is_running(self) -> bool:
        """Whether `run` is under way."""
        return self._task is not None and not self._task.done()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def done(self) -> int:
        """How many runs have come to an end so far."""
        return self._consumer.done if self._consumer else 0

    @property
    def loops(self) -> list[LoopState]:
        """The state of each of its loops. Empty before it runs."""
        parts = self._consumer.states if self._consumer else []
        return [*parts, *(leader.state for leader in self._leaders)]

    async def run(self) -> None:
        """Work until `close` is called, and return when what was under way has ended. Calling it again waits too.

        A server that cannot be reached at the start is an error; later on it is waited for.
        """
        if self._task is None:
            if self._closed:
                return
            self._stop = asyncio.Event()
            self._task = asyncio.ensure_future(self._run_worker(self._stop))
            try:
                await self._task
            finally:
                self._task = None
        else:
            await asyncio.shield(self._task)

    async def close(self) -> None:
        """Take no more jobs. It returns at once; `run` returns when what is under way has ended."""
        self._closed = True
        if self._stop:
            self._stop.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._queue_name!r} {self._id}>"

    async def _run_worker(self, stop: asyncio.Event) -> None:
        link = self._given_link or AsyncLink.open(
            self._url,
            timeout=self._options.reply_timeout_s,
            data_dir=self._data_dir,
            clock=self._clock,
            credentials=self._credentials,
        )
        try:
            await self._run_on_link(link, stop)
        finally:
            if link is not self._given_link:
                await link.close()

    async def _run_on_link(self, link: AsyncLink, stop: asyncio.Event) -> None:
        features = await link.features()
        if features.missing:
            words = ", ".join(features.missing)
            log.info("%s %s has no %s: scripts stand in", features.kind, features.version, words)
        policy = await link.run(eviction_policy())
        if policy not in (None, "noeviction"):
            log.warning(EVICTION_WARNING, policy)
        commands = Commands(features)
        keys = Keys(self._queue_name)
        self._consumer = Consumer(
            link,
            commands,
            keys,
            self._handler,
            consumer_id=self._id,
            make_job=Job,
            open_link=link.blocking_copy,
            options=self._options,
            retry=self._retry,
            clock=self._clock,
        )
        self._leaders = self._make_leaders(link, keys)
        _tune_gc()
        leading = [asyncio.create_task(leader.run(stop)) for leader in self._leaders]
        try:
            await self._consumer.run(stop)
        finally:
            stop.set()
            await asyncio.gather(*leading)

    def _make_leaders(self, link: AsyncLink, keys: Keys) -> list[Promoter | Scheduler]:
        leaders: list[Promoter | Scheduler] = []
        if self._delayed:
            options = PromoterOptions(events_cap=self._options.events_cap)
            events = self._options.events
            leaders.append(Promoter(link, keys, holder=self._id, options=options, clock=self._clock, events=events))
        if self._schedules:
            leaders.append(Scheduler(link, keys, options=SchedulerOptions(tick_ms=self._tick_ms), clock=self._clock))
        return leaders


async def serve(worker: Worker) -> None:
    """Run a worker until the process is asked to end: at the first SIGTERM or SIGINT it closes, at the second the
    process ends at once.
    """
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def on_signal(number: signal.Signals) -> None:
        for one in signals:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        log.info("%s: closing; once more to leave at once", number.name)
        closing.append(asyncio.ensure_future(worker.close()))

    closing: list[asyncio.Future[None]] = []
    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        await worker.run()
    finally:
        if not closing:
            for number in signals:
                loop.remove_signal_handler(number)


def _tune_gc() -> None:
    """Objects that exist now live as long as the worker, and new ones are mostly freed at once: with its defaults the
    collector would traverse both again and again.
    """
    gc.freeze()
    first, second, third = gc.get_threshold()
    if 0 < first < GC_THRESHOLD:
        gc.set_threshold(GC_THRESHOLD, second, third)


def _check_counts(counts: dict[str, int | None]) -> None:
    for name, value in counts.items():
        if value is not None and value < 0:
            raise ConfigError(f"{name} must be non-negative; got {value}")


def _with_given(options: Options, **given: Any) -> Options:
    """The options, with what was given; None leaves the default."""
    return options._replace(**{name: value for name, value in given.items() if value is not None})
