from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.settings import data_directory

if TYPE_CHECKING:
    from chasqui import EmbeddedServer
    from chasqui_cli.output.columns import Record

ServerName = Annotated[
    str | None,
    typer.Argument(help="Which embedded server, if not the one of the URL; each has a directory of its own."),
]


def server_name(ctx: CommandContext) -> str:
    """The embedded server that the URL names. Any other server is refused, not replaced by an embedded one."""
    from chasqui.errors import ConfigError

    settings = ctx.settings
    if settings.url.lower().startswith("embedded://"):
        return ctx.address.name or "default"
    if ctx.connection.names_a_server:
        raise ConfigError(
            "only embedded servers are started and stopped here, and the URL is none",
            hint="say which one by its name, or with -u embedded://NAME",
        )
    return "default"


def embedded_server(name: str) -> EmbeddedServer:
    from chasqui import EmbeddedServer, embedded_directory

    return EmbeddedServer(embedded_directory(data_directory(), name))


def embedded_record(embedded: EmbeddedServer, url: str) -> Record:
    status = embedded.status()
    return {"url": url} | {
        name: str(value) if isinstance(value, Path) else value for name, value in asdict(status).items()
    }
