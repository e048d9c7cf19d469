"""`chasqui rsmq counts`: messages of queues by state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, rsmq_keys
from chasqui_cli.commands.rsmq._search import require_queue
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


@command("rsmq counts", schema=COUNTS_SCHEMA)
def counts(
    ctx: CommandContext,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUEUE]...", help="Which; none means all listed ones.", autocompletion=complete_rsmq_queues
        ),
    ] = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Messages by state, by the server's clock in milliseconds."""
    from chasqui.foreign import rsmq

    rows: list[Record] = []
    with ctx.session() as session:
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
    ctx.write_records(rows, [*named, *numbers, column("hidden", "hidden_as_npm_counts", kind="count", wide=True)])
