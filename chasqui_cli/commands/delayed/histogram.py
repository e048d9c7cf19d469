from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.delayed._record import BUCKET_SCHEMA, bucket_label, bucket_records, time_range
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms
from chasqui_cli.output.writer import Format
from chasqui_cli.queues.targets import warn_if_missing


@command("delayed histogram", schema=BUCKET_SCHEMA)
def histogram(
    ctx: CommandContext,
    queue: QueueArgument,
    buckets: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="So many at most.")] = 12,
    step: Annotated[
        str | None, typer.Option(metavar="TIME", help="How wide one is, as in 5m; by itself: as it fits.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="TIME", help="Look no further ahead than this, as in 1h.")
    ] = None,
) -> None:
    """When delayed jobs fall due, counted by the server: two round trips, and no job is read."""
    from chasqui import Keys
    from chasqui.operate import delayed_jobs

    with ctx.session() as session:
        until_ms = session.server_now_ms() + parse_duration_ms(within) if within else None
        found = session.query(
            delayed_jobs.due_histogram,
            Keys(queue),
            buckets=buckets,
            step_ms=parse_duration_ms(step) if step else None,
            until_ms=until_ms,
        )
        records = bucket_records(queue, found)
        if not records:
            warn_if_missing(ctx, session, queue)
    most = max((record["jobs"] for record in records), default=1) or 1
    bar = Column("", lambda record: "█" * round(20 * record["jobs"] / most))
    drawn = [bar] if ctx.output in (Format.TABLE, Format.WIDE) else []
    ctx.write_records(records, [Column("due", bucket_label), column("jobs", kind="count"), *drawn], now_ms=found.now_ms)
    if found.buckets:
        fullest = max(found.buckets, key=lambda bucket: bucket.jobs)
        jobs = "1 job falls" if fullest.jobs == 1 else f"{fullest.jobs:,} jobs fall"
        ctx.info(f"{jobs} due {time_range(fullest.from_ms, fullest.to_ms)} UTC")
