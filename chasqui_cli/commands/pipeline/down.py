"""`chasqui pipeline down`: stops the server that `up` started."""

from __future__ import annotations

from chasqui_cli.commands.pipeline._spark import SERVER_SCHEMA, server_record
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.settings import state_directory


@command("pipeline down", server=False, schema=SERVER_SCHEMA, many=False, effect=Effect.LOCAL)
def down(ctx: CommandContext) -> None:
    """End the Spark that `up` started."""
    from chasqui.spark import connect_server

    found = connect_server.stop(state_directory())
    ctx.info(f"ended {found.address}" if found else "none was running")
    ctx.write_record(server_record(None))
