"""`chasqui joblist work`: a worker for a list job queue, with a reclaimer that takes no live worker's job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands._run_until_signal import run_until_signal
from chasqui_cli.commands.joblist._options import (
    HistoryOption,
    TtlOption,
    VisibilityOption,
    joblist_keys,
    joblist_options,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_joblist_queues

if TYPE_CHECKING:
    from chasqui import AsyncLink
    from chasqui.foreign.joblist import JobListWorker

COUNT_NAMES = ("completed", "retry", "failed", "lost", "reclaimed")


@command("joblist work", effect=Effect.RUNS)
def work(
    ctx: CommandContext,
    target: Annotated[
        str, typer.Argument(metavar="MODULE:HANDLER", help="A function, or an object that has one as `.handler`.")
    ],
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            help="Whose jobs; by itself the handler's `queue`, or jobs.",
            autocompletion=complete_joblist_queues,
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="So many jobs at a time.")] = 1,
    max_attempts: Annotated[int, typer.Option(min=1, metavar="N", help="How often a job is tried.")] = 3,
    visibility: VisibilityOption = "5s",
    give_up_at: Annotated[
        int | None,
        typer.Option(
            "--give-up-at", min=1, metavar="N", help="Fail jobs that were claimed so often: they kill workers."
        ),
    ] = None,
    no_reclaim: Annotated[bool, typer.Option("--no-reclaim", help="Leave reclaiming to others.")] = False,
    ttl: TtlOption = "5m",
    history: HistoryOption = 50,
    app_dir: Annotated[
        Path | None, typer.Option("--app-dir", metavar="DIR", help="Where your modules are; here by itself.")
    ] = None,
) -> None:
    """Run a handler for every job of a list queue, until SIGTERM or Ctrl-C; running jobs are finished first.

    The handler gets a claim (`id`, `payload`, `attempts`); what it returns is the result, what it raises the failure.
    Claims are kept fresh while it runs, and those of dead workers are taken back.
    """
    from chasqui.foreign import check_same_slot
    from chasqui.foreign.joblist import JobListWorker
    from chasqui_cli.commands.worker._handler import load_handler

    ctx.require_writable("work")
    found = load_handler(target, app_dir or Path.cwd())
    options = joblist_options(visibility, ttl, history, max_attempts)
    name = queue or found.queue or "jobs"
    ctx.info(f"handler {target} from {found.file}; queue {name}, {concurrency:,} at a time")
    keys = joblist_keys(name)

    def make(link: AsyncLink) -> JobListWorker:
        check_same_slot(link, keys)
        reclaim_every_s = 0 if no_reclaim else None
        return JobListWorker(
            link,
            keys,
            found.handler,
            options=options,
            concurrency=concurrency,
            reclaim_every_s=reclaim_every_s,
            give_up_at=give_up_at,
        )

    run_until_signal(
        ctx,
        make,
        lambda worker, _: (f"{name}: {_state_text(worker)}", _counts_text(worker)),
        lambda worker: f"{name}: {_counts_text(worker)}",
    )


def _state_text(worker: JobListWorker) -> str:
    """The first failing loop with its error, or `working`."""
    failing = next((one for one in worker.loop_states if one.role == "failing"), None)
    return f"failing: {failing.name}: {failing.last_error}" if failing else "working"


def _counts_text(worker: JobListWorker) -> str:
    return ", ".join(f"{worker.total(what):,} {what}" for what in COUNT_NAMES)
