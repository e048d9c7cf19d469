"""How an RSMQ queue and its messages are named on a command line, and what is told of a message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.completion import complete_rsmq_queues
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Record

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Which queue.", autocompletion=complete_rsmq_queues)
]
MessageIdsArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Which messages.")]
NamespaceOption = Annotated[str, typer.Option("--ns", metavar="NS", help="RSMQ's namespace: what its keys begin with.")]
DEFAULT_NAMESPACE = "rsmq"

MESSAGE_SCHEMA: dict[str, Any] = {
    "id": "str",
    "state": "str",
    "visible_at_ms": "int",
    "receives": "int?",
    "first_received_ms": "int?",
    "sent_ms": "int?",
    "size": "int?",
    "data": "any",
}
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
    """The keys of a queue, whoever named it."""
    from chasqui.foreign import RsmqKeys

    return RsmqKeys(queue, namespace)


def message_record(desk: CommandContext, message: Message, now_ms: int) -> Record:
    """A message as people and expressions see it; secrets in it covered."""
    return {
        "id": message.id,
        "state": message.state(now_ms),
        "visible_at_ms": message.visible_at_ms,
        "receives": message.receives,
        "first_received_ms": message.first_received_ms,
        "sent_ms": None if message.sent_us is None else message.sent_us // 1000,
        "size": message.size,
        "data": desk.redacted(body_value(message.body)),
    }


def body_value(body: bytes | None) -> Any:
    """What a body holds: the value its JSON says, else its text, else its bytes."""
    if body is None:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    try:
        return json.loads(text) if text[:1] in '{["' else text
    except (ValueError, RecursionError):
        return text


def no_such_queue(queue: str) -> Exception:
    """As everywhere in chasqui: not found."""
    from chasqui.errors import NotFound

    return NotFound(
        f"there is no RSMQ queue named {queue!r}",
        hint="`chasqui rsmq queue list` lists them; --ns names others",
    )
