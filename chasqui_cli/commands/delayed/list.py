from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.delayed._change import JobIdsArgument
from chasqui_cli.commands.delayed._record import COLUMNS, DELAYED_SCHEMA, delayed_job_record
from chasqui_cli.commands.delayed._search import find_delayed
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.queues.targets import warn_if_missing


@command("delayed list", schema=DELAYED_SCHEMA, chooses=True, payloads=True)
def list_delayed(
    ctx: CommandContext,
    queue: QueueArgument,
    ids: JobIdsArgument = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 20,
) -> None:
    """Delayed jobs, soonest first; what is no job is shown with its bytes."""
    with ctx.session() as session:
        now_ms = session.server_now_ms()
        found = find_delayed(ctx, session, queue, ids or [], now_ms, None if ids else limit)
        if not found:
            warn_if_missing(ctx, session, queue)
    records = [delayed_job_record(ctx, queue, one) for one in found]
    ctx.write_records(records, COLUMNS, now_ms=now_ms)
