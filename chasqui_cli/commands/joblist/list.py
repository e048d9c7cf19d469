"""`chasqui joblist list`: the jobs of one of the four lists."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.joblist._options import COLUMNS, ListName, QueueArgument, joblist_keys, require_queue
from chasqui_cli.commands.joblist._record import JOB_SCHEMA, joblist_job_record
from chasqui_cli.context.command_context import CommandContext, command


@command("joblist list", schema=JOB_SCHEMA, payloads=True)
def list_jobs(
    ctx: CommandContext,
    queue: QueueArgument,
    which: Annotated[ListName, typer.Option("--list", help="Which of the four lists.")] = "pending",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 20,
) -> None:
    """Jobs of one list: of pending ones the next first, of the others the newest. Nothing is claimed."""
    from chasqui.foreign import joblist

    keys = joblist_keys(queue)
    with ctx.session() as session:
        require_queue(session, keys)
        now_ms = session.server_now_ms()
        ids = session.link.run(joblist.list_ids(keys, which, limit=limit))
        jobs = [session.link.run(joblist.read_job(keys, job_id)) for job_id in dict.fromkeys(ids)]
    ctx.write_records([joblist_job_record(ctx, queue, job) for job in jobs if job], COLUMNS, now_ms=now_ms)
