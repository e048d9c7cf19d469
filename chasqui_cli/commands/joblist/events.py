"""`chasqui joblist events`: what workers publish, as it arrives."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.joblist._options import QueueArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.output.columns import column

EVENT_SCHEMA = {"queue": "str", "id": "str?", "status": "str?", "raw": "str"}


EVENT_COLUMNS = [column("id"), column("status"), column("raw", wide=True)]


@command("joblist events", schema=EVENT_SCHEMA, effect=Effect.RUNS, streams=True)
def events(
    ctx: CommandContext,
    queue: QueueArgument,
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many; 0 for never.")] = 0,
) -> None:
    """What workers tell, as it comes: completed, retry, failed. Claims, reclaims and enqueuing are told by nobody."""
    from chasqui.foreign import joblist
    from chasqui_cli.output.writer import RecordStreamWriter

    writer = RecordStreamWriter.open(EVENT_COLUMNS, ctx.output_style(), ends=count > 0)
    with ctx.link() as link:
        ctx.info(f"listening on {joblist_keys(queue).events}; what was told before is gone")
        for number, event in enumerate(joblist.follow_events(link, joblist_keys(queue)), 1):
            raw = event.raw.decode("utf-8", "surrogateescape")
            writer.write({"queue": queue, "id": event.id, "status": event.status, "raw": raw})
            if count and number >= count:
                break
    writer.close()
