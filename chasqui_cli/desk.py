"""What a verb is given to work with: the shared options, declared once, and a desk made of them.

    @app.command()
    @at_desk()
    def status(desk: Desk, name: …) -> None: …

The decorator adds the shared options to the verb's own and hands it a `Desk`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.output import Color, Format, emit, emit_one
from chasqui_cli.settings import Given, Settings, data_directory, resolve
from chasqui_cli.streams import talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Address, Link, Secret, Tls
    from chasqui_cli.columns import Column, Record


def _look_options(
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write the data.")] = Format.TABLE,
    color: Annotated[Color, typer.Option("--color", help="Colour the table.")] = Color.AUTO,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Data only: no remarks on stderr.")] = False,
) -> None: ...


def _reach_options(
    redis_url: Annotated[
        str | None,
        typer.Option(
            "--redis-url",
            "-u",
            metavar="URL",
            help="redis:// rediss:// unix:// redis+cluster:// redis+sentinel:// embedded://",
        ),
    ] = None,
    url_file: Annotated[
        Path | None, typer.Option(help="Read the URL from a private file.", metavar="FILE")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="A context of the configuration file.", metavar="NAME")
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="Read the password from a private file.", metavar="FILE")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let no write command leave this process.")
    ] = False,
    tls_ca: Annotated[Path | None, typer.Option(help="CA certificates to trust.", metavar="FILE")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Client certificate.", metavar="FILE")] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Key of the client certificate.", metavar="FILE")
    ] = None,
    tls_server_name: Annotated[
        str | None, typer.Option(help="Name to expect in the server's certificate.", metavar="NAME")
    ] = None,
    tls_insecure: Annotated[
        bool, typer.Option("--tls-insecure", help="Do not verify the server. Warns.")
    ] = False,
) -> None: ...


@dataclass(frozen=True, slots=True)
class Desk:
    """One command's surroundings: how to write, and, for verbs that reach out, where to."""

    output: Format
    color: Color
    quiet: bool
    given: Given

    def settings(self) -> Settings:
        """Flag, environment, context and default, settled."""
        return resolve(self.given)

    def address(self) -> Address:
        """Where the server is, with its password from wherever it was kept."""
        import chasqui

        settings = self.settings()
        self._warn(settings)
        address = chasqui.parse_address(settings.url, tls=_tls(settings))
        if address.kind == "embedded":
            return address  # its directory is the lock: there is no password to give
        own = None if self.given.password_file else address.login.password
        return chasqui.parse_address(settings.url, password=own or _password(settings), tls=_tls(settings))

    def link(self, address: Address | None = None) -> Link:
        """A link to the server, not yet connected."""
        from chasqui import Link

        address = address or self.address()
        place = data_directory() if address.kind == "embedded" else None
        return Link.open(address, read_only=self.settings().read_only, data_dir=place)

    def emit(self, records: Sequence[Record], columns: Sequence[Column]) -> None:
        """Write a list of records as `-o` asks."""
        emit(records, columns, self.output, self.color)

    def emit_one(self, record: Record) -> None:
        """Write one record as `-o` asks."""
        emit_one(record, self.output, self.color)

    def say(self, text: str) -> None:
        """A remark on stderr, unless `--quiet`."""
        if not self.quiet:
            talk(text)

    def _warn(self, settings: Settings) -> None:
        from chasqui import redact

        if settings.url_from == "--redis-url" and redact(settings.url) != settings.url:
            self.say(
                "warning: a password on the command line can be read by every user of this machine; use --password-file"
            )
        if settings.tls_insecure:
            self.say("warning: --tls-insecure: the server's identity is not verified")


def _password(settings: Settings) -> Secret | None:
    """What is used where the URL has none of its own: a file's, then the environment's."""
    from chasqui import Secret, read_password_file

    if settings.password_file:
        return read_password_file(settings.password_file)
    return Secret.of(os.environ[settings.password_variable]) if settings.password_variable else None


def _tls(settings: Settings) -> Tls | None:
    """What was asked for, or nothing: TLS options on a plain URL are an error, and the engine says so."""
    from chasqui import Tls

    asked = Tls(
        ca=settings.tls_ca,
        cert=settings.tls_cert,
        key=settings.tls_key,
        server_name=settings.tls_server_name,
        insecure=settings.tls_insecure,
    )
    return None if asked == Tls() else asked


Verb = Callable[..., None]


def at_desk(output: Format = Format.TABLE) -> Callable[[Verb], Verb]:
    """Give a verb the shared options: how to write, and how to reach a server."""
    return lambda verb: _with_options(verb, output, _look_options, _reach_options)


def offline(output: Format = Format.TABLE) -> Callable[[Verb], Verb]:
    """Give a verb that needs no server the options on how to write."""
    return lambda verb: _with_options(verb, output, _look_options)


def _with_options(verb: Verb, output: Format, *groups: Verb) -> Verb:
    own = [p for p in _parameters(verb) if p.name != "desk"]
    shared = [
        p.replace(default=output) if p.name == "output" else p for group in groups for p in _parameters(group)
    ]
    look = set(_names(_look_options))

    def at_work(**values: Any) -> None:
        options = {p.name: values.pop(p.name) for p in shared}
        given = Given(**{name: value for name, value in options.items() if name not in look})
        verb(Desk(**{name: options[name] for name in look}, given=given), **values)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*own, *shared]]
    at_work.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # as inspect documents it
    at_work.__annotations__ = {p.name: p.annotation for p in parameters}
    at_work.__doc__, at_work.__name__ = verb.__doc__, verb.__name__
    return at_work


def _parameters(function: Verb) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _names(function: Verb) -> list[str]:
    return [parameter.name for parameter in _parameters(function)]
