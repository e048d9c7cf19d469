from __future__ import annotations

from chasqui_cli.commands.delayed._change import AllOption, DelayedChange, JobIdsArgument, LimitOption, change_delayed
from chasqui_cli.commands.delayed._record import CHANGE_SCHEMA
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument


@command(
    "delayed now",
    schema=CHANGE_SCHEMA,
    chooses=True,
    payloads=True,
    changes=True,
    undoable=True,
    failed=("gone", "undecodable"),
)
def now(
    ctx: CommandContext,
    queue: QueueArgument,
    ids: JobIdsArgument = None,
    every: AllOption = False,
    limit: LimitOption = None,
) -> None:
    """Run jobs now: each moves to the stream, whenever it was due. `undo` puts it back while nobody has read it."""
    change_delayed(ctx, queue, ids or [], limit, DelayedChange("run", "run now", "ran", "would run"), every=every)
