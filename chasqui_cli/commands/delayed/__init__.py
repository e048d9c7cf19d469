"""`chasqui delayed`: jobs that wait for a time, looked at and moved, also those without an id and those that are no jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.delayed._change import DelayedChange, change_delayed
from chasqui_cli.commands.delayed._record import (
    BUCKET_SCHEMA,
    CHANGE_SCHEMA,
    COLUMNS,
    DELAYED_SCHEMA,
    bucket_label,
    bucket_records,
    delayed_job_record,
    time_range,
)
from chasqui_cli.commands.delayed._search import find_delayed
from chasqui_cli.context.command_context import MAX_SAFE_INTEGER, CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms, parse_time_ms
from chasqui_cli.output.writer import Format
from chasqui_cli.queues.targets import warn_if_missing

if TYPE_CHECKING:
    from chasqui.operate.delayed_jobs import DelayedJob

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Queue = Annotated[str, typer.Argument(help="Which queue.", autocompletion=complete_queues)]
JobIdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Which jobs; those that are no jobs by the `~` and digits of `list`."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every delayed job, if neither ids nor a filter say which.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The first N that match only.")]


@app.callback(invoke_without_command=True)
def delayed(ctx: typer.Context) -> None:
    """Jobs that wait for a time: list them, count them by due time, run, cancel or move them.

    `--since` and `--until` mean when a job is due, and durations are counted from now on: `--until 1h` is the next hour.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list")
@command(shape=DELAYED_SCHEMA, chooses=True, payloads=True)
def list_delayed(
    desk: CommandContext,
    queue: Queue,
    ids: JobIdsArgument = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 20,
) -> None:
    """Delayed jobs, soonest first; what is no job is shown with its bytes."""
    with desk.session() as session:
        now_ms = session.server_now_ms()
        found = find_delayed(desk, session, queue, ids or [], now_ms, limit)
        if not found:
            warn_if_missing(desk, session, queue)
    records = [delayed_job_record(desk, queue, one) for one in found]
    desk.write_records(records, COLUMNS, now_ms=now_ms)


@app.command()
@command(shape=BUCKET_SCHEMA)
def histogram(
    desk: CommandContext,
    queue: Queue,
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

    with desk.session() as session:
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
            warn_if_missing(desk, session, queue)
    most = max((record["jobs"] for record in records), default=1) or 1
    bar = Column("", lambda record: "█" * round(20 * record["jobs"] / most))
    drawn = [bar] if desk.output in (Format.TABLE, Format.WIDE) else []
    desk.write_records(
        records, [Column("due", bucket_label), column("jobs", kind="count"), *drawn], now_ms=found.now_ms
    )
    if found.buckets:
        fullest = max(found.buckets, key=lambda bucket: bucket.jobs)
        jobs = "1 job falls" if fullest.jobs == 1 else f"{fullest.jobs:,} jobs fall"
        desk.info(f"{jobs} due {time_range(fullest.from_ms, fullest.to_ms)} UTC")


@app.command()
@command(shape=CHANGE_SCHEMA, chooses=True, payloads=True, changes=True)
def now(
    desk: CommandContext,
    queue: Queue,
    ids: JobIdsArgument = None,
    every: AllOption = False,
    limit: LimitOption = None,
) -> None:
    """Run jobs now: each moves to the stream, whenever it was due. `undo` puts it back while nobody has read it."""
    change_delayed(desk, queue, ids or [], limit, DelayedChange("run", "run now", "ran", "would run"), every=every)


@app.command()
@command(shape=CHANGE_SCHEMA, chooses=True, payloads=True, changes=True)
def cancel(
    desk: CommandContext,
    queue: Queue,
    ids: JobIdsArgument = None,
    every: AllOption = False,
    limit: LimitOption = None,
) -> None:
    """Remove delayed jobs by their exact bytes, with or without an id, jobs or not. `undo` puts them back."""
    change_delayed(
        desk,
        queue,
        ids or [],
        limit,
        DelayedChange("cancelled", "cancel", "cancelled", "would cancel"),
        every=every,
    )


@app.command()
@command(shape=CHANGE_SCHEMA, chooses=True, payloads=True, changes=True)
def move(
    desk: CommandContext,
    queue: Queue,
    ids: JobIdsArgument = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="TIME", help="So much later, as in 1h; -1h is earlier.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="To this time: ISO-8601, or 1h from now.")
    ] = None,
    every: AllOption = False,
    limit: LimitOption = None,
) -> None:
    """Let jobs be due earlier or later. `undo` moves them back."""
    from chasqui.errors import ArgumentError

    if (by is None) == (to is None):
        raise ArgumentError("say how far or where to", hint="either --by 1h or --to 2026-12-24T18:00:00Z")
    shift = None if by is None else parse_duration_ms(by.removeprefix("-")) * (-1 if by.startswith("-") else 1)
    parse_time_ms(to or "now", 0, "future")  # what is no time is refused before anything is looked for

    def target(member: DelayedJob, now_ms: int) -> int:
        at_ms = member.run_at_ms + shift if shift is not None else parse_time_ms(to or "", now_ms, "future")
        if at_ms > MAX_SAFE_INTEGER:
            raise ArgumentError(f"{by or to} is further away than a server can count")
        return max(0, at_ms)

    change_delayed(
        desk,
        queue,
        ids or [],
        limit,
        DelayedChange("moved", "move", "moved", "would move", target),
        every=every,
    )
