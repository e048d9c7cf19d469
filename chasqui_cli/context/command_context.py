"""The context of a command: its shared options, connection, output, confirmation and journal.

    @command("inspect", schema=QUEUE_SCHEMA)
    def inspect(ctx: CommandContext, queues: …) -> None: …

The decorator adds the shared options to the verb's own and hands it a `CommandContext`.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.change_result import ChangeResult
from chasqui_cli.changes.confirm import ChangeOptions, require_confirmation
from chasqui_cli.context.command_spec import CommandSpec, Effect
from chasqui_cli.context.settings import (
    ConnectionOptions,
    Settings,
    cache_directory,
    data_directory,
    resolve_settings,
    state_directory,
    take_result_descriptor,
)
from chasqui_cli.context.shared_options import (
    NoteOption,
    SchemaOption,
    StreamOutputOption,
    option_parameters,
    signature_parameters,
)
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.input.filters import FilterOptions
from chasqui_cli.output.stdio import print_stderr
from chasqui_cli.output.times import TimeStyle
from chasqui_cli.output.writer import Color, Format, OutputStyle, print_line, write_record, write_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from chasqui import Address, AsyncLink, Link, Secret, Tls
    from chasqui_cli.changes.confirm import ChangePlan
    from chasqui_cli.changes.journal import Journal, JournalWriter
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Column, Record
    from chasqui_cli.output.json_schema import SchemaNotation
    from chasqui_cli.output.progress import ProgressCallback
    from chasqui_cli.queues.name_cache import NameCache


@dataclass(frozen=True)
class CommandContext:
    """One command's surroundings: how to write, where to reach, what to choose, and whether to change."""

    output: Annotated[Format, typer.Option("--output", "-o", help="How to write the data.")] = Format.TABLE
    time_style: Annotated[
        TimeStyle | None, typer.Option("--time", help="How to write moments: ages on a terminal, dates elsewhere.")
    ] = None
    color: Annotated[Color, typer.Option("--color", help="Colour the table.")] = Color.AUTO
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Data only: no remarks on stderr.")] = False
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    change_options: ChangeOptions = field(default_factory=ChangeOptions)
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show values that look like passwords, tokens or card numbers.")
    ] = False
    spec: CommandSpec = field(default_factory=lambda: CommandSpec("", ""))
    change_result: ChangeResult = field(default_factory=ChangeResult)

    @cached_property
    def settings(self) -> Settings:
        """Flag, environment, context and default, resolved once."""
        return resolve_settings(self.connection)

    @cached_property
    def address(self) -> Address:
        """Where the server is, with its password from wherever it was kept. Insecure settings are warned of once."""
        import chasqui

        settings = self.settings
        self._warn_insecure(settings)
        address = chasqui.parse_address(settings.url, tls=_tls_options(settings))
        if address.kind == "embedded":
            return address  # its directory is the lock: it takes no password
        own = None if self.connection.password_file else address.login.password
        return chasqui.parse_address(
            settings.url, password=own or _resolve_password(settings), tls=_tls_options(settings)
        )

    def link(self, address: Address | None = None) -> Link:
        """A link to the server, not yet connected."""
        from chasqui import Link

        address = address or self.address
        return Link.open(address, read_only=self.settings.read_only, data_dir=_embedded_directory(address))

    def async_link(self) -> AsyncLink:
        """The same for verbs that await."""
        from chasqui import AsyncLink

        address = self.address
        return AsyncLink.open(address, read_only=self.settings.read_only, data_dir=_embedded_directory(address))

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A link and the engine's asks over it, closed afterwards."""
        from chasqui_cli.context.session import Session

        with self.link() as link:
            yield Session(link)

    def name_cache(self) -> NameCache:
        """Names found before on this server."""
        from chasqui_cli.queues.name_cache import NameCache

        return NameCache(cache_directory(), self.settings.url)

    def write_records(self, records: Iterable[Record], columns: Sequence[Column], *, now_ms: int | None = None) -> None:
        """Write records as `-o` asks. now_ms: the server's time, for ages."""
        write_records(records, columns, self.output_style(now_ms))

    def write_record(self, record: Record, columns: Sequence[Column] = (), *, now_ms: int | None = None) -> None:
        """Write one record as `-o` asks."""
        write_record(record, self.output_style(now_ms), columns)

    def write_outcomes(
        self, records: Sequence[Record], columns: Sequence[Column], *, now_ms: int | None = None
    ) -> None:
        """Write what became of each record, and end with `PARTLY` if one has failed."""
        self.write_records(records, columns, now_ms=now_ms)
        self.exit_if_failed(records)

    def exit_if_failed(self, records: Iterable[Record]) -> None:
        """End with `PARTLY` if the outcome of one is among the verb's failed ones."""
        if any(record["outcome"] in self.spec.failed for record in records):
            raise typer.Exit(ExitCode.PARTLY)

    def output_style(self, now_ms: int | None = None) -> OutputStyle:
        """How data shall look."""
        return OutputStyle(self.output, self.color, self.time_style, now_ms)

    def info(self, text: str) -> None:
        """A remark on stderr, unless `--quiet`."""
        if not self.quiet:
            print_stderr(text)

    def quiet_copy(self) -> CommandContext:
        """The same context without remarks."""
        return replace(self, quiet=True)

    def progress(self, title: str, total: int | None) -> AbstractContextManager[ProgressCallback]:
        """A progress bar on stderr, on a terminal only."""
        from chasqui_cli.output.progress import progress_bar

        return progress_bar(title, total, quiet=self.quiet)

    def redacted(self, data: Any) -> Any:
        """What a job carries, with secrets covered unless they were asked for."""
        from chasqui_cli.output.redaction import redacted

        return data if self.show_secrets else redacted(data)

    def confirm(self, plan: ChangePlan, *, now_ms: int | None = None, always: bool = False) -> bool:
        """Show the plan; whether to carry it out. False when there is nothing to do, or it is a dry run.

        always: ask also where the verb asks in protected contexts only. Without consent `ChangeRefused` is raised.
        """
        self.change_result.queue, self.change_result.planned = plan.queue, len(plan.records)
        settings = self.settings
        asks = always or self.spec.asks == "always" or settings.protected or self.change_options.dry_run
        if not asks:
            return True
        if not plan.records:
            self.info(f"nothing to do: no {plan.noun} of {plan.queue} matched")
            return False
        if not self.quiet or not self.change_options.yes:
            plan.print_preview(
                self.output_style(now_ms),
                place=_context_label(settings),
                tint=settings.color,
                dry_run=self.change_options.dry_run,
            )
        if self.change_options.dry_run:
            self.info("dry run: nothing was changed")
            return False
        require_confirmation(plan, self.change_options, protected=settings.protected)
        return True

    def require_writable(self, action: str) -> None:
        """Refuse what a read-only connection cannot do, before anything is sent."""
        from chasqui.errors import ChangeRefused

        if self.settings.read_only:
            raise ChangeRefused(
                f"this connection is read-only: it does not {action}",
                hint="nothing was sent; repeat it without --read-only, or in a context that is not read_only",
            )

    def journal(self) -> Journal:
        """Where changes are written down."""
        from chasqui_cli.changes.journal import Journal

        return Journal(state_directory() / "journal")

    @contextmanager
    def optional_journal_operation(self, queue: str) -> Iterator[JournalWriter | None]:
        """The same for verbs that leave nothing to undo: only where the context is protected or a note is given."""
        if self.settings.protected or self.change_options.note:
            with self.journal_operation(queue) as pen:
                yield pen
        else:
            yield None

    @contextmanager
    def journal_operation(self, queue: str) -> Iterator[JournalWriter]:
        """An operation in the journal: write what is about to change first, then how it went."""
        from chasqui import SystemClock, redact

        settings = self.settings
        writing = self.journal().begin(
            at_ms=SystemClock().now_ms(),
            verb=self.spec.path,
            queue=queue,
            url=redact(settings.url),
            context=settings.context,
            note=self.change_options.note,
            command=shlex.join(["chasqui", *(redact(word) for word in sys.argv[1:])]),
        )
        with writing as pen:
            try:
                yield pen
            finally:
                # Also after an error or Ctrl-C: then most of all one wants to know what was done.
                op = pen.operation.op
                self.change_result.done += pen.done
                if pen.item_count and not pen.nothing_changed:
                    self.change_result.op = op
                    self.info(f"written down as {op}; take it back with: chasqui undo {op}")

    def _warn_insecure(self, settings: Settings) -> None:
        from chasqui import redact

        if settings.url_source == "--redis-url" and redact(settings.url) != settings.url:
            self.info(
                "warning: a password on the command line can be read by every user of this machine; use --password-file"
            )
        if settings.tls_insecure:
            self.info("warning: --tls-insecure: the server's identity is not verified")


