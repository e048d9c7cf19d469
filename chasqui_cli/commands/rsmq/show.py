"""`chasqui rsmq show`: one message, whole."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from chasqui_cli.commands.rsmq._options import COLUMNS, DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._record import MESSAGE_SCHEMA, message_record
from chasqui_cli.context.command_context import CommandContext, command


@command("rsmq show", schema=MESSAGE_SCHEMA, many=False, payloads=True)
def show(
    ctx: CommandContext,
    queue: QueueArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Which message.")],
    raw: Annotated[bool, typer.Option("--raw", help="Write the bytes of the body, and nothing else.")] = False,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """One message, whole, without receiving it. Exit code 4 when it is not there."""
    from chasqui.errors import NotFound
    from chasqui.foreign import rsmq

    with ctx.session() as session:
        page = session.link.run(rsmq.messages_by_id(rsmq_keys(queue, ns), [message_id]))
    if not page.messages:
        raise NotFound(
            f"{queue} has no message {message_id}", hint="it was deleted, moved or never sent; `rsmq peek` lists"
        )
    [message] = page.messages
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(message.body or b"")
        return
    ctx.write_record(message_record(ctx, message, page.now_ms), COLUMNS, now_ms=page.now_ms)
