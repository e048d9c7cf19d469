from __future__ import annotations

from chasqui_cli.commands.job._query import JobIdArgument, read_result
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.output.columns import column
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format, print_line

RESULT_SCHEMA = {"queue": "str", "id": "str", "result": "any"}


@command("job result", schema=RESULT_SCHEMA, many=False, payloads=True)
def result(ctx: CommandContext, queue: QueueArgument, job_id: JobIdArgument) -> None:
    """What a job returned, as JSON. Workers keep it for a while, and only with store_results."""
    from chasqui.errors import NotFound

    with ctx.session() as session:
        value = read_result(session, queue, job_id)
    if value is None:
        raise NotFound(
            f"there is no result of {job_id!r} in {queue!r}",
            hint="results expire, and only workers with store_results keep them; see: chasqui job show",
        )
    shown = ctx.redacted(value)
    if ctx.output is Format.TABLE:
        print_line(json_text(shown, indent=2))
    else:
        ctx.write_record({"queue": queue, "id": job_id, "result": shown}, [column("result"), column("id")])
