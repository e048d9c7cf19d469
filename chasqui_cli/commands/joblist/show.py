"""`chasqui joblist show`: one job with its hash and its places."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.joblist._options import COLUMNS, QueueArgument, joblist_keys
from chasqui_cli.commands.joblist._record import JOB_SCHEMA, joblist_job_record
from chasqui_cli.context.command_context import CommandContext, command


@command("joblist show", schema=JOB_SCHEMA, many=False, payloads=True)
def show(
    ctx: CommandContext, queue: QueueArgument, job_id: Annotated[str, typer.Argument(metavar="ID", help="Which job.")]
) -> None:
    """One job: its hash, the lists its id is in and where, how long it is kept. Exit code 4 when it is not there."""
    from chasqui.errors import NotFound
    from chasqui.foreign import joblist

    with ctx.session() as session:
        now_ms = session.server_now_ms()
        job = session.link.run(joblist.read_job(joblist_keys(queue), job_id))
    if job is None:
        raise NotFound(f"{queue} has nothing of a job {job_id}", hint="its hash has expired and its id left the lists")
    if job.is_expired:
        ctx.info("its hash has expired: only the id is left")
    ctx.write_record(joblist_job_record(ctx, queue, job), COLUMNS, now_ms=now_ms)
