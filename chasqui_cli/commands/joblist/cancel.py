"""Cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chasqui_cli.commands.joblist._change import CHANGE_SCHEMA, JobChange, change_jobs
from chasqui_cli.commands.joblist._options import AllOption, JobIdsArgument, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from chasqui.foreign.joblist import JobChanges
    from chasqui_cli.context.session import Session


@command("joblist cancel", schema=CHANGE_SCHEMA, changes=True, undoable=True)
def cancel(ctx: CommandContext, queue: QueueArgument, ids: JobIdsArgument = None, every: AllOption = False) -> None:
    """Delete pending jobs; what was claimed meanwhile runs. `chasqui undo` brings them back."""
    from chasqui.foreign import joblist

    keys = joblist_keys(queue)

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        return session.link.run(joblist.cancel(keys, some))

    effect = "they will not run; `chasqui undo` puts them at the end of the queue"
    change_jobs(ctx, keys, ids, JobChange("cancel", "cancelled", "pending", effect, act, deletes=True), every=every)
