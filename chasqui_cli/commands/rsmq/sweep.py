"""`chasqui rsmq sweep`: moves messages that were received too often."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from chasqui_cli.commands.rsmq._change import (
    FILTERS_OF_OWN,
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


@change_command("rsmq sweep")
@options_from(MessageFilterOptions, without=FILTERS_OF_OWN)
def sweep(
    ctx: CommandContext,
    queue: QueueArgument,
    to: TargetOption,
    max_rc: Annotated[int, typer.Option("--max-rc", min=1, metavar="N", help="Messages that were received so often.")],
    wanted: MessageFilterOptions,
    to_ns: TargetNamespaceOption = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Move messages that were received too often to a queue for the dead. `chasqui undo` moves them back."""
    keys = rsmq_keys(queue, ns)
    wanted = replace(wanted, min_rc=max_rc)
    change_messages(ctx, keys, wanted, move_change(keys, rsmq_keys(to, to_ns or ns), "sweep"))
