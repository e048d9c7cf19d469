"""`chasqui joblist work`: a worker for a list job queue, with a reclaimer that takes no live worker's job."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.joblist.naming import HistoryLength, KeptFor, Visibility, keys_of, options_of
from chasqui_cli.completing import list_names
from chasqui_cli.desk import Desk, at_desk

if TYPE_CHECKING:
    from chasqui.foreign.joblist import JobListWorker, Options
    from chasqui_cli.commands.worker.handlers import Found

COUNTED = ("completed", "retry", "failed", "lost", "reclaimed")


@at_desk()
def work(
    desk: Desk,
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:HANDLER", help="A function, or an object that has one as `.handler`."),
    ],
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", help="Whose jobs; by itself the handler's `queue`, or jobs.", autocompletion=list_names
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="So many jobs at a time.")] = 1,
    max_attempts: Annotated[int, typer.Option(min=1, metavar="N", help="How often a job is tried.")] = 3,
    visibility: Visibility = "5s",
    give_up_at: Annotated[
        int | None,
        typer.Option(
            "--give-up-at",
            min=1,
            metavar="N",
            help="Fail jobs that were claimed so often: they kill workers.",
        ),
    ] = None,
    no_reclaim: Annotated[bool, typer.Option("--no-reclaim", help="Leave reclaiming to others.")] = False,
    ttl: KeptFor = "5m",
    history: HistoryLength = 50,
    app_dir: Annotated[
        Path | None, typer.Option("--app-dir", metavar="DIR", help="Where your modules are; here by itself.")
    ] = None,
) -> None:
    """Run a handler for every job of a list queue, until SIGTERM or Ctrl-C; running jobs are finished first.

    The handler gets a claim (`id`, `payload`, `attempts`); what it returns is the result, what it raises the failure.
    Claims are kept fresh while it runs, and those of dead workers are taken back.
    """
    import asyncio

    from chasqui_cli.commands.worker.handlers import find
    from chasqui_cli.leading import check_may_write

    check_may_write(desk, "work")
    found = find(target, app_dir or Path.cwd())
    options = options_of(visibility, ttl, history, max_attempts)
    name = queue or found.queue or "jobs"
    desk.say(f"handler {target} from {found.file}; queue {name}, {concurrency:,} at a time")
    asyncio.run(_work(desk, name, found, options, concurrency, give_up_at, reclaims=not no_reclaim))


async def _work(
    desk: Desk,
    queue: str,
    found: Found,
    options: Options,
    concurrency: int,
    give_up_at: int | None,
    *,
    reclaims: bool,
) -> None:
    import asyncio

    from chasqui import SystemClock
    from chasqui.foreign import check_together
    from chasqui.foreign.joblist import JobListWorker
    from chasqui_cli.status import Status, logged

    clock, stop = SystemClock(), asyncio.Event()
    status, link = Status(clock.mono, quiet=desk.quiet), desk.async_link()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        check_together(link, keys_of(queue))
        await link.features()
        worker = JobListWorker(
            link,
            keys_of(queue),
            found.handler,
            options=options,
            concurrency=concurrency,
            reclaim_every_s=None if reclaims else 0,
            give_up_at=give_up_at,
        )
        with logged(status, level=logging.WARNING):
            running = asyncio.ensure_future(worker.run(stop))
            while not running.done():
                status.show(f"{queue}: {_how(worker)}", _counts(worker))
                await asyncio.wait([running], timeout=status.pause_s)
            await running
        status.end(f"{queue}: {_counts(worker)}")
    finally:
        status.end()
        await link.close()


def _how(worker: JobListWorker) -> str:
    """The worst of it: a loop that fails is the news."""
    failing = next((one for one in worker.states if one.role == "failing"), None)
    return f"failing: {failing.name}: {failing.last_error}" if failing else "working"


def _counts(worker: JobListWorker) -> str:
    return ", ".join(f"{worker.total(what):,} {what}" for what in COUNTED)
