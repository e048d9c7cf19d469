"""Purge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.joblist._change import CHANGE_SCHEMA, JobChange, change_jobs
from chasqui_cli.commands.joblist._options import JobIdsArgument, ListName, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from chasqui.foreign.joblist import JobChanges
    from chasqui_cli.context.session import Session


@command("joblist purge", schema=CHANGE_SCHEMA, changes=True, undoable=True)
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

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        return session.link.run(joblist.delete_jobs(keys, some, source=which))

    effect = "jobs that did not run will not; `chasqui undo` puts them at the end of their list"
    change_jobs(ctx, keys, ids, JobChange("purge", "purged", which, effect, act, deletes=True), every=True)
