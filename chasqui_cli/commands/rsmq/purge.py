"""Purge."""

from __future__ import annotations

from chasqui_cli.commands.rsmq._change import CHANGE_SCHEMA, change_messages, purge_change
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import MessageFilterOptions, message_filters
from chasqui_cli.context.command_context import CommandContext, command


@command("rsmq purge", schema=CHANGE_SCHEMA, chooses=True, named=False, payloads=True, changes=True, undoable=True)
@message_filters()
def purge(
    ctx: CommandContext,
    queue: QueueArgument,
    wanted: MessageFilterOptions,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Delete messages; attributes and totals of the queue stay. `chasqui undo` brings them back."""
    keys = rsmq_keys(queue, ns)
    change_messages(ctx, keys, wanted, purge_change(keys))
