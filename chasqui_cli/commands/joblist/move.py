"""Move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.joblist._change import CHANGE_SCHEMA, JobChange, change_jobs
from chasqui_cli.commands.joblist._options import AllOption, JobIdsArgument, ListName, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from chasqui.foreign.joblist import JobChanges
    from chasqui_cli.context.session import Session

TargetOption = Annotated[str, typer.Option("--to", metavar="QUEUE", help="The other queue.")]


@command("joblist move", schema=CHANGE_SCHEMA, changes=True)
def move(
    ctx: CommandContext,
    queue: QueueArgument,
    to: TargetOption,
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

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        return session.link.run(joblist.move(keys, target, some, source=which))

    effect = f"they go to {to}; to undo it, move them back"
    change_jobs(ctx, keys, ids, JobChange("move", "moved", which, effect, act, target=target), every=every)
