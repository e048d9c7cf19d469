"""Run something in the foreground until SIGTERM or Ctrl-C, with a status line."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from chasqui import AsyncLink
    from chasqui_cli.context.command_context import CommandContext


class Runner(Protocol):
    """A promoter, a scheduler or a worker."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        ...


R = TypeVar("R", bound=Runner)


def run_until_signal(
    ctx: CommandContext,
    make: Callable[[AsyncLink], R],
    status_texts: Callable[[R, int], tuple[str, str]],
    closing_text: Callable[[R], str],
) -> R:
    """Run what `make` returns, and return it when it has ended. status_texts: headline and details, given the time."""
    import asyncio

    return asyncio.run(_run_until_signal(ctx, make, status_texts, closing_text))


async def _run_until_signal(
    ctx: CommandContext,
    make: Callable[[AsyncLink], R],
    status_texts: Callable[[R, int], tuple[str, str]],
    closing_text: Callable[[R], str],
) -> R:
    import asyncio

    from chasqui import SystemClock
    from chasqui_cli.output.status_line import StatusLine, logging_to

    clock, stop = SystemClock(), asyncio.Event()
    status, link = StatusLine(clock.monotonic, quiet=ctx.quiet), ctx.async_link()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await link.features()
        runner = make(link)
        with logging_to(status):
            running = asyncio.ensure_future(runner.run(stop))
            while not running.done():
                status.update(*status_texts(runner, clock.now_ms()))
                await asyncio.wait([running], timeout=status.refresh_interval_s)
            await running
        status.close(closing_text(runner))
        return runner
    finally:
        status.close()
        await link.close()
