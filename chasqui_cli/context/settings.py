"""Settings of a connection: flag > environment > context file > default, with the source of the URL.

This is the only file that reads the environment. The engine is handed values.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

DEFAULT_URL = "redis://127.0.0.1:6379"
URL_VARIABLES = ("CHASQUI_REDIS_URL", "REDIS_URL")
PASSWORD_VARIABLE = "REDISCLI_AUTH"  # noqa: S105 - the name of a variable, not a password
READ_ONLY_VARIABLE = "CHASQUI_READONLY"
RESULT_VARIABLE = "CHASQUI_RESULT_FD"

CONTEXT_COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan")
"""What a context's `color` may be: every terminal has these."""
_FIX_FILE_HINT = "mend the file, or move it away"
_CONTEXT_KEY_TYPES = {
    "url": str,
    "url_file": str,
    "password_file": str,
    "read_only": bool,
    "protected": bool,
    "color": str,
    "tls_ca": str,
    "tls_cert": str,
    "tls_key": str,
    "tls_server_name": str,
    "tls_insecure": bool,
}


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What the command line said; None where it said nothing."""

    redis_url: Annotated[
        str | None,
        typer.Option(
            "--redis-url",
            "-u",
            metavar="URL",
            help="redis:// rediss:// unix:// redis+cluster:// redis+sentinel:// embedded://",
        ),
    ] = None
    url_file: Annotated[Path | None, typer.Option(help="Read the URL from a private file.", metavar="FILE")] = None
    context: Annotated[str | None, typer.Option(help="A context of the configuration file.", metavar="NAME")] = None
    password_file: Annotated[
        Path | None, typer.Option(help="Read the password from a private file.", metavar="FILE")
    ] = None
    read_only: Annotated[bool, typer.Option("--read-only", help="Let no write command leave this process.")] = False
    tls_ca: Annotated[Path | None, typer.Option(help="CA certificates to trust.", metavar="FILE")] = None
    tls_cert: Annotated[Path | None, typer.Option(help="Client certificate.", metavar="FILE")] = None
    tls_key: Annotated[Path | None, typer.Option(help="Key of the client certificate.", metavar="FILE")] = None
    tls_server_name: Annotated[
        str | None, typer.Option(help="Name to expect in the server's certificate.", metavar="NAME")
    ] = None
    tls_insecure: Annotated[bool, typer.Option("--tls-insecure", help="Do not verify the server. Warns.")] = False

    @property
    def names_a_server(self) -> bool:
        """Whether the command line itself names the server."""
        return bool(self.redis_url or self.url_file or self.context)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a verb needs to reach a server. `url_source`: where the URL comes from."""

    url: str
    url_source: str
    context: str | None = None
    password_file: Path | None = None
    password_variable: str | None = None
    read_only: bool = False
    protected: bool = False
    color: str | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    tls_insecure: bool = False

    def __repr__(self) -> str:
        return f"Settings(url_from={self.url_source!r}, context={self.context!r}, read_only={self.read_only})"


def config_file() -> Path | None:
    """Where contexts are kept. A user without a home keeps none."""
    base = _xdg_directory("XDG_CONFIG_HOME", ".config")
    return base / "chasqui" / "config.toml" if base else None


def data_directory() -> Path:
    """Where the embedded servers keep their data."""
    from chasqui.errors import ConfigError

    base = _xdg_directory("XDG_DATA_HOME", ".local/share")
    if base is None:
        raise ConfigError("this user has no home directory", hint="say where data may be kept: XDG_DATA_HOME")
    return base / "chasqui" / "embedded"


def state_directory() -> Path:
    """Where the journal of changes is kept."""
    from chasqui.errors import ConfigError

    base = _xdg_directory("XDG_STATE_HOME", ".local/state")
    if base is None:
        raise ConfigError(
            "this user has no home directory, so changes cannot be written down",
            hint="say where they may be: XDG_STATE_HOME",
        )
    return base / "chasqui"


