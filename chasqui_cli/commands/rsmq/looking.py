"""`chasqui rsmq peek`, `show` and `counts`: messages looked at without being received."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.columns import column
from chasqui_cli.commands.rsmq.finding import Wanted, check_queue, found_messages, wanting
from chasqui_cli.commands.rsmq.naming import (
    COLUMNS,
    MESSAGE,
    RSMQ,
    Namespace,
    QueueName,
    keys_of,
    message_record,
)
from chasqui_cli.completing import rsmq_names
from chasqui_cli.desk import Desk, at_desk

if TYPE_CHECKING:
    from chasqui_cli.columns import Record

COUNTS: dict[str, Any] = {
    "queue": "str",
    "server_time_ms": "int",
    "messages": "int",
    "ready": "int",
    "delayed": "int",
    "in_flight": "int",
    "hidden_as_npm_counts": "int?",
}


@at_desk(shape=MESSAGE, chooses=True, named=False, payloads=True)
@wanting(without=("held", "every"), limit=20)
def peek(
    desk: Desk,
    queue: QueueName,
    wanted: Wanted,
    ns: Namespace = RSMQ,
) -> None:
    """Look at messages without receiving them: next visible first, nothing of them changes."""
    keys = keys_of(queue, ns)
    with desk.session() as session:
        check_queue(session, keys)
        found = found_messages(desk, session, keys, replace(wanted, held=True))
    desk.emit(found.records, COLUMNS, now_ms=found.now_ms)
    if found.missing:
        desk.say(f"not there: {', '.join(found.missing)}")
        raise typer.Exit(3)


@at_desk(shape=MESSAGE, many=False, payloads=True)
def show(
    desk: Desk,
    queue: QueueName,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Which message.")],
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the bytes of the body, and nothing else.")
    ] = False,
    ns: Namespace = RSMQ,
) -> None:
    """One message, whole, without receiving it. Exit code 4 when it is not there."""
    from chasqui.errors import NotFound
    from chasqui.foreign import rsmq

    with desk.session() as session:
        page = session.link.run(rsmq.those(keys_of(queue, ns), [message_id]))
    if not page.messages:
        raise NotFound(
            f"{queue} has no message {message_id}",
            hint="it was deleted, moved or never sent; `rsmq peek` lists",
        )
    [message] = page.messages
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(message.body or b"")
        return
    desk.emit_one(message_record(desk, message, page.now_ms), COLUMNS, now_ms=page.now_ms)


@at_desk(shape=COUNTS)
def counts(
    desk: Desk,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUEUE]...", help="Which; none means all listed ones.", autocompletion=rsmq_names
        ),
    ] = None,
    ns: Namespace = RSMQ,
) -> None:
    """Messages by state, by the server's clock in milliseconds."""
    from chasqui.foreign import rsmq

    rows: list[Record] = []
    with desk.session() as session:
        for name in queues or session.link.run(rsmq.names(ns)):
            keys = keys_of(name, ns)
            if queues:
                check_queue(session, keys)
            found = session.link.run(rsmq.counts(keys))
            try:
                hidden: int | None = session.link.run(rsmq.stats(keys)).hidden
            except rsmq.QueueNotFound:
                hidden = None
            rows.append(
                {
                    "queue": name,
                    "server_time_ms": found.now_ms,
                    "messages": found.messages,
                    "ready": found.ready,
                    "delayed": found.delayed,
                    "in_flight": found.in_flight,
                    "hidden_as_npm_counts": hidden,
                }
            )
    named = [column("queue")]
    numbers = [column(name, kind="count") for name in ("messages", "ready", "delayed", "in_flight")]
    desk.emit(rows, [*named, *numbers, column("hidden", "hidden_as_npm_counts", kind="count", wide=True)])
