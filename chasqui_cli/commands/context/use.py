from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.context._config_file import (
    COLUMNS,
    CONTEXT_SCHEMA,
    context_record,
    load_document,
    require_context,
    save_document,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_contexts
from chasqui_cli.context.settings import read_contexts


@command("context use", server=False, schema=CONTEXT_SCHEMA, many=False, effect=Effect.LOCAL)
def use(
    ctx: CommandContext,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Which context; - for the one before.", autocompletion=complete_contexts),
    ],
) -> None:
    """Choose the context that counts from now on where no other server is named; `-` goes back to the one before."""
    from chasqui.errors import NotFound

    document = load_document()
    if name == "-":
        name = document.get("previous", "")
        if not name:
            raise NotFound("there is no context before this one", hint="choose one: chasqui context use NAME")
    require_context(name)
    current = read_contexts()[0]
    if current is not None and current != name:
        document["previous"] = current
    document["current"] = name
    save_document(document)
    ctx.info(f"the context is {name} now")
    ctx.write_record(context_record(name), COLUMNS)
