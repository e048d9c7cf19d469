from __future__ import annotations

from chasqui_cli.commands.server._embedded import ServerName, embedded_record, embedded_server, server_name
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect


@command("server start", effect=Effect.LOCAL)
def start(ctx: CommandContext, name: ServerName = None) -> None:
    """Start the embedded server as a service: it stays until `chasqui server stop`."""
    name = name or server_name(ctx)
    embedded = embedded_server(name)
    was_running = embedded.status().running
    embedded.start(service=True)
    ctx.info(f"{'already running' if was_running else 'started'}; use it with -u embedded://{name}")
    ctx.write_record(embedded_record(embedded, f"embedded://{name}"))
