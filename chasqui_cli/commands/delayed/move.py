from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.delayed._change import AllOption, DelayedChange, JobIdsArgument, LimitOption, change_delayed
from chasqui_cli.commands.delayed._record import CHANGE_SCHEMA
from chasqui_cli.context.command_context import MAX_SAFE_INTEGER, CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.output.times import parse_duration_ms, parse_time_ms

if TYPE_CHECKING:
    from chasqui.operate.delayed_jobs import DelayedJob


@command(
    "delayed move",
    schema=CHANGE_SCHEMA,
    chooses=True,
    payloads=True,
    changes=True,
    undoable=True,
    failed=("gone", "undecodable"),
    hint="--by 1h  or  --to 2026-11-18T09:00Z",
)
def move(
    ctx: CommandContext,
    queue: QueueArgument,
    ids: JobIdsArgument = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="TIME", help="So much later, as in 1h; -1h is earlier.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="To this time: ISO-8601, or 1h from now.")
    ] = None,
    every: AllOption = False,
    limit: LimitOption = None,
) -> None:
    """Let jobs be due earlier or later. `undo` moves them back."""
    from chasqui.errors import ArgumentError

    if (by is None) == (to is None):
        raise ArgumentError("say how far or where to", hint="either --by 1h or --to 2026-12-24T18:00:00Z")
    shift = None if by is None else parse_duration_ms(by.removeprefix("-")) * (-1 if by.startswith("-") else 1)
    parse_time_ms(to or "now", 0, "future")  # an invalid time is refused before the search

    def target(member: DelayedJob, now_ms: int) -> int:
        at_ms = member.run_at_ms + shift if shift is not None else parse_time_ms(to or "", now_ms, "future")
        if at_ms > MAX_SAFE_INTEGER:
            raise ArgumentError(f"{by or to} is further away than a server can count")
        return max(0, at_ms)

    change_delayed(ctx, queue, ids or [], limit, DelayedChange("moved", "move", "moved", target=target), every=every)
