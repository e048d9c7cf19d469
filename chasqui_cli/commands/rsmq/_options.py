"""Options and arguments that name an RSMQ queue and its messages; the columns of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.completion import complete_rsmq_queues
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui.foreign import RsmqKeys

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Which queue.", autocompletion=complete_rsmq_queues)
]
MessageIdsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Which messages.")]
NamespaceOption = Annotated[str, typer.Option("--ns", metavar="NS", help="RSMQ's namespace: what its keys begin with.")]
DEFAULT_NAMESPACE = "rsmq"

COLUMNS: list[Column] = [
    column("id"),
    column("state"),
    column("visible", "visible_at_ms", kind="moment"),
    column("rc", "receives", kind="count"),
    column("sent", "sent_ms", kind="moment"),
    column("first", "first_received_ms", kind="moment", wide=True),
    column("size", kind="bytes"),
    column("data"),
]


def rsmq_keys(queue: str, namespace: str) -> RsmqKeys:
    from chasqui.foreign import RsmqKeys

    return RsmqKeys(queue, namespace)


def no_such_queue(queue: str) -> Exception:
    from chasqui.errors import NotFound

    return NotFound(
        f"there is no RSMQ queue named {queue!r}", hint="`chasqui rsmq queue list` lists them; --ns names others"
    )
