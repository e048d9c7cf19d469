"""One worker process at work, from its first connection to its last job; also as one of several."""

from __future__ import annotations

import logging
import multiprocessing
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chasqui_cli.commands.worker._handler import load_handler
from chasqui_cli.commands.worker._metrics import RunCounts, WorkerMetrics
from chasqui_cli.output.stdio import prepare_stdio, print_stderr
from chasqui_cli.output.times import format_duration

if TYPE_CHECKING:
    from chasqui import Worker
    from chasqui.supervision.supervisor import LoopState
    from chasqui_cli.commands.worker._handler import LoadedHandler
    from chasqui_cli.context.command_context import CommandContext

RATE_WINDOW_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What the command line wants of each process."""

    target: str
    app_dir: Path
    queue: str
    concurrency: int
    max_attempts: int
    store_results: bool
    result_ttl_ms: int | None
    burst: bool
    promoter: bool
    scheduler: bool
    events: bool
    claim_idle_ms: int | None
    metrics: tuple[str, int] | None


def run_in_fleet(ctx: CommandContext, orders: WorkerOptions) -> None:
    """What runs in each of several processes. An expected error is printed in a line, and the process is started again."""
    from chasqui.errors import ChasquiError

    prepare_stdio()
    number = int(multiprocessing.current_process().name.rpartition(" ")[2])
    try:
        run_process(ctx, orders, load_handler(orders.target, orders.app_dir), number)
    except ChasquiError as error:
        print_stderr(f"error: worker {number}: {error}")
        sys.exit(1)


def run_process(ctx: CommandContext, orders: WorkerOptions, found: LoadedHandler, number: int = 1) -> None:
    """Work until the process is asked to end, or the queue is drained in burst mode."""
    import asyncio

    asyncio.run(_run_process(ctx, orders, found, number))


async def _run_process(ctx: CommandContext, orders: WorkerOptions, found: LoadedHandler, number: int) -> None:
    import asyncio

    from chasqui import SystemClock, serve
    from chasqui_cli.output.status_line import StatusLine, logging_to

    clock = SystemClock()
    counts = RunCounts(clock.monotonic)
    if orders.metrics:
        host, port = orders.metrics
        counts.meters = WorkerMetrics(orders.queue, counts)
        counts.meters.serve(host, port + number - 1)
    link, began = ctx.async_link(), clock.monotonic()
    try:
        worker = _build_worker(orders, found, counts, link)
        # Of several processes only the first may write over its line: they share one terminal.
        status, gauge = (StatusLine(clock.monotonic, quiet=ctx.quiet or number > 1), _RateMeter(clock.monotonic()))
        with logging_to(status, level=logging.INFO):
            running = asyncio.ensure_future(serve(worker))
            while not running.done():
                now = clock.monotonic()
                status.update(
                    *_status_texts(worker, counts, gauge.rate(counts.done + counts.failed, now), clock.now_ms())
                )
                await asyncio.wait([running], timeout=status.refresh_interval_s)
            status.close()
            await running
        took = format_duration(round((clock.monotonic() - began) * 1000))
        ctx.info(f"{orders.queue}: {counts.done:,} done, {counts.failed:,} failed in {took}")
    finally:
        await link.close()


def _build_worker(orders: WorkerOptions, found: LoadedHandler, counts: RunCounts, link: object) -> Worker:
    from chasqui import Worker

    return Worker(
        orders.queue,
        counts.wrap_handler(found.handler),
        link=link,  # type: ignore[arg-type]  # an AsyncLink, which only the engine can name
        concurrency=orders.concurrency,
        max_attempts=orders.max_attempts,
        store_results=orders.store_results,
        result_ttl_ms=orders.result_ttl_ms,
        burst=orders.burst,
        delayed_enabled=orders.promoter,
        run_scheduler=orders.scheduler,
        events_enabled=orders.events,
        claim_min_idle_ms=orders.claim_idle_ms,
    )


class _RateMeter:
    """Jobs per second over the last few seconds."""

    def __init__(self, now: float) -> None:
        self._seen = [(now, 0)]

    def rate(self, count: int, now: float) -> float:
        self._seen.append((now, count))
        while len(self._seen) > 2 and now - self._seen[1][0] > RATE_WINDOW_S:
            self._seen.pop(0)
        then, before = self._seen[0]
        return (count - before) / (now - then) if now > then else 0.0


def _status_texts(worker: Worker, counts: RunCounts, rate: float, now_ms: int) -> tuple[str, str]:
    loops = worker.loops
    headline = f"{worker.name}: {_state_text(loops, now_ms)}"
    leads = [f"{one.name} {one.role}" for one in loops if one.role in ("leader", "standby")]
    parts = [
        f"{counts.done:,} done",
        f"{counts.failed:,} failed",
        f"{counts.running:,} in flight",
        f"{rate:,.0f}/s",
        *leads,
    ]
    return headline, " · ".join(parts)


def _state_text(loops: list[LoopState], now_ms: int) -> str:
    """The worst of it: a loop that fails is the news."""
    failing = [one for one in loops if one.role == "failing"]
    if failing:
        worst = min(failing, key=lambda one: one.since_ms)
        since = format_duration(max(0, now_ms - worst.since_ms) // 1000 * 1000)
        return f"failing since {since}: {worst.name}: {worst.last_error}"
    return "working" if loops else "starting"
