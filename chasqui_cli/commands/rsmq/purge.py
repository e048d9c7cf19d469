"""`chasqui rsmq purge`: deletes messages."""

from __future__ import annotations

from chasqui_cli.commands.rsmq._change import change_command, change_messages, purge_change
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import MessageFilterOptions
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.shared_options import options_from


@change_command("rsmq purge")
@options_from(MessageFilterOptions)
def purge(
    ctx: CommandContext, queue: QueueArgument, wanted: MessageFilterOptions, ns: NamespaceOption = DEFAULT_NAMESPACE
) -> None:
    """Delete messages; attributes and totals of the queue stay. `chasqui undo` brings them back."""
    keys = rsmq_keys(queue, ns)
    change_messages(ctx, keys, wanted, purge_change(keys))
