"""`chasqui joblist enqueue`: adds one job."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.joblist._options import QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.json_schema import OptionalKey

ENQUEUE_SCHEMA = {"queue": "str", "id": "str?", "outcome": OptionalKey("str")}
"""`outcome` is present in a dry run only: `would enqueue`."""


@command("joblist enqueue", changes=True, asks="protected", schema=ENQUEUE_SCHEMA, many=False)
def enqueue(
    ctx: CommandContext,
    queue: QueueArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help="The payload as JSON; - reads stdin.")] = "{}",
    job_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="An id of one's own: adding it again adds nothing.")
    ] = None,
) -> None:
    """Enqueue a job; prints its id. `joblist cancel` takes it back while nobody has claimed it."""
    from chasqui.foreign import check_same_slot, joblist
    from chasqui_cli.input.values import parse_json_argument
    from chasqui_cli.output.writer import Format, print_line

    payload = parse_json_argument(data, "DATA")
    if not ctx.confirm(ChangePlan("enqueue", queue, "jobs", [{}], preposition="to")):
        ctx.write_record({"queue": queue, "id": job_id, "outcome": "would enqueue"})
        return
    with ctx.session() as session, ctx.optional_journal_operation(queue) as journal:
        check_same_slot(session.link, joblist_keys(queue))
        added = session.link.run(
            joblist.enqueue(joblist_keys(queue), payload, now_ms=session.server_now_ms(), job_id=job_id)
        )
        ctx.change_result.done = 1
        if journal:
            journal.set_result(enqueued=added)
    if ctx.output in (Format.TABLE, Format.WIDE, Format.NAME):
        from chasqui_cli.output.escape_text import safe

        print_line(safe(added))
    else:
        ctx.write_record({"queue": queue, "id": added})
