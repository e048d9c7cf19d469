"""`chasqui rsmq queue` and `chasqui rsmq message`: the words of `rsmqctl`, with its options, its JSON and its exit codes.

They ask nobody and end with 1 where `rsmqctl` does, so that its scripts need no other change than the program's name.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.rsmq.naming import RSMQ, Namespace, keys_of
from chasqui_cli.completing import rsmq_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.output import Format, print_line
from chasqui_cli.tagged import tagged
from chasqui_cli.times import duration_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Message, QueueStats
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

queue_app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Queues, in the words of rsmqctl.")
message_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="Messages, in the words of rsmqctl."
)

Name = Annotated[
    str, typer.Option("--name", "-n", metavar="QUEUE", help="The queue.", autocompletion=rsmq_names)
]
MessageId = Annotated[str, typer.Option("--message-id", "-i", metavar="ID", help="The message.")]
Output = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", help="How to write the data; by itself as rsmqctl does, JSON on one line."
    ),
]
QUEUE: dict[str, Any] = {
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
RECEIVED: dict[str, Any] = {"id": "str", "message": "any", "rc": "int", "ts": "int?"}
AT_ONCE = 200


def _failure(text: str) -> Exception:
    """Ends with 1, as rsmqctl does."""
    from chasqui.foreign.rsmq import RsmqError

    return RsmqError(text, hint="`chasqui rsmq queue list` lists the queues; --ns names another namespace")


@contextmanager
def _whole(desk: Desk, keys: RsmqKeys, *, listed: bool = False) -> Iterator[Session]:
    """A session for what needs all keys of a queue in one step."""
    from chasqui.foreign import check_together

    with desk.session() as session:
        check_together(session.link, keys, listed=listed)
        yield session


@contextmanager
def _named(queue: str) -> Iterator[None]:
    """What is not there, or there already, in the words of rsmqctl."""
    from chasqui.foreign.rsmq import QueueExists, QueueNotFound

    try:
        yield
    except QueueNotFound:
        raise _failure(f"No such queue: {queue}") from None
    except QueueExists:
        raise _failure(f"Queue already exists: {queue}") from None


def _write(desk: Desk, output: Format | None, record: Any) -> None:
    if output is None:
        print_line(json.dumps(tagged(record)))
    elif isinstance(record, list):
        from chasqui_cli.columns import column
        from chasqui_cli.output import emit

        rows = [{"queue": name} for name in record]
        emit(rows, [column("queue")], _looking(desk, output))
    else:
        from chasqui_cli.output import emit_one

        emit_one(record, _looking(desk, output))


def _looking(desk: Desk, output: Format) -> Any:
    from dataclasses import replace

    return replace(desk.look(), format=output)


@queue_app.command("list")
@at_desk()
def list_queues(desk: Desk, ns: Namespace = RSMQ, output: Output = None) -> None:
    """The names of all queues, as a JSON array, sorted."""
    from chasqui.foreign import rsmq

    with desk.session() as session:
        _write(desk, output, session.link.run(rsmq.names(ns)))


@queue_app.command()
@at_desk()
def create(
    desk: Desk,
    name: Name,
    vt: Annotated[int, typer.Option("--visibility-timeout", "-t", metavar="S", help="Seconds.")] = 30,
    delay: Annotated[int, typer.Option("--delay", "-d", metavar="S", help="Seconds.")] = 0,
    maxsize: Annotated[
        int, typer.Option("--maxsize", "-m", metavar="N", help="Longest body: 1024 to 65536, -1 for any.")
    ] = 65535,
    ns: Namespace = RSMQ,
) -> None:
    """Create a queue."""
    from chasqui.foreign import rsmq

    with _whole(desk, keys_of(name, ns), listed=True) as session, _named(name):
        session.link.run(rsmq.create(keys_of(name, ns), vt_s=vt, delay_s=delay, maxsize=maxsize))


@queue_app.command()
@at_desk(shape=QUEUE, many=False)
def describe(desk: Desk, name: Name, ns: Namespace = RSMQ, output: Output = None) -> None:
    """A queue's attributes, totals, and how many messages it has and hides."""
    from chasqui.foreign import rsmq

    with desk.session() as session, _named(name):
        _write(desk, output, _described(session.link.run(rsmq.stats(keys_of(name, ns)))))


@queue_app.command("set")
@at_desk(shape=QUEUE, many=False)
def set_attributes(
    desk: Desk,
    name: Name,
    vt: Annotated[
        int | None, typer.Option("--visibility-timeout", "-t", metavar="S", help="Seconds.")
    ] = None,
    delay: Annotated[int | None, typer.Option("--delay", "-d", metavar="S", help="Seconds.")] = None,
    maxsize: Annotated[
        int | None, typer.Option("--maxsize", "-m", metavar="N", help="1024 to 65536, -1 for any.")
    ] = None,
    ns: Namespace = RSMQ,
    output: Output = None,
) -> None:
    """Change a queue's attributes, and show them; messages that are there keep their times."""
    from chasqui.foreign import rsmq

    with desk.session() as session, _named(name):
        keys = keys_of(name, ns)
        told = session.link.run(rsmq.set_attributes(keys, vt_s=vt, delay_s=delay, maxsize=maxsize))
        _write(desk, output, _described(told))


