"""`chasqui rsmq peek`, `show` and `counts`: messages looked at without being received."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.rsmq._options import (
    COLUMNS,
    DEFAULT_NAMESPACE,
    MESSAGE_SCHEMA,
    NamespaceOption,
    QueueArgument,
    message_record,
    rsmq_keys,
)
from chasqui_cli.commands.rsmq._search import (
    MessageFilterOptions,
    find_messages,
    message_filters,
    require_queue,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_rsmq_queues
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from chasqui_cli.output.columns import Record

COUNTS_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "server_time_ms": "int",
    "messages": "int",
    "ready": "int",
    "delayed": "int",
    "in_flight": "int",
    "hidden_as_npm_counts": "int?",
}


@command(shape=MESSAGE_SCHEMA, chooses=True, named=False, payloads=True)
@message_filters(without=("held", "every"), limit=20)
def peek(
    desk: CommandContext,
    queue: QueueArgument,
    wanted: MessageFilterOptions,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Look at messages without receiving them: next visible first, nothing of them changes."""
    keys = rsmq_keys(queue, ns)
    with desk.session() as session:
        require_queue(session, keys)
        found = find_messages(desk, session, keys, replace(wanted, held=True))
    desk.write_records(found.records, COLUMNS, now_ms=found.now_ms)
    if found.missing:
        desk.info(f"not there: {', '.join(found.missing)}")
        raise typer.Exit(3)


@command(shape=MESSAGE_SCHEMA, many=False, payloads=True)
def show(
    desk: CommandContext,
    queue: QueueArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Which message.")],
    raw: Annotated[bool, typer.Option("--raw", help="Write the bytes of the body, and nothing else.")] = False,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """One message, whole, without receiving it. Exit code 4 when it is not there."""
    from chasqui.errors import NotFound
    from chasqui.foreign import rsmq

    with desk.session() as session:
        page = session.link.run(rsmq.messages_by_id(rsmq_keys(queue, ns), [message_id]))
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
    desk.write_record(message_record(desk, message, page.now_ms), COLUMNS, now_ms=page.now_ms)


@command(shape=COUNTS_SCHEMA)
def counts(
    desk: CommandContext,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUEUE]...",
            help="Which; none means all listed ones.",
            autocompletion=complete_rsmq_queues,
        ),
    ] = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Messages by state, by the server's clock in milliseconds."""
    from chasqui.foreign import rsmq

    rows: list[Record] = []
    with desk.session() as session:
        for name in queues or session.link.run(rsmq.list_queues(ns)):
            keys = rsmq_keys(name, ns)
            if queues:
                require_queue(session, keys)
            found = session.link.run(rsmq.count_by_state(keys))
            try:
                hidden: int | None = session.link.run(rsmq.queue_stats(keys)).hidden
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
    desk.write_records(rows, [*named, *numbers, column("hidden", "hidden_as_npm_counts", kind="count", wide=True)])
