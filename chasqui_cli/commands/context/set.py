from __future__ import annotations

from typing import Annotated, Any

import typer

from chasqui_cli.commands.context._config_file import (
    COLUMNS,
    CONTEXT_SCHEMA,
    ContextName,
    context_record,
    load_document,
    save_document,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.settings import config_file, parse_context_value
from chasqui_cli.output.columns import column


@command("context set", server=False, schema=CONTEXT_SCHEMA, many=False, effect=Effect.LOCAL)
def set_context(
    ctx: CommandContext,
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
    ctx.info(f"kept in {config_file()}")
    ctx.write_record(context_record(name), [*COLUMNS, column("settings")])


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