@queue_app.command()
@at_desk()
def delete(desk: Desk, name: Name, ns: Namespace = RSMQ) -> None:
    """Delete a queue with all its messages; they are in the journal first, so `chasqui undo` brings them back."""
    from chasqui.foreign import rsmq
    from chasqui_cli.leading import check_may_write

    check_may_write(desk, "delete a queue")
    keys = keys_of(name, ns)
    with _whole(desk, keys, listed=True) as session, _named(name):
        _, stored = session.link.run(rsmq.attributes(keys))
        if not any(stored) and not session.link.run(rsmq.page(keys, count=1, preview=0)).messages:
            # a name without a queue is taken off the list all the same
            session.link.run(rsmq.drop(keys))
            return
        with desk.written_down("rsmq queue delete", name) as pen:
            pen.keep([rsmq.queue_item(keys, stored)])
            _keep_all(session, keys, pen)
            session.link.run(rsmq.drop(keys))


def _keep_all(session: Session, keys: RsmqKeys, pen: Any) -> None:
    from chasqui.foreign import rsmq

    after: Message | None = None
    while True:
        page = session.link.run(rsmq.page(keys, after=after, count=AT_ONCE))
        pen.keep([rsmq.item(keys, "purged", message) for message in page.messages])
        after = page.after
        if after is None:
            return


@message_app.command()
@at_desk()
def send(
    desk: Desk,
    name: Name,
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="The body; - reads stdin.")],
    delay: Annotated[
        str | None,
        typer.Option("--delay", "-d", metavar="TIME", help="Seconds, or 500ms; the queue's own by itself."),
    ] = None,
    realtime: Annotated[bool, typer.Option("--realtime", help="Tell those who listen.")] = False,
    ns: Namespace = RSMQ,
) -> None:
    """Send a message; prints its id."""
    import sys

    from chasqui.foreign import rsmq

    body = sys.stdin.buffer.read() if message == "-" else message.encode("utf-8", "surrogateescape")
    delay_ms = None if delay is None else _seconds(delay)
    with _whole(desk, keys_of(name, ns)) as session, _named(name):
        print_line(session.link.run(rsmq.send(keys_of(name, ns), body, delay_ms=delay_ms, realtime=realtime)))


@message_app.command()
@at_desk(shape=RECEIVED, many=False)
def receive(
    desk: Desk,
    name: Name,
    vt: Annotated[
        str | None,
        typer.Option(
            "--visibility-timeout", "-t", metavar="TIME", help="Seconds, or 500ms; the queue's by itself."
        ),
    ] = None,
    ns: Namespace = RSMQ,
    output: Output = None,
) -> None:
    """Receive a message: it is hidden then, for the queue's time or the one given."""
    from chasqui.foreign import rsmq

    vt_ms = None if vt is None else _seconds(vt)
    with _whole(desk, keys_of(name, ns)) as session, _named(name):
        _hand_out(desk, output, name, session.link.run(rsmq.receive(keys_of(name, ns), vt_ms=vt_ms)))


@message_app.command()
@at_desk(shape=RECEIVED, many=False)
def pop(desk: Desk, name: Name, ns: Namespace = RSMQ, output: Output = None) -> None:
    """Receive a message and delete it in the same step."""
    from chasqui.foreign import rsmq

    with _whole(desk, keys_of(name, ns)) as session, _named(name):
        _hand_out(desk, output, name, session.link.run(rsmq.pop(keys_of(name, ns))))


@message_app.command("delete")
@at_desk()
def delete_message(desk: Desk, name: Name, message_id: MessageId, ns: Namespace = RSMQ) -> None:
    """Delete a message, whoever holds it; `rsmq purge` can be undone, this cannot."""
    from chasqui.foreign import rsmq

    with _whole(desk, keys_of(name, ns)) as session:
        if not session.link.run(rsmq.delete(keys_of(name, ns), message_id)):
            raise _failure(f"Failed to delete message ID: {message_id}")


@message_app.command()
@at_desk()
def visibility(
    desk: Desk,
    name: Name,
    message_id: MessageId,
    vt: Annotated[
        str, typer.Option("--visibility-timeout", "-t", metavar="TIME", help="Seconds from now, or 500ms.")
    ],
    ns: Namespace = RSMQ,
) -> None:
    """Hide a message for so long from now on; 0 shows it at once."""
    from chasqui.foreign import rsmq

    with desk.session() as session:
        failed = _failure(f"Failed to change visibility timeout for message ID: {message_id}")
        try:
            changed = session.link.run(rsmq.change_visibility(keys_of(name, ns), message_id, _seconds(vt)))
        except rsmq.QueueNotFound:
            raise failed from None
        if not changed:
            raise failed
    told = f"{vt}s" if vt.isdigit() else vt
    print_line(f"Message ID: {message_id} visibility timeout set to {told}")


def _hand_out(desk: Desk, output: Format | None, queue: str, message: Message | None) -> None:
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
    _write(desk, output, record)


def _described(told: QueueStats) -> Record:
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


def _seconds(text: str) -> int:
    """A bare number is seconds, as RSMQ has it; a duration says its unit."""
    return int(text) * 1000 if text.isdigit() else duration_ms(text)
