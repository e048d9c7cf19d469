from __future__ import annotations

from chasqui_cli.commands.context._config_file import COLUMNS, CONTEXT_SCHEMA, context_record
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.settings import read_contexts


@command("context list", server=False, schema=CONTEXT_SCHEMA, effect=Effect.READS_LOCAL)
def list_contexts(ctx: CommandContext) -> None:
    """List the contexts, and say which is the current one."""
    ctx.write_records([context_record(name) for name in read_contexts()[1]], COLUMNS)
    if not read_contexts()[1]:
        ctx.info("there is no context yet; make one: chasqui context set NAME url=redis://…")
