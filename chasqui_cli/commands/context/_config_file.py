from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.completion import complete_contexts
from chasqui_cli.context.settings import config_file, read_context, read_contexts
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from pathlib import Path

    from chasqui_cli.output.columns import Record

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
    """Written to a file next to it first, then moved into place, readable for its owner only."""
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
