"""`chasqui rsmq queue` and `chasqui rsmq message`: the words of `rsmqctl`, with its options, its JSON and its exit codes.

They ask nobody and end with 1 where `rsmqctl` does, so that its scripts need no other change than the program's name.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, rsmq_keys
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_rsmq_queues
from chasqui_cli.output.tagged_json import tagged
from chasqui_cli.output.times import parse_duration_ms
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message, QueueStats
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

queue_app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Queues, in the words of rsmqctl.")
message_app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Messages, in the words of rsmqctl.")

QueueNameOption = Annotated[
    str, typer.Option("--name", "-n", metavar="QUEUE", help="The queue.", autocompletion=complete_rsmq_queues)
]
MessageIdOption = Annotated[str, typer.Option("--message-id", "-i", metavar="ID", help="The message.")]
OutputOption = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="How to write the data; by itself as rsmqctl does, JSON on one line."),
]
QUEUE_SCHEMA: dict[str, Any] = {
    "vt": "float",
    "delay": "float",
    "maxsize": "int",
    "totalrecv": "int",
    "totalsent": "int",
    "created": "int",
    "modified": "int",
    "msgs": "int",
    "hiddenmsgs": "int",
}
RECEIVE_SCHEMA: dict[str, Any] = {"id": "str", "message": "any", "rc": "int", "ts": "int?"}
PAGE_SIZE = 200


def rsmqctl_error(text: str) -> Exception:
    """Ends with 1, as rsmqctl does."""
    from chasqui.foreign.rsmq import RsmqError

    return RsmqError(text, hint="`chasqui rsmq queue list` lists the queues; --ns names another namespace")


@contextmanager
def full_access_session(desk: CommandContext, keys: RsmqKeys, *, listed: bool = False) -> Iterator[Session]:
    """A session for what needs all keys of a queue in one step."""
    from chasqui.foreign import check_same_slot

    with desk.session() as session:
        check_same_slot(session.link, keys, listed=listed)
        yield session


@contextmanager
def rsmqctl_errors(queue: str) -> Iterator[None]:
    """What is not there, or there already, in the words of rsmqctl."""
    from chasqui.foreign.rsmq import QueueExists, QueueNotFound

    try:
        yield
    except QueueNotFound:
        raise rsmqctl_error(f"No such queue: {queue}") from None
    except QueueExists:
        raise rsmqctl_error(f"Queue already exists: {queue}") from None


def write_record(desk: CommandContext, output: Format | None, record: Any) -> None:
    if output is None:
        print_line(json.dumps(tagged(record)))
    elif isinstance(record, list):
        from chasqui_cli.output.columns import column
        from chasqui_cli.output.writer import write_records

        rows = [{"queue": name} for name in record]
        write_records(rows, [column("queue")], _output_style(desk, output))
    else:
        from chasqui_cli.output.writer import write_record

        write_record(record, _output_style(desk, output))


def _output_style(desk: CommandContext, output: Format) -> Any:
    from dataclasses import replace

    return replace(desk.output_style(), format=output)


@queue_app.command("list")
@command()
def list_queues(desk: CommandContext, ns: NamespaceOption = DEFAULT_NAMESPACE, output: OutputOption = None) -> None:
    """The names of all queues, as a JSON array, sorted."""
    from chasqui.foreign import rsmq

    with desk.session() as session:
        write_record(desk, output, session.link.run(rsmq.list_queues(ns)))


@queue_app.command()
@command()
def create(
    desk: CommandContext,
    name: QueueNameOption,
    vt: Annotated[int, typer.Option("--visibility-timeout", "-t", metavar="S", help="Seconds.")] = 30,
    delay: Annotated[int, typer.Option("--delay", "-d", metavar="S", help="Seconds.")] = 0,
    maxsize: Annotated[
        int, typer.Option("--maxsize", "-m", metavar="N", help="Longest body: 1024 to 65536, -1 for any.")
    ] = 65535,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Create a queue."""
    from chasqui.foreign import rsmq

    with full_access_session(desk, rsmq_keys(name, ns), listed=True) as session, rsmqctl_errors(name):
        session.link.run(rsmq.create_queue(rsmq_keys(name, ns), vt_s=vt, delay_s=delay, maxsize=maxsize))


@queue_app.command()
@command(shape=QUEUE_SCHEMA, many=False)
def describe(
    desk: CommandContext,
    name: QueueNameOption,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
    output: OutputOption = None,
) -> None:
    """A queue's attributes, totals, and how many messages it has and hides."""
    from chasqui.foreign import rsmq

    with desk.session() as session, rsmqctl_errors(name):
        write_record(desk, output, _queue_record(session.link.run(rsmq.queue_stats(rsmq_keys(name, ns)))))


@queue_app.command("set")
@command(shape=QUEUE_SCHEMA, many=False)
def set_attributes(
    desk: CommandContext,
    name: QueueNameOption,
    vt: Annotated[int | None, typer.Option("--visibility-timeout", "-t", metavar="S", help="Seconds.")] = None,
    delay: Annotated[int | None, typer.Option("--delay", "-d", metavar="S", help="Seconds.")] = None,
    maxsize: Annotated[
        int | None, typer.Option("--maxsize", "-m", metavar="N", help="1024 to 65536, -1 for any.")
    ] = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
    output: OutputOption = None,
) -> None:
    """Change a queue's attributes, and show them; messages that are there keep their times."""
    from chasqui.foreign import rsmq

    with desk.session() as session, rsmqctl_errors(name):
        keys = rsmq_keys(name, ns)
        told = session.link.run(rsmq.set_attributes(keys, vt_s=vt, delay_s=delay, maxsize=maxsize))
        write_record(desk, output, _queue_record(told))


