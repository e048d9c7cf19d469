"""`chasqui rsmq move`: moves messages to another queue."""

from __future__ import annotations

from chasqui_cli.commands.rsmq._change import (
    TargetNamespaceOption,
    TargetOption,
    change_command,
    change_messages,
    move_change,
)
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import MessageFilterOptions
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.shared_options import options_from


@change_command("rsmq move")
@options_from(MessageFilterOptions)
def move(
    ctx: CommandContext,
    queue: QueueArgument,
    to: TargetOption,
    wanted: MessageFilterOptions,
    to_ns: TargetNamespaceOption = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Move messages to another queue, with id, body, counters and time. `chasqui undo` moves them back."""
    keys = rsmq_keys(queue, ns)
    change_messages(ctx, keys, wanted, move_change(keys, rsmq_keys(to, to_ns or ns)))