def _context_label(settings: Settings) -> str:
    """The context a change is made in, as a label before it: a colour alone is not seen by everyone."""
    if settings.context is None or settings.url_source != f"context {settings.context}":
        return ""
    return f"[{settings.context}{' ⚠ protected' if settings.protected else ''}] "


def _embedded_directory(address: Address) -> Path | None:
    """Where the server lives, if it is an embedded one."""
    return data_directory() if address.kind == "embedded" else None


def _resolve_password(settings: Settings) -> Secret | None:
    """What is used where the URL has none of its own: a file's, then the environment's."""
    from chasqui import Secret, read_password_file

    if settings.password_file:
        return read_password_file(settings.password_file)
    return Secret.wrap(os.environ[settings.password_variable]) if settings.password_variable else None


def _tls_options(settings: Settings) -> Tls | None:
    """The TLS options given, or None: on a plain URL the engine refuses them."""
    from chasqui import Tls

    asked = Tls(
        ca=settings.tls_ca,
        cert=settings.tls_cert,
        key=settings.tls_key,
        server_name=settings.tls_server_name,
        insecure=settings.tls_insecure,
    )
    return None if asked == Tls() else asked


CommandFunction = Callable[..., None]
MAX_SAFE_INTEGER = 2**53
"""Above that a server's scripts lose precision."""


