"""`chasqui rsmq release`: makes hidden messages visible."""

from __future__ import annotations

from dataclasses import replace

from chasqui_cli.commands.rsmq._change import change_command, change_messages, reschedule_change
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import MessageFilterOptions
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.shared_options import options_from


@change_command("rsmq release")
@options_from(MessageFilterOptions, without=("held", "every"), state="in-flight")
def release(
    ctx: CommandContext, queue: QueueArgument, wanted: MessageFilterOptions, ns: NamespaceOption = DEFAULT_NAMESPACE
) -> None:
    """Make hidden messages visible now: those of a consumer that is gone, or with --state delayed those that wait."""
    keys = rsmq_keys(queue, ns)
    wanted = replace(wanted, state=None if wanted.ids else wanted.state, held=True, every=True)
    effect = "any consumer may receive them now; one that still holds a message will not know"
    change_messages(ctx, keys, wanted, lambda now_ms: reschedule_change(keys, now_ms, "release", "released", effect))
