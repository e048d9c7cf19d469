from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.repeatable._record import COLUMNS, SCHEDULE_SCHEMA, schedule_record
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.queues.targets import warn_if_missing


@command("repeatable list", schema=SCHEDULE_SCHEMA)
def list_schedules(
    ctx: CommandContext,
    queue: QueueArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 1000,
) -> None:
    """Every schedule, the next to fire first; those that are overdue or cannot be read say so."""
    from chasqui import Keys
    from chasqui.schedule import repeatable

    with ctx.session() as session:
        now_ms = session.server_now_ms()
        found = session.query(repeatable.list_specs, Keys(queue), limit)
        if not found:
            warn_if_missing(ctx, session, queue)
    ctx.write_records([schedule_record(one, now_ms) for one in found], COLUMNS, now_ms=now_ms)
    if len(found) == limit:
        ctx.info(f"the first {limit:,} only; --limit shows more")
