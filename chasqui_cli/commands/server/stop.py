from __future__ import annotations

from chasqui_cli.commands.server._embedded import ServerName, embedded_record, embedded_server, server_name
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect


@command("server stop", effect=Effect.LOCAL)
def stop(ctx: CommandContext, name: ServerName = None) -> None:
    """Stop the embedded server for everybody. What it acknowledged is on disk."""
    name = name or server_name(ctx)
    embedded = embedded_server(name)
    stopped = embedded.stop()
    ctx.info("stopped" if stopped else "it was not running")
    ctx.write_record(embedded_record(embedded, f"embedded://{name}"))
