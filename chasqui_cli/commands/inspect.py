"""`chasqui inspect`: how queues stand right now, in one round trip, without reading a job."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_any_queue
from chasqui_cli.context.shared_options import JoblistVisibilityOption, RescanOption
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.records import SNAPSHOT_SCHEMA, snapshot_record
from chasqui_cli.output.times import parse_optional_duration_ms

COLUMNS: list[Column] = [
    column("queue"),
    column("kind"),
    column("waiting", kind="count"),
    column("oldest", "oldest_waiting_ms", kind="span"),
    column("pending", kind="count"),
    column("consumers", kind="count"),
    column("dlq", "dlq_depth", kind="count"),
    column("delayed", "delayed_depth", kind="count"),
    column("due", "delayed_due", kind="count"),
    column("lag", "oldest_delayed_lag_ms", kind="span"),
    column("cron", "repeatable_count", kind="count"),
    column("overdue", "repeatable_overdue", kind="count"),
    column("events", "events_depth", kind="count", wide=True),
    column("promoter", "promoter_lock", "holder", wide=True),
    column("scheduler", "scheduler_lock", "holder", wide=True),
    column("idle", "longest_idle_ms", kind="span", wide=True),
    column("stale", kind="count", wide=True),
]


@command("inspect", schema=SNAPSHOT_SCHEMA)
def inspect(
    ctx: CommandContext,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=complete_any_queue),
    ] = None,
    rescan: RescanOption = False,
    visibility: JoblistVisibilityOption = None,
) -> None:
    """How queues stand right now: depths, ages, dead letters, delays, schedules, leaders. One round trip.

    RSMQ queues are named rsmq:NAME (rsmq:NS:NAME in another namespace), list job queues list:NAME. A dash stands where
    a system has no such idea. Of all queues, one that cannot be looked at is told and left out: exit code 3.
    """
    from chasqui.inspect.snapshot import SnapshotFailure
    from chasqui_cli.queues.targets import queue_snapshots

    with ctx.session() as session:
        snapshots = queue_snapshots(
            ctx, session, queues, rescan=rescan, visibility_ms=parse_optional_duration_ms(visibility)
        )
    refused = [] if queues else [one for one in snapshots if isinstance(one, SnapshotFailure)]
    if refused and len(refused) == len(snapshots):
        refused[0].or_raise()
    seen = [one.or_raise() for one in snapshots if one not in refused]
    now_ms = seen[0].server_time_ms if seen else None
    ctx.write_records([snapshot_record(one) for one in seen], COLUMNS, now_ms=now_ms)
    for one in refused:
        ctx.info(f"{one.queue} cannot be looked at: {one.error}")
    if refused:
        raise typer.Exit(ExitCode.PARTLY)
