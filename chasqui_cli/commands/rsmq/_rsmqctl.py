"""What `chasqui rsmq queue` and `chasqui rsmq message` share: the options, JSON and exit codes of `rsmqctl`.

They never ask for a confirmation and exit with 1 where `rsmqctl` does, so its scripts only need another program name.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.completion import complete_rsmq_queues
from chasqui_cli.output.tagged_json import tagged
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.foreign import RsmqKeys
    from chasqui_cli.context.session import Session


QueueNameOption = Annotated[
    str, typer.Option("--name", "-n", metavar="QUEUE", help="The queue.", autocompletion=complete_rsmq_queues)
]
OutputOption = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="How to write the data; by itself as rsmqctl does, JSON on one line."),
]


def rsmqctl_error(text: str) -> Exception:
    """An error with exit code 1, as in rsmqctl."""
    from chasqui.foreign.rsmq import RsmqError

    return RsmqError(text, hint="`chasqui rsmq queue list` lists the queues; --ns names another namespace")


@contextmanager
def full_access_session(ctx: CommandContext, keys: RsmqKeys, *, listed: bool = False) -> Iterator[Session]:
    """A session for steps that need all keys of a queue in one slot."""
    from chasqui.foreign import check_same_slot

    with ctx.session() as session:
        check_same_slot(session.link, keys, listed=listed)
        yield session


@contextmanager
def rsmqctl_errors(queue: str) -> Iterator[None]:
    """Raise missing and existing queues as the errors of rsmqctl."""
    from chasqui.foreign.rsmq import QueueExists, QueueNotFound

    try:
        yield
    except QueueNotFound:
        raise rsmqctl_error(f"No such queue: {queue}") from None
    except QueueExists:
        raise rsmqctl_error(f"Queue already exists: {queue}") from None


def write_record(ctx: CommandContext, output: Format | None, record: Any) -> None:
    if output is None:
        print_line(json.dumps(tagged(record)))
    elif isinstance(record, list):
        from chasqui_cli.output.columns import column
        from chasqui_cli.output.writer import write_records

        rows = [{"queue": name} for name in record]
        write_records(rows, [column("queue")], _output_style(ctx, output))
    else:
        from chasqui_cli.output.writer import write_record

        write_record(record, _output_style(ctx, output))


def _output_style(ctx: CommandContext, output: Format) -> Any:
    from dataclasses import replace

    return replace(ctx.output_style(), format=output)
