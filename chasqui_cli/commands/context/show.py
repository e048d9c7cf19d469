from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.context._config_file import COLUMNS, CONTEXT_SCHEMA, context_record, require_context
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_contexts
from chasqui_cli.context.settings import read_contexts
from chasqui_cli.output.columns import column


@command("context show", server=False, schema=CONTEXT_SCHEMA, many=False, effect=Effect.READS_LOCAL)
def show(
    ctx: CommandContext,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Which; the current one if none.", autocompletion=complete_contexts),
    ] = None,
) -> None:
    """Show what is kept of a context. Passwords are never shown."""
    from chasqui.errors import NotFound

    wanted = name or read_contexts()[0]
    if wanted is None:
        raise NotFound("no context is chosen", hint="choose one: chasqui context use NAME")
    require_context(wanted)
    ctx.write_record(context_record(wanted), [*COLUMNS, column("settings")])
