"""`chasqui delayed`: jobs that wait for a time, looked at and moved, also those without an id and those that are no jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.commands.delayed.changing import Change, change_jobs
from chasqui_cli.commands.delayed.finding import found_jobs
from chasqui_cli.commands.delayed.records import (
    BUCKET,
    CHANGED,
    COLUMNS,
    DELAYED,
    bucket_records,
    job_record,
    time_range,
    when,
)
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import MOST_COUNTED, Desk, at_desk
from chasqui_cli.finding import warn_where_there_is_no
from chasqui_cli.output import Format
from chasqui_cli.times import duration_ms, moment_ms

if TYPE_CHECKING:
    from chasqui.delaying import Member

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Queue = Annotated[str, typer.Argument(help="Which queue.", autocompletion=queue_names)]
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...", help="Which jobs; those that are no jobs by the `~` and digits of `list`."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every delayed job, if neither ids nor a filter say which.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="The first N that match only.")
]


@app.callback(invoke_without_command=True)
def delayed(ctx: typer.Context) -> None:
    """Jobs that wait for a time: list them, count them by due time, run, cancel or move them.

    `--since` and `--until` mean when a job is due, and durations are counted from now on: `--until 1h` is the next hour.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list")
@at_desk(shape=DELAYED, chooses=True, payloads=True)
def list_jobs(
    desk: Desk,
    queue: Queue,
    ids: Ids = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 20,
) -> None:
    """Delayed jobs, soonest first; what is no job is shown with its bytes."""
    with desk.session() as session:
        now_ms = session.now_ms()
        found = found_jobs(desk, session, queue, ids or [], now_ms, limit)
        if not found:
            warn_where_there_is_no(desk, session, queue)
    records = [job_record(desk, queue, one) for one in found]
    desk.emit(records, COLUMNS, now_ms=now_ms)


@app.command()
@at_desk(shape=BUCKET)
def histogram(
    desk: Desk,
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
    from chasqui import Keys, delaying

    with desk.session() as session:
        until_ms = session.now_ms() + duration_ms(within) if within else None
        found = session.look(
            delaying.histogram,
            Keys(queue),
            buckets=buckets,
            step_ms=duration_ms(step) if step else None,
            until_ms=until_ms,
        )
        records = bucket_records(queue, found)
        if not records:
            warn_where_there_is_no(desk, session, queue)
    most = max((record["jobs"] for record in records), default=1) or 1
    bar = Column("", lambda record: "█" * round(20 * record["jobs"] / most))
    drawn = [bar] if desk.output in (Format.TABLE, Format.WIDE) else []
    desk.emit(records, [Column("due", when), column("jobs", kind="count"), *drawn], now_ms=found.now_ms)
    if found.buckets:
        fullest = max(found.buckets, key=lambda bucket: bucket.jobs)
        jobs = "1 job falls" if fullest.jobs == 1 else f"{fullest.jobs:,} jobs fall"
        desk.say(f"{jobs} due {time_range(fullest.from_ms, fullest.to_ms)} UTC")


@app.command()
@at_desk(shape=CHANGED, chooses=True, payloads=True, changes=True)
def now(desk: Desk, queue: Queue, ids: Ids = None, every: All = False, limit: Limit = None) -> None:
    """Run jobs now: each moves to the stream, whenever it was due. `undo` puts it back while nobody has read it."""
    change_jobs(desk, queue, ids or [], limit, Change("run", "run now", "ran", "would run"), every=every)


@app.command()
@at_desk(shape=CHANGED, chooses=True, payloads=True, changes=True)
def cancel(desk: Desk, queue: Queue, ids: Ids = None, every: All = False, limit: Limit = None) -> None:
    """Remove delayed jobs by their exact bytes, with or without an id, jobs or not. `undo` puts them back."""
    change_jobs(
        desk, queue, ids or [], limit, Change("cancelled", "cancel", "cancelled", "would cancel"), every=every
    )


@app.command()
@at_desk(shape=CHANGED, chooses=True, payloads=True, changes=True)
def move(
    desk: Desk,
    queue: Queue,
    ids: Ids = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="TIME", help="So much later, as in 1h; -1h is earlier.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="To this time: ISO-8601, or 1h from now.")
    ] = None,
    every: All = False,
    limit: Limit = None,
) -> None:
    """Let jobs be due earlier or later. `undo` moves them back."""
    from chasqui.errors import ArgumentError

    if (by is None) == (to is None):
        raise ArgumentError("say how far or where to", hint="either --by 1h or --to 2026-12-24T18:00:00Z")
    shift = None if by is None else duration_ms(by.removeprefix("-")) * (-1 if by.startswith("-") else 1)
    moment_ms(to or "now", 0, "future")  # what is no time is refused before anything is looked for

    def target(member: Member, now_ms: int) -> int:
        at_ms = member.run_at_ms + shift if shift is not None else moment_ms(to or "", now_ms, "future")
        if at_ms > MOST_COUNTED:
            raise ArgumentError(f"{by or to} is further away than a server can count")
        return max(0, at_ms)

    change_jobs(
        desk, queue, ids or [], limit, Change("moved", "move", "moved", "would move", target), every=every
    )
