"""`chasqui rsmq hold`: hides messages until a time."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.rsmq._change import MessageChange, change_command, change_messages, reschedule_change
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import MessageFilterOptions
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.shared_options import options_from
from chasqui_cli.output.times import format_iso, parse_time_ms


@change_command("rsmq hold")
@options_from(MessageFilterOptions)
def hold(
    ctx: CommandContext,
    queue: QueueArgument,
    until: Annotated[str, typer.Option("--for", metavar="TIME", help="1h from now, or ISO-8601.")],
    wanted: MessageFilterOptions,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Hide messages until a time, or reschedule delayed ones to it. `chasqui undo` takes it back."""
    keys = rsmq_keys(queue, ns)

    def way(now_ms: int) -> MessageChange:
        at_ms = parse_time_ms(until, now_ms, "future")
        return reschedule_change(keys, at_ms, "hold", "held", f"nobody can receive them before {format_iso(at_ms)}")

    change_messages(ctx, keys, wanted, way)
