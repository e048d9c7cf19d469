from __future__ import annotations

from chasqui_cli.commands.delayed._change import AllOption, DelayedChange, JobIdsArgument, LimitOption, change_delayed
from chasqui_cli.commands.delayed._record import CHANGE_SCHEMA
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument


@command(
    "delayed cancel",
    schema=CHANGE_SCHEMA,
    chooses=True,
    payloads=True,
    changes=True,
    undoable=True,
    failed=("gone", "undecodable"),
)
def cancel(
    ctx: CommandContext,
    queue: QueueArgument,
    ids: JobIdsArgument = None,
    every: AllOption = False,
    limit: LimitOption = None,
) -> None:
    """Remove delayed jobs by their exact bytes, with or without an id, jobs or not. `undo` puts them back."""
    change_delayed(ctx, queue, ids or [], limit, DelayedChange("cancelled", "cancel", "cancelled"), every=every)
