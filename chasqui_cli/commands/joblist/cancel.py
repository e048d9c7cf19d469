"""`chasqui joblist cancel`: deletes pending jobs."""

from __future__ import annotations

from chasqui_cli.commands.joblist._change import JobChange, change_command, change_jobs
from chasqui_cli.commands.joblist._options import AllOption, JobIdsArgument, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext


@change_command("joblist cancel", undoable=True)
def cancel(ctx: CommandContext, queue: QueueArgument, ids: JobIdsArgument = None, every: AllOption = False) -> None:
    """Delete pending jobs; what was claimed meanwhile runs. `chasqui undo` brings them back."""
    from chasqui.foreign import joblist

    keys = joblist_keys(queue)

    effect = "they will not run; `chasqui undo` puts them at the end of the queue"
    change = JobChange("cancel", "cancelled", "pending", effect, lambda some: joblist.cancel(keys, some), deletes=True)
    change_jobs(ctx, keys, ids, change, every=every)
