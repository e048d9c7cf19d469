"""`chasqui rsmq expire`: deletes or moves messages by age."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from chasqui_cli.commands.rsmq._change import (
    FILTERS_OF_OWN,
    TargetNamespaceOption,
    change_command,
    change_messages,
    move_change,
    purge_change,
)
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, QueueArgument, rsmq_keys
from chasqui_cli.commands.rsmq._search import MessageFilterOptions
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.shared_options import options_from


@change_command("rsmq expire")
@options_from(MessageFilterOptions, without=FILTERS_OF_OWN)
def expire(
    ctx: CommandContext,
    queue: QueueArgument,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Sent longer ago than this, as in 7d.")
    ],
    wanted: MessageFilterOptions,
    to: Annotated[
        str | None, typer.Option("--to", metavar="QUEUE", help="Move them there instead of deleting them.")
    ] = None,
    to_ns: TargetNamespaceOption = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Delete messages by age, or move them; ids that tell no time stay. `chasqui undo` takes it back."""
    keys = rsmq_keys(queue, ns)
    wanted = replace(wanted, older_than=older_than)
    way = purge_change(keys, "expire") if to is None else move_change(keys, rsmq_keys(to, to_ns or ns), "expire")
    change_messages(ctx, keys, wanted, way)