def editor_command() -> str | None:
    """The program people like to edit with, as a command line."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or None


def take_result_descriptor() -> int | None:
    """The file descriptor that the result of a change is written to, if the program that started this one wants it.

    It leaves the environment: in what a verb starts, that number may be another file.
    """
    text = os.environ.pop(RESULT_VARIABLE, "")
    return int(text) if text.isdecimal() else None


def cache_directory() -> Path | None:
    """Where names that were found are kept. A user without a home keeps none."""
    base = _xdg_directory("XDG_CACHE_HOME", ".cache")
    return base / "chasqui" if base else None


def _xdg_directory(variable: str, below_home: str) -> Path | None:
    """A relative path is ignored, as the XDG rules want: it would be another place in every directory."""
    given = Path(os.environ.get(variable, ""))
    if given.is_absolute():
        return given
    try:
        return Path.home() / below_home
    except RuntimeError:
        return None


def resolve_settings(given: ConnectionOptions) -> Settings:
    """Flag over environment over context over default. A context named by a flag beats an environment URL.

    Password and certificates of the current context go to the server of that context only: a URL from elsewhere
    is another server, unless the context was asked for by name.
    """
    name, context = _select_context(given.context)
    url, url_from = _resolve_url(given, name, context)
    is_its_server = bool(given.context) or url_from in {f"context {name}", "default"}

    def choose(key: str) -> Any:
        flag = getattr(given, key)
        return flag or (context.get(key) if is_its_server or key == "read_only" else None)

    def path(key: str) -> Path | None:
        value = choose(key)
        return _expand_path(value) if value else None

    return Settings(
        url=url,
        url_source=url_from,
        context=name,
        password_file=path("password_file"),
        password_variable=PASSWORD_VARIABLE if os.environ.get(PASSWORD_VARIABLE) else None,
        read_only=bool(choose("read_only")) or _is_true_text(os.environ.get(READ_ONLY_VARIABLE)),
        protected=bool(context.get("protected")),
        color=context.get("color"),
        tls_ca=path("tls_ca"),
        tls_cert=path("tls_cert"),
        tls_key=path("tls_key"),
        tls_server_name=choose("tls_server_name"),
        tls_insecure=bool(choose("tls_insecure")),
    )


def _resolve_url(given: ConnectionOptions, name: str | None, context: dict[str, Any]) -> tuple[str, str]:
    if given.redis_url:
        return given.redis_url, "--redis-url"
    if given.url_file:
        return _read_secret_file(_expand_path(given.url_file)), "--url-file"
    if not given.context:
        for variable in URL_VARIABLES:
            if os.environ.get(variable):
                return os.environ[variable], variable
    if "url" in context:
        return context["url"], f"context {name}"
    if "url_file" in context:
        return _read_secret_file(_expand_path(context["url_file"])), f"context {name}"
    return DEFAULT_URL, "default"


def _expand_path(text: str | Path) -> Path:
    """With `~` for a home. Left unchanged where the user does not exist: the file is then reported as missing."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _read_secret_file(path: Path) -> str:
    from chasqui import read_password_file

    return read_password_file(path).reveal()


def _select_context(wanted: str | None) -> tuple[str | None, dict[str, Any]]:
    """The context asked for, or the current one, or none."""
    from chasqui.errors import ConfigError

    current, known = read_contexts()
    name = wanted or current
    if name is None:
        return None, {}
    if name not in known:
        raise ConfigError(
            f"there is no context {name!r} in {config_file()}",
            hint=f"contexts there: {', '.join(sorted(known)) or 'none yet'}; or give the server with --redis-url",
        )
    return name, _check_context(name, known[name])


def read_contexts() -> tuple[str | None, dict[str, Any]]:
    """The name of the current context, and every context there is, unchecked."""
    path = config_file()
    contents = _read_config(path) if path else {}
    return contents.get("current"), contents.get("contexts", {})


