"""`chasqui server`: who answers at a URL and what it can do; start and stop the embedded server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.settings import data_directory

if TYPE_CHECKING:
    from chasqui import EmbeddedServer, Features, Link
    from chasqui_cli.output.columns import Record

app = typer.Typer(add_completion=False, rich_markup_mode=None)

ServerName = Annotated[
    str | None,
    typer.Argument(help="Which embedded server, if not the one of the URL; each has a directory of its own."),
]


@app.callback(invoke_without_command=True)
def server(ctx: typer.Context) -> None:
    """Look at the server behind a URL; start and stop the embedded one."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
@command()
def status(desk: CommandContext) -> None:
    """Say who answers at the URL: kind, version, native words, memory, eviction and persistence.

    An embedded server (`-u embedded://`) is not started for the question.
    """
    address = desk.address()
    if address.kind == "embedded":
        name = address.name or "default"
        desk.write_record(embedded_record(embedded_server(name), f"embedded://{name}"))
        return
    with desk.link(address) as link:
        desk.write_record(_server_record(link))


@app.command()
@command()
def start(desk: CommandContext, name: ServerName = None) -> None:
    """Start the embedded server as a service: it stays until `chasqui server stop`."""
    name = name or server_name(desk)
    embedded = embedded_server(name)
    was_running = embedded.status().running
    embedded.start(service=True)
    desk.info(f"{'already running' if was_running else 'started'}; use it with -u embedded://{name}")
    desk.write_record(embedded_record(embedded, f"embedded://{name}"))


@app.command()
@command()
def stop(desk: CommandContext, name: ServerName = None) -> None:
    """Stop the embedded server for everybody. What it acknowledged is on disk."""
    name = name or server_name(desk)
    embedded = embedded_server(name)
    stopped = embedded.stop()
    desk.info("stopped" if stopped else "it was not running")
    desk.write_record(embedded_record(embedded, f"embedded://{name}"))


def server_name(desk: CommandContext) -> str:
    """The embedded server that the URL means. One that was asked for and is no such server is not replaced by ours."""
    from chasqui.errors import ConfigError

    settings = desk.settings()
    if settings.url.lower().startswith("embedded://"):
        return desk.address().name or "default"
    if desk.connection.names_a_server:
        raise ConfigError(
            "only embedded servers are started and stopped here, and the URL is none",
            hint="say which one by its name, or with -u embedded://NAME",
        )
    return "default"


def embedded_server(name: str) -> EmbeddedServer:
    from chasqui import EmbeddedServer, embedded_directory

    return EmbeddedServer(embedded_directory(data_directory(), name))


def _server_record(link: Link) -> Record:
    """Kind and native words found by trying, the rest as the server tells it."""
    from chasqui import server_info

    features = link.features()
    return {
        "url": str(link.address),
        "kind": features.kind,
        "version": features.version,
        "native_words": [word for word, known in _native_commands(features).items() if known],
        **asdict(link.run(server_info())),
    }


def _native_commands(features: Features) -> dict[str, bool]:
    return {"XADD IDMP": features.idmp, "XACKDEL": features.ackdel, "XREADGROUP CLAIM": features.claim}


def embedded_record(embedded: EmbeddedServer, url: str) -> Record:
    status = embedded.status()
    return {"url": url} | {
        name: str(value) if isinstance(value, Path) else value for name, value in asdict(status).items()
    }
