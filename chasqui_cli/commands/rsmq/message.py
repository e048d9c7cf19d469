"""Messages, in the words of rsmqctl."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, rsmq_keys
from chasqui_cli.commands.rsmq._rsmqctl import (
    OutputOption,
    QueueNameOption,
    full_access_session,
    rsmqctl_error,
    rsmqctl_errors,
    write_record,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.output.times import parse_duration_ms
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from chasqui.foreign.rsmq import Message

MessageIdOption = Annotated[str, typer.Option("--message-id", "-i", metavar="ID", help="The message.")]


RECEIVE_SCHEMA: dict[str, Any] = {"id": "str", "message": "any", "rc": "int", "ts": "int?"}


@command("rsmq message send", effect=Effect.CHANGES)
def send(
    ctx: CommandContext,
    name: QueueNameOption,
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="The body; - reads stdin.")],
    delay: Annotated[
        str | None, typer.Option("--delay", "-d", metavar="TIME", help="Seconds, or 500ms; the queue's own by itself.")
    ] = None,
    realtime: Annotated[bool, typer.Option("--realtime", help="Tell those who listen.")] = False,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Send a message; prints its id."""
    import sys

    from chasqui.foreign import rsmq

    body = sys.stdin.buffer.read() if message == "-" else message.encode("utf-8", "surrogateescape")
    delay_ms = None if delay is None else _parse_seconds_ms(delay)
    with full_access_session(ctx, rsmq_keys(name, ns)) as session, rsmqctl_errors(name):
        print_line(session.link.run(rsmq.send(rsmq_keys(name, ns), body, delay_ms=delay_ms, realtime=realtime)))


@command("rsmq message receive", schema=RECEIVE_SCHEMA, many=False, effect=Effect.CHANGES)
def receive(
    ctx: CommandContext,
    name: QueueNameOption,
    vt: Annotated[
        str | None,
        typer.Option("--visibility-timeout", "-t", metavar="TIME", help="Seconds, or 500ms; the queue's by itself."),
    ] = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
    output: OutputOption = None,
) -> None:
    """Receive a message: it is hidden then, for the queue's time or the one given."""
    from chasqui.foreign import rsmq

    vt_ms = None if vt is None else _parse_seconds_ms(vt)
    with full_access_session(ctx, rsmq_keys(name, ns)) as session, rsmqctl_errors(name):
        _print_message(ctx, output, name, session.link.run(rsmq.receive(rsmq_keys(name, ns), vt_ms=vt_ms)))


@command("rsmq message pop", schema=RECEIVE_SCHEMA, many=False, effect=Effect.CHANGES)
def pop(
    ctx: CommandContext, name: QueueNameOption, ns: NamespaceOption = DEFAULT_NAMESPACE, output: OutputOption = None
) -> None:
    """Receive a message and delete it in the same step."""
    from chasqui.foreign import rsmq

    with full_access_session(ctx, rsmq_keys(name, ns)) as session, rsmqctl_errors(name):
        _print_message(ctx, output, name, session.link.run(rsmq.pop(rsmq_keys(name, ns))))


@command("rsmq message delete", effect=Effect.CHANGES)
def delete_message(
    ctx: CommandContext, name: QueueNameOption, message_id: MessageIdOption, ns: NamespaceOption = DEFAULT_NAMESPACE
) -> None:
    """Delete a message, whoever holds it; `rsmq purge` can be undone, this cannot."""
    from chasqui.foreign import rsmq

    with full_access_session(ctx, rsmq_keys(name, ns)) as session:
        if not session.link.run(rsmq.delete(rsmq_keys(name, ns), message_id)):
            raise rsmqctl_error(f"Failed to delete message ID: {message_id}")


@command("rsmq message visibility", effect=Effect.CHANGES)
def visibility(
    ctx: CommandContext,
    name: QueueNameOption,
    message_id: MessageIdOption,
    vt: Annotated[str, typer.Option("--visibility-timeout", "-t", metavar="TIME", help="Seconds from now, or 500ms.")],
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Hide a message for so long from now on; 0 shows it at once."""
    from chasqui.foreign import rsmq

    with ctx.session() as session:
        failed = rsmqctl_error(f"Failed to change visibility timeout for message ID: {message_id}")
        try:
            changed = session.link.run(rsmq.change_visibility(rsmq_keys(name, ns), message_id, _parse_seconds_ms(vt)))
        except rsmq.QueueNotFound:
            raise failed from None
        if not changed:
            raise failed
    duration = f"{vt}s" if vt.isdigit() else vt
    print_line(f"Message ID: {message_id} visibility timeout set to {duration}")


def _print_message(ctx: CommandContext, output: Format | None, queue: str, message: Message | None) -> None:
    if message is None:
        print_line(f"No messages on queue: {queue}")
        return
    body: str | bytes | None = message.body
    with suppress(UnicodeDecodeError):  # other bytes are written as bytes
        body = None if message.body is None else message.body.decode()
    record = {"id": message.id, "message": body, "rc": message.receives, "ts": message.first_received_ms}
    write_record(ctx, output, record)


def _parse_seconds_ms(text: str) -> int:
    """Seconds where the text has no unit, as in RSMQ; else a duration."""
    return int(text) * 1000 if text.isdigit() else parse_duration_ms(text)