def key_overrides() -> dict[str, Any]:
    """The dashboard's keys that the user has changed, unchecked."""
    path = config_file()
    chosen: dict[str, Any] = (_read_config(path) if path else {}).get("keys", {})
    return chosen


def _read_config(path: Path) -> dict[str, Any]:
    from chasqui.errors import ConfigError

    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            import tomllib  # most users have no such file

            contents = tomllib.load(file)
            _check_tables(path, contents)
            _refuse_readable_passwords(path, os.fstat(file.fileno()).st_mode, contents)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint=_FIX_FILE_HINT) from None
    except (ValueError, RecursionError) as error:
        # tomllib leaves bytes that are not UTF-8, endless numbers and bottomless nesting to Python's own errors
        raise ConfigError(f"{path} is not valid TOML: {error}", hint=_FIX_FILE_HINT) from None
    return contents


def _open_nonblocking(path: str, flags: int) -> int:
    """A pipe in the file's place would wait for a writer for ever; so it reads as empty."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_tables(path: Path, contents: dict[str, Any]) -> None:
    from chasqui.errors import ConfigError

    if not isinstance(contents.get("contexts", {}), dict):
        raise ConfigError(f"contexts in {path} is not a table", hint="write each one as [contexts.NAME]")
    if not isinstance(contents.get("keys", {}), dict):
        raise ConfigError(f"keys in {path} is not a table", hint='write it as [keys], then "app.quit" = "Q"')
    if not isinstance(contents.get("current", ""), str):
        raise ConfigError(f"current in {path} is not a name", hint='write it as current = "NAME"')


def _refuse_readable_passwords(path: Path, mode: int, contents: dict[str, Any]) -> None:
    """A URL with a password in a file that others can read is refused, as ssh refuses such keys."""
    from chasqui import redact
    from chasqui.errors import ConfigError

    if not mode & 0o077:
        return
    urls = [table.get("url") for table in contents.get("contexts", {}).values() if isinstance(table, dict)]
    if any(isinstance(url, str) and redact(url) != url for url in urls):
        raise ConfigError(f"{path} holds a password and others can read it", hint=f"chmod 600 {path}")


def _check_context(name: str, table: Any) -> dict[str, Any]:
    from chasqui.errors import ConfigError

    if not isinstance(table, dict):
        raise ConfigError(f"context {name!r} is not a table", hint=f"write it as [contexts.{name}]")
    for key, value in table.items():
        kind = _CONTEXT_KEY_TYPES.get(key)
        if kind is None:
            raise ConfigError(f"context {name!r}: unknown key {key!r}", hint=f"known: {', '.join(_CONTEXT_KEY_TYPES)}")
        if not isinstance(value, kind):
            raise ConfigError(f"context {name!r}: {key} must be a {kind.__name__}", hint=_FIX_FILE_HINT)
    return table


def parse_context_value(key: str, text: str) -> str | bool:
    """A value for a context as people type it; what its key cannot hold is refused."""
    from chasqui.errors import ArgumentError

    kind = _CONTEXT_KEY_TYPES.get(key)
    if kind is None:
        raise ArgumentError(f"a context has no {key!r}", hint=f"known: {', '.join(_CONTEXT_KEY_TYPES)}")
    if kind is bool:
        if text.lower() not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
            raise ArgumentError(f"{key} is true or false, not {text!r}", hint=f"write {key}=true")
        return _is_true_text(text)
    if key == "color" and text not in CONTEXT_COLORS:
        raise ArgumentError(f"{text!r} is no colour to tell contexts apart", hint=f"one of {', '.join(CONTEXT_COLORS)}")
    return text


def read_context(name: str) -> dict[str, Any]:
    """What is kept of a context, checked."""
    return _select_context(name)[1]


def _is_true_text(text: str | None) -> bool:
    return (text or "").lower() in {"1", "true", "yes", "on"}