@queue_app.command()
@command()
def delete(desk: CommandContext, name: QueueNameOption, ns: NamespaceOption = DEFAULT_NAMESPACE) -> None:
    """Delete a queue with all its messages; they are in the journal first, so `chasqui undo` brings them back."""
    from chasqui.foreign import rsmq
    from chasqui_cli.commands._run_leader import require_writable

    require_writable(desk, "delete a queue")
    keys = rsmq_keys(name, ns)
    with full_access_session(desk, keys, listed=True) as session, rsmqctl_errors(name):
        _, stored = session.link.run(rsmq.read_attributes(keys))
        if not any(stored) and not session.link.run(rsmq.read_page(keys, count=1, preview=0)).messages:
            # a name without a queue is taken off the list all the same
            session.link.run(rsmq.drop_queue(keys))
            return
        with desk.journal_operation("rsmq queue delete", name) as pen:
            pen.write_items([rsmq.queue_item(keys, stored)])
            _journal_messages(session, keys, pen)
            session.link.run(rsmq.drop_queue(keys))


def _journal_messages(session: Session, keys: RsmqKeys, pen: Any) -> None:
    from chasqui.foreign import rsmq

    after: Message | None = None
    while True:
        page = session.link.run(rsmq.read_page(keys, after=after, count=PAGE_SIZE))
        pen.write_items([rsmq.message_item(keys, "purged", message) for message in page.messages])
        after = page.after
        if after is None:
            return


@message_app.command()
@command()
def send(
    desk: CommandContext,
    name: QueueNameOption,
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="The body; - reads stdin.")],
    delay: Annotated[
        str | None,
        typer.Option("--delay", "-d", metavar="TIME", help="Seconds, or 500ms; the queue's own by itself."),
    ] = None,
    realtime: Annotated[bool, typer.Option("--realtime", help="Tell those who listen.")] = False,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Send a message; prints its id."""
    import sys

    from chasqui.foreign import rsmq

    body = sys.stdin.buffer.read() if message == "-" else message.encode("utf-8", "surrogateescape")
    delay_ms = None if delay is None else _parse_seconds_ms(delay)
    with full_access_session(desk, rsmq_keys(name, ns)) as session, rsmqctl_errors(name):
        print_line(session.link.run(rsmq.send(rsmq_keys(name, ns), body, delay_ms=delay_ms, realtime=realtime)))


@message_app.command()
@command(shape=RECEIVE_SCHEMA, many=False)
def receive(
    desk: CommandContext,
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
    with full_access_session(desk, rsmq_keys(name, ns)) as session, rsmqctl_errors(name):
        _print_message(desk, output, name, session.link.run(rsmq.receive(rsmq_keys(name, ns), vt_ms=vt_ms)))


@message_app.command()
@command(shape=RECEIVE_SCHEMA, many=False)
def pop(
    desk: CommandContext,
    name: QueueNameOption,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
    output: OutputOption = None,
) -> None:
    """Receive a message and delete it in the same step."""
    from chasqui.foreign import rsmq

    with full_access_session(desk, rsmq_keys(name, ns)) as session, rsmqctl_errors(name):
        _print_message(desk, output, name, session.link.run(rsmq.pop(rsmq_keys(name, ns))))


@message_app.command("delete")
@command()
def delete_message(
    desk: CommandContext,
    name: QueueNameOption,
    message_id: MessageIdOption,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Delete a message, whoever holds it; `rsmq purge` can be undone, this cannot."""
    from chasqui.foreign import rsmq

    with full_access_session(desk, rsmq_keys(name, ns)) as session:
        if not session.link.run(rsmq.delete(rsmq_keys(name, ns), message_id)):
            raise rsmqctl_error(f"Failed to delete message ID: {message_id}")


@message_app.command()
@command()
def visibility(
    desk: CommandContext,
    name: QueueNameOption,
    message_id: MessageIdOption,
    vt: Annotated[str, typer.Option("--visibility-timeout", "-t", metavar="TIME", help="Seconds from now, or 500ms.")],
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Hide a message for so long from now on; 0 shows it at once."""
    from chasqui.foreign import rsmq

    with desk.session() as session:
        failed = rsmqctl_error(f"Failed to change visibility timeout for message ID: {message_id}")
        try:
            changed = session.link.run(rsmq.change_visibility(rsmq_keys(name, ns), message_id, _parse_seconds_ms(vt)))
        except rsmq.QueueNotFound:
            raise failed from None
        if not changed:
            raise failed
    told = f"{vt}s" if vt.isdigit() else vt
    print_line(f"Message ID: {message_id} visibility timeout set to {told}")


def _print_message(desk: CommandContext, output: Format | None, queue: str, message: Message | None) -> None:
    if message is None:
        print_line(f"No messages on queue: {queue}")
        return
    told: str | bytes | None = message.body
    with suppress(UnicodeDecodeError):  # bytes stay bytes, and are told as such
        told = None if message.body is None else message.body.decode()
    record = {
        "id": message.id,
        "message": told,
        "rc": message.receives,
        "ts": message.first_received_ms,
    }
    write_record(desk, output, record)


def _queue_record(told: QueueStats) -> Record:
    found = told.attributes
    return {
        "vt": found.vt_s,
        "delay": found.delay_s,
        "maxsize": found.maxsize,
        "totalrecv": found.received,
        "totalsent": found.sent,
        "created": found.created_s,
        "modified": found.modified_s,
        "msgs": told.messages,
        "hiddenmsgs": told.hidden_now,
    }


def _parse_seconds_ms(text: str) -> int:
    """A bare number is seconds, as RSMQ has it; a duration says its unit."""
    return int(text) * 1000 if text.isdigit() else parse_duration_ms(text)
