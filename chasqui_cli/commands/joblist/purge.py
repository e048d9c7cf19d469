"""`chasqui joblist purge`: deletes the jobs of a list."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.joblist._change import JobChange, change_command, change_jobs
from chasqui_cli.commands.joblist._options import JobIdsArgument, ListName, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext


@change_command("joblist purge", undoable=True)
def purge(
    ctx: CommandContext,
    queue: QueueArgument,
    which: Annotated[ListName, typer.Option("--list", help="Which of the four lists.")],
    held: Annotated[
        bool, typer.Option("--held", help="Also what workers hold: with --list processing that must be said.")
    ] = False,
    ids: JobIdsArgument = None,
) -> None:
    """Delete the jobs of one list, or some of them. `chasqui undo` brings them back."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import joblist

    if which == "processing" and not held:
        raise ArgumentError("workers hold these jobs", hint="add --held if they are meant")
    keys = joblist_keys(queue)

    effect = "jobs that did not run will not; `chasqui undo` puts them at the end of their list"
    change = JobChange(
        "purge", "purged", which, effect, lambda some: joblist.delete_jobs(keys, some, source=which), deletes=True
    )
    change_jobs(ctx, keys, ids, change, every=True)
