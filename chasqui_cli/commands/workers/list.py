from __future__ import annotations

from chasqui_cli.commands.workers._consumers import CONSUMER_SCHEMA, GoneAfterOption, consumer_record, read_consumers
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.output.columns import Column, column

COLUMNS: list[Column] = [
    column("consumer"),
    column("verdict"),
    column("in flight", "in_flight", kind="count"),
    column("again", "delivered_again", kind="count"),
    column("oldest", "oldest_ms", kind="span"),
    column("idle", "idle_ms", kind="span"),
    Column("inactive", lambda record: "n/a" if record["inactive_ms"] is None else record["inactive_ms"], "right", kind="span"),
    column("group", wide=True),
]  # fmt: skip


@command("workers list", schema=CONSUMER_SCHEMA)
def list_consumers(ctx: CommandContext, queue: QueueArgument, gone_after: GoneAfterOption = "30s") -> None:
    """Every consumer: what it holds, when it last asked, and whether it works, waits, does not poll, or is gone."""
    with ctx.session() as session:
        found = read_consumers(ctx, session, queue, gone_after)
    ctx.write_records([consumer_record(queue, one) for one in found.consumers], COLUMNS, now_ms=found.now_ms)
    if not found.consumers:
        ctx.info(f"nobody works on {queue}: it has no consumers")
    elif not any(one.state in ("working", "waiting") for one in found.consumers):
        ctx.info(f"nobody works on {queue}: none of its consumers asks for jobs")
