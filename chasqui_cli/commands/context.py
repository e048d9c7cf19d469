"""`chasqui context`: servers by name. The file is people's own: comments and order in it are kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.command_context import CommandContext, offline
from chasqui_cli.context.completion import complete_contexts
from chasqui_cli.context.settings import config_file, parse_context_value, read_context, read_contexts
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from pathlib import Path

    from chasqui_cli.output.columns import Record

app = typer.Typer(add_completion=False, rich_markup_mode=None)

CONTEXT_SCHEMA = {
    "name": "str",
    "current": "bool",
    "url": "str?",
    "read_only": "bool",
    "protected": "bool",
    "color": "str?",
    "settings": "any",
}
COLUMNS = [column(name) for name in ("name", "current", "url", "read_only", "protected", "color")]
ContextName = Annotated[str, typer.Argument(metavar="NAME", help="Which context.", autocompletion=complete_contexts)]


@app.callback(invoke_without_command=True)
def context(ctx: typer.Context) -> None:
    """Servers by name: list them, choose one, see and set what is kept of each."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list")
@offline(shape=CONTEXT_SCHEMA)
def list_contexts(desk: CommandContext) -> None:
    """List the contexts, and say which is the current one."""
    desk.write_records([context_record(name) for name in read_contexts()[1]], COLUMNS)
    if not read_contexts()[1]:
        desk.info("there is no context yet; make one: chasqui context set NAME url=redis://…")


@app.command()
@offline(shape=CONTEXT_SCHEMA, many=False)
def show(
    desk: CommandContext,
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
    desk.write_record(context_record(wanted), [*COLUMNS, column("settings")])


@app.command()
@offline(shape=CONTEXT_SCHEMA, many=False)
def use(
    desk: CommandContext,
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
    desk.info(f"the context is {name} now")
    desk.write_record(context_record(name), COLUMNS)


@app.command("set")
@offline(shape=CONTEXT_SCHEMA, many=False)
def set_context(
    desk: CommandContext,
    name: ContextName,
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="What to keep; KEY= removes it.")],
) -> None:
    """Set what is kept of a context, and make it if there is none of that name.

    Keys: url, url_file, password_file, read_only, protected, color, tls_ca, tls_cert, tls_key, tls_server_name,
    tls_insecure. A password belongs into a file: url_file or password_file.
    """
    import tomlkit

    from chasqui.errors import ArgumentError

    if not name or name == "-":
        raise ArgumentError(f"{name!r} is no name for a context", hint="choose a word, such as staging")
    pairs = [_parse_setting(text) for text in values]
    document = load_document()
    tables: Any = document.setdefault("contexts", tomlkit.table(is_super_table=True))
    table: Any = tables.setdefault(name, tomlkit.table())
    for key, value in pairs:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    save_document(document)
    desk.info(f"kept in {config_file()}")
    desk.write_record(context_record(name), [*COLUMNS, column("settings")])


def _parse_setting(text: str) -> tuple[str, str | bool | None]:
    from chasqui import parse_address
    from chasqui.errors import ArgumentError

    key, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"{text!r} is no setting", hint="write it as url=redis://… or read_only=true")
    if not value:
        parse_context_value(key, "true" if key in ("read_only", "protected", "tls_insecure") else "red")
        return key, None
    if key == "url":
        parse_address(value)
    return key, parse_context_value(key, value)


def require_context(name: str) -> None:
    from chasqui.errors import NotFound

    names = read_contexts()[1]
    if name not in names:
        raise NotFound(
            f"there is no context {name!r}",
            hint=f"there are: {', '.join(sorted(names)) or 'none yet'}; make it: chasqui context set {name} url=…",
        )


def context_record(name: str) -> Record:
    """A context without its passwords: a URL's is covered, and the others are in files that are only named."""
    from chasqui import redact

    table = {key: redact(value) if key == "url" else value for key, value in read_context(name).items()}
    return {
        "name": name,
        "current": name == read_contexts()[0],
        "url": table.get("url"),
        "read_only": table.get("read_only", False),
        "protected": table.get("protected", False),
        "color": table.get("color"),
        "settings": table,
    }


def load_document() -> Any:
    """The file as it is written, comments and all; it was read once before, so it is known to be whole."""
    import tomlkit

    read_contexts()
    path = config_path()
    return tomlkit.parse(path.read_text()) if path.exists() else tomlkit.document()


def save_document(document: Any) -> None:
    """Beside the file first, then in its place, readable for its owner only."""
    import tomlkit

    path = config_path().resolve()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(tomlkit.dumps(document))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def config_path() -> Path:
    from chasqui.errors import ConfigError

    path = config_file()
    if path is None:
        raise ConfigError("this user has no home directory", hint="say where contexts are kept: XDG_CONFIG_HOME")
    return path
