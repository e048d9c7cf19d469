"""The options that verbs share, each declared once: how to write, how to reach a server, how to choose, how to change.

`at_desk` in `ctx.py` adds them to a verb's own. What they mean is told by the values they end up in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.times import TimeStyle
from chasqui_cli.output.writer import Color, Format

Verb = Callable[..., Any]


def output_options(
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write the data.")] = Format.TABLE,
    time: Annotated[
        TimeStyle | None,
        typer.Option("--time", help="How to write moments: ages on a terminal, dates elsewhere."),
    ] = None,
    color: Annotated[Color, typer.Option("--color", help="Colour the table.")] = Color.AUTO,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Data only: no remarks on stderr.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the shape of the JSON output, as JSON Schema, and end.")
    ] = False,
) -> None:
    """How to write."""


def connection_options(
    redis_url: Annotated[
        str | None,
        typer.Option(
            "--redis-url",
            "-u",
            metavar="URL",
            help="redis:// rediss:// unix:// redis+cluster:// redis+sentinel:// embedded://",
        ),
    ] = None,
    url_file: Annotated[Path | None, typer.Option(help="Read the URL from a private file.", metavar="FILE")] = None,
    context: Annotated[str | None, typer.Option(help="A context of the configuration file.", metavar="NAME")] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="Read the password from a private file.", metavar="FILE")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let no write command leave this process.")] = False,
    tls_ca: Annotated[Path | None, typer.Option(help="CA certificates to trust.", metavar="FILE")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Client certificate.", metavar="FILE")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the client certificate.", metavar="FILE")] = None,
    tls_server_name: Annotated[
        str | None, typer.Option(help="Name to expect in the server's certificate.", metavar="NAME")
    ] = None,
    tls_insecure: Annotated[bool, typer.Option("--tls-insecure", help="Do not verify the server. Warns.")] = False,
) -> None:
    """How to reach a server."""


_Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="EXPR",
        help="Keep records for which this JMESPath expression is true, as in \"data.to == 'x'\".",
    ),
]
_Name = Annotated[str | None, typer.Option("--name", metavar="GLOB", help="Keep jobs of this name; * and ? allowed.")]
_Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="From then on: 5m (ago), ISO-8601, @<stream id>."),
]
_Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Up to then; written as --since.")]
_Scan = Annotated[
    int,
    typer.Option("--scan", min=1, metavar="N", help="Look at so many entries at most, and say how far that was."),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done to which ids, and do nothing.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_Confirm = Annotated[
    str | None,
    typer.Option("--confirm", metavar="QUEUE", help="The queue's name, where a protected context wants it typed."),
]


def filter_options(
    where: _Where = None,
    name: _Name = None,
    since: _Since = None,
    until: _Until = None,
    scan: _Scan = 100_000,
) -> None:
    """How to choose among records."""


def filter_options_without_name(
    where: _Where = None, since: _Since = None, until: _Until = None, scan: _Scan = 100_000
) -> None:
    """The same where nothing has a name: other systems' messages."""


def filter_options_with_reason(
    where: _Where = None,
    name: _Name = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="R", help="Keep what died of this: retries_exhausted, …")
    ] = None,
    since: _Since = None,
    until: _Until = None,
    scan: _Scan = 100_000,
) -> None:
    """The same, and by why a job died."""


def payload_options(
    show_secrets: Annotated[
        bool,
        typer.Option("--show-secrets", help="Show values that look like passwords, tokens or card numbers."),
    ] = False,
) -> None:
    """How to show what jobs carry."""


def change_options(
    dry_run: _DryRun = False,
    yes: _Yes = False,
    confirm: _Confirm = None,
    note: Annotated[
        str | None,
        typer.Option("--note", "--reason", metavar="TEXT", help="Why you do it; kept in `chasqui log`."),
    ] = None,
) -> None:
    """How to change things."""


def change_options_without_reason(
    dry_run: _DryRun = False,
    yes: _Yes = False,
    confirm: _Confirm = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="Why you do it; kept in `chasqui log`.")
    ] = None,
) -> None:
    """The same where `--reason` chooses by why a job died."""


StreamOutputOption = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="How to write the data: a table on a terminal, jsonl elsewhere."),
]
ScanOption = Annotated[
    int,
    typer.Option("--scan", min=1, metavar="N", help="Look at so many entries of each place at most."),
]
RescanOption = Annotated[
    bool, typer.Option("--rescan", help="Search for queues anew, also where names are remembered.")
]

JoblistVisibilityOption = Annotated[
    str | None,
    typer.Option(
        "--visibility",
        metavar="TIME",
        help="For list job queues: claims older than this are stale; only their workers know.",
    ),
]


def signature_parameters(function: Verb) -> list[inspect.Parameter]:
    """What a function takes, its annotations read."""
    return list(inspect.signature(function, eval_str=True).parameters.values())


def options_from(kind: type, *, without: Collection[str] = (), **defaults: Any) -> Callable[[Verb], Verb]:
    """Replace a verb's parameter of this data class by the options that the fields declare, but for some.

    defaults: of fields, where this verb has others.
    """
    annotations = get_type_hints(kind, include_extras=True)
    options = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(one.name, one.default),
            annotation=annotations[one.name],
        )
        for one in fields(kind)
        if one.name not in without
    ]

    def replace_parameter(verb: Verb) -> Verb:
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature_parameters(verb)]
        at = next(at for at, p in enumerate(own) if p.annotation is kind)

        def with_options(ctx: Any, **values: Any) -> None:
            given = {p.name: values.pop(p.name) for p in options}
            verb(ctx=ctx, **values, **{own[at].name: kind(**given)})

        signature = inspect.Signature([*own[:at], *options, *own[at + 1 :]])
        with_options.__signature__ = signature  # type: ignore[attr-defined]  # as inspect documents it
        with_options.__doc__, with_options.__name__ = verb.__doc__, verb.__name__
        return with_options

    return replace_parameter


QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.", autocompletion=complete_queues)]
