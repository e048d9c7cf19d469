"""Retry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.joblist._change import CHANGE_SCHEMA, JobChange, change_jobs
from chasqui_cli.commands.joblist._options import AllOption, HistoryName, JobIdsArgument, QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from chasqui.foreign.joblist import JobChanges
    from chasqui_cli.context.session import Session


@command("joblist retry", schema=CHANGE_SCHEMA, changes=True)
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

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        flow = joblist.retry(keys, some, source=source, at_once=at_once, reset=not keep_attempts)
        return session.link.run(flow)

    effect = "workers take them as soon as they come to them; this cannot be undone, only cancelled"
    change_jobs(ctx, keys, ids, JobChange("retry", "retried", source, effect, act), every=every)