def command(
    path: str,
    output: Format = Format.TABLE,
    *,
    schema: SchemaNotation | None = None,
    many: bool = True,
    chooses: bool = False,
    by_reason: bool = False,
    named: bool = True,
    payloads: bool = False,
    changes: bool = False,
    server: bool = True,
    writes_data: bool = True,
    streams: bool = False,
    effect: Effect | None = None,
    **facts: Any,
) -> Callable[[CommandFunction], CommandFunction]:
    """Declare a verb and give it the shared options it needs.

    path: its words. schema: the shape that `--schema` prints, of one record or of `many`. chooses: `--where` and its
    like; by_reason: and `--reason` for why a job died; named: and `--name`. payloads: `--show-secrets`. changes:
    `--dry-run`, `--yes` and what belongs to them. server: whether it takes the options of a connection. writes_data:
    whether it takes those of the output. streams: that it writes records as they come, JSON lines where no terminal shows
    them. facts: more of its `CommandSpec`.
    """
    shared: list[inspect.Parameter] = []
    if writes_data:
        formats = option_parameters(CommandContext, "output", output=output)
        shared += [p.replace(default=None, annotation=StreamOutputOption) for p in formats] if streams else formats
        shared += option_parameters(CommandContext, "time_style", "color", "quiet")
    if schema is not None:
        shared.append(
            inspect.Parameter("schema", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=SchemaOption)
        )
    if server:
        shared += option_parameters(ConnectionOptions)
    if chooses:
        without = {"name": not named, "reason": not by_reason}
        shared += option_parameters(FilterOptions, without=[name for name, is_out in without.items() if is_out])
    if payloads:
        shared += option_parameters(CommandContext, "show_secrets")
    if changes:
        note = {"note": NoteOption} if by_reason else {}
        shared += [p.replace(annotation=note.get(p.name, p.annotation)) for p in option_parameters(ChangeOptions)]
    effect = effect or (Effect.CHANGES if changes else Effect.READS)

    def declare(verb: CommandFunction) -> CommandFunction:
        summary = " ".join((verb.__doc__ or "").partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".")
        spec = CommandSpec(path, summary, effect, **facts)
        wrapper = _add_shared_options(verb, spec, schema, many, shared)
        wrapper.spec = spec  # type: ignore[attr-defined]  # read by the index
        return wrapper

    return declare


def _add_shared_options(
    verb: CommandFunction,
    spec: CommandSpec,
    schema: SchemaNotation | None,
    many: bool,
    options: Sequence[inspect.Parameter],
) -> CommandFunction:
    own = [p for p in signature_parameters(verb) if p.name != "ctx"]
    taken = {p.name for p in own}
    shared = [p for p in options if p.name not in taken]

    def at_work(**values: Any) -> None:
        given = {p.name: values.pop(p.name) for p in shared}
        if given.pop("schema", False):
            from chasqui_cli.output.json_schema import json_schema
            from chasqui_cli.output.tagged_json import json_text

            print_line(json_text(json_schema(schema, many=many), indent=2))
            return
        _check_numbers(given | values)
        if given.get("output", Format.TABLE) is None:
            given["output"] = Format.TABLE if sys.stdout.isatty() else Format.JSONL
        ctx = _build_context(given, spec)
        changes = spec.effect is Effect.CHANGES and (spec.changes_with is None or values[spec.changes_with])
        if changes and given.get("dry_run") is False:
            ctx.require_writable(f"run `chasqui {spec.path}`")
        descriptor = take_result_descriptor()
        try:
            verb(ctx, **values)
        finally:
            ctx.change_result.send(descriptor)

    first = [p for p in shared if p.annotation is StreamOutputOption]
    rest = [p for p in shared if p not in first]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*first, *own, *rest]]
    at_work.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # as inspect documents it
    at_work.__annotations__ = {p.name: p.annotation for p in parameters}
    at_work.shared_options = {p.name for p in rest}  # type: ignore[attr-defined]  # read by the reference
    at_work.__doc__, at_work.__name__ = verb.__doc__, verb.__name__
    return at_work


def _check_numbers(values: dict[str, Any]) -> None:
    """What no server and no clock could count; Typer knows least values, and lets these pass."""
    from chasqui.errors import ArgumentError

    for name, value in values.items():
        is_odd = isinstance(value, float) and not isfinite(value)
        if is_odd or (isinstance(value, int) and not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER):
            raise ArgumentError(f"--{name.replace('_', '-')}: {value} is no number to count with")


def _build_context(given: dict[str, Any], spec: CommandSpec) -> CommandContext:
    """The options, each in the value it belongs to."""

    def of(kind: Any) -> Any:
        return kind(**{one.name: given[one.name] for one in fields(kind) if one.name in given})

    own = {one.name: given[one.name] for one in fields(CommandContext) if one.name in given}
    return CommandContext(
        **own, connection=of(ConnectionOptions), filters=of(FilterOptions), change_options=of(ChangeOptions), spec=spec
    )
