"""The options that verbs share, and how the fields of a data class become options.

`command` in `command_context.py` adds shared options to a verb's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer

from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.writer import Format

Verb = Callable[..., Any]


SchemaOption = Annotated[
    bool, typer.Option("--schema", help="Print the shape of the JSON output, as JSON Schema, and end.")
]
NoteOption = Annotated[str | None, typer.Option("--note", metavar="TEXT", help="Why you do it; kept in `chasqui log`.")]
"""The same where `--reason` chooses by why a job died."""
StreamOutputOption = Annotated[
    Format | None, typer.Option("--output", "-o", help="How to write the data: a table on a terminal, jsonl elsewhere.")
]
ScanOption = Annotated[
    int, typer.Option("--scan", min=1, metavar="N", help="Look at so many entries of each place at most.")
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


def option_parameters(
    kind: type, *names: str, without: Collection[str] = (), **defaults: Any
) -> list[inspect.Parameter]:
    """The options that the fields of a data class declare: those named, or all but some. defaults: where others hold."""
    annotations = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(one.name, one.default),
            annotation=annotations[one.name],
        )
        for one in fields(kind)
        if (one.name in names if names else one.name not in without)
    ]


def options_from(kind: type, *, without: Collection[str] = (), **defaults: Any) -> Callable[[Verb], Verb]:
    """Replace a verb's parameter of this data class by the options that the fields declare, but for some.

    defaults: of fields, where this verb has others.
    """
    options = option_parameters(kind, without=without, **defaults)

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
