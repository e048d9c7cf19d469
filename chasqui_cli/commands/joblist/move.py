"""`chasqui joblist move`: moves jobs to another queue."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.joblist._change import JobChange, change_command, change_jobs
from chasqui_cli.commands.joblist._options import AllOption, JobIdsArgument, ListName, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext


@change_command("joblist move")
def move(
    ctx: CommandContext,
    queue: QueueArgument,
    to: Annotated[str, typer.Option("--to", metavar="QUEUE", help="The other queue.")],
    ids: JobIdsArgument = None,
    which: Annotated[ListName, typer.Option("--list", help="Which of the lists; not processing.")] = "pending",
    every: AllOption = False,
) -> None:
    """Move jobs to the same list of another queue, whole. Moving them back is the undo."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import joblist

    keys, target = joblist_keys(queue), joblist_keys(to)
    if keys == target:
        raise ArgumentError(f"{queue!r} cannot be moved to itself", hint="--to names another queue")
    if which == "processing":
        raise ArgumentError(
            "a claimed job is its worker's", hint="wait for it, or take it back: chasqui joblist reclaim"
        )

    effect = f"they go to {to}; to undo it, move them back"
    change = JobChange(
        "move", "moved", which, effect, lambda some: joblist.move(keys, target, some, source=which), target=target
    )
    change_jobs(ctx, keys, ids, change, every=every)
