"""`chasqui joblist retry`: puts failed or completed jobs back on the pending list."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.joblist._change import JobChange, change_command, change_jobs
from chasqui_cli.commands.joblist._options import AllOption, HistoryName, JobIdsArgument, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext


@change_command("joblist retry")
def retry(
    ctx: CommandContext,
    queue: QueueArgument,
    ids: JobIdsArgument = None,
    source: Annotated[HistoryName, typer.Option("--from", help="Which list.")] = "failed",
    at_once: Annotated[bool, typer.Option("--next", help="Before everything that waits.")] = False,
    keep_attempts: Annotated[
        bool, typer.Option("--keep-attempts", help="Let earlier attempts count; they begin anew by itself.")
    ] = False,
    every: AllOption = False,
) -> None:
    """Put failed or completed jobs back to work; their hashes stop expiring. What has expired is refused and told."""
    from chasqui.foreign import joblist

    keys = joblist_keys(queue)

    effect = "workers take them as soon as they come to them; this cannot be undone, only cancelled"
    change = JobChange(
        "retry",
        "retried",
        source,
        effect,
        lambda some: joblist.retry(keys, some, source=source, at_once=at_once, reset=not keep_attempts),
    )
    change_jobs(ctx, keys, ids, change, every=every)
