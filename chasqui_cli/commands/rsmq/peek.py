"""`chasqui rsmq peek`: messages in order of visibility, without receiving them."""

from __future__ import annotations

from dataclasses import replace

import typer

from chasqui_cli.commands.rsmq._options import COLUMNS, DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._record import MESSAGE_SCHEMA
from chasqui_cli.commands.rsmq._search import MessageFilterOptions, find_messages, require_queue
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import options_from
from chasqui_cli.exit_codes import ExitCode


@command("rsmq peek", schema=MESSAGE_SCHEMA, chooses=True, named=False, payloads=True)
@options_from(MessageFilterOptions, without=("held", "every"), limit=20)
def peek(
    ctx: CommandContext, queue: QueueArgument, wanted: MessageFilterOptions, ns: NamespaceOption = DEFAULT_NAMESPACE
) -> None:
    """Look at messages without receiving them: next visible first, nothing of them changes."""
    keys = rsmq_keys(queue, ns)
    with ctx.session() as session:
        require_queue(session, keys)
        found = find_messages(ctx, session, keys, replace(wanted, held=True))
    ctx.write_records(found.records, COLUMNS, now_ms=found.now_ms)
    if found.missing:
        ctx.info(f"not there: {', '.join(found.missing)}")
        raise typer.Exit(ExitCode.PARTLY)
