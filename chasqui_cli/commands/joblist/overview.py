"""`chasqui joblist overview`, `list`, `show` and `events`: how a list job queue stands, and what becomes of its jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.joblist._options import (
    COLUMNS,
    JOB_SCHEMA,
    ListName,
    QueueArgument,
    VisibilityOption,
    joblist_job_record,
    joblist_keys,
    require_queue,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_joblist_queues
from chasqui_cli.context.shared_options import StreamOutputOption
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui.foreign.joblist import ListOverview
    from chasqui_cli.output.columns import Record

OVERVIEW_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "server_time_ms": "int",
    "visibility_ms": "int",
    "pending": "int",
    "processing": "int",
    "stale": "int",
    "completed": "int",
    "failed": "int",
    "oldest_pending_ms": "int?",
    "oldest_claim_ms": "int?",
    "unsettled": [{"id": "str", "verdict": "str", "why": "str"}],
    "attempts": "any",
    "parked": "int",
}
OVERVIEW_COLUMNS: list[Column] = [
    column("queue"),
    *(column(name, kind="count") for name in ("pending", "processing", "stale", "completed", "failed")),
    column("oldest", "oldest_pending_ms", kind="span"),
    column("claim", "oldest_claim_ms", kind="span"),
    Column("broken", lambda row: len(row["unsettled"]), "right"),
    column("attempts", wide=True),
    column("parked", kind="count", wide=True),
]
EVENT_SCHEMA = {"queue": "str", "id": "str?", "status": "str?", "raw": "str"}
EVENT_COLUMNS = [column("id"), column("status"), column("raw", wide=True)]


@command(shape=OVERVIEW_SCHEMA)
def overview(
    desk: CommandContext,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=complete_joblist_queues),
    ] = None,
    visibility: VisibilityOption = "5s",
) -> None:
    """Depths, ages, attempts, and how many claims are stale for a visibility that only the workers know."""
    from chasqui.foreign import discover, joblist

    visibility_ms = parse_duration_ms(visibility)
    with desk.session() as session:
        names = queues or [keys.queue for keys in discover(session.link).joblists]
        rows = []
        for name in names:
            keys = joblist_keys(name)
            if queues:
                require_queue(session, keys)
            told = session.link.run(joblist.read_overview(keys, visibility_ms=visibility_ms))
            rows.append(_overview_record(name, told, visibility_ms))
    desk.write_records(rows, OVERVIEW_COLUMNS)


def _overview_record(name: str, told: ListOverview, visibility_ms: int) -> Record:
    depths = told.depths
    return {
        "queue": name,
        "server_time_ms": told.now_ms,
        "visibility_ms": visibility_ms,
        "pending": depths.pending,
        "processing": depths.processing,
        "stale": told.stale,
        "completed": depths.completed,
        "failed": depths.failed,
        "oldest_pending_ms": told.oldest_pending_ms,
        "oldest_claim_ms": told.oldest_claim_ms,
        "unsettled": [{"id": one.claim.id, "verdict": one.status, "why": one.reason} for one in told.unsettled],
        "attempts": {str(tries): many for tries, many in sorted(told.attempts.items())},
        "parked": told.parked,
    }


@command(shape=JOB_SCHEMA, payloads=True)
def list_jobs(
    desk: CommandContext,
    queue: QueueArgument,
    which: Annotated[ListName, typer.Option("--list", help="Which of the four lists.")] = "pending",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 20,
) -> None:
    """Jobs of one list: of pending ones the next first, of the others the newest. Nothing is claimed."""
    from chasqui.foreign import joblist

    keys = joblist_keys(queue)
    with desk.session() as session:
        require_queue(session, keys)
        now_ms = session.server_now_ms()
        ids = session.link.run(joblist.list_ids(keys, which, limit=limit))
        jobs = [session.link.run(joblist.read_job(keys, job_id)) for job_id in dict.fromkeys(ids)]
    desk.write_records([joblist_job_record(desk, queue, job) for job in jobs if job], COLUMNS, now_ms=now_ms)


@command(shape=JOB_SCHEMA, many=False, payloads=True)
def show(
    desk: CommandContext,
    queue: QueueArgument,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Which job.")],
) -> None:
    """One job: its hash, the lists its id is in and where, how long it is kept. Exit code 4 when it is not there."""
    from chasqui.errors import NotFound
    from chasqui.foreign import joblist

    with desk.session() as session:
        now_ms = session.server_now_ms()
        job = session.link.run(joblist.read_job(joblist_keys(queue), job_id))
    if job is None:
        raise NotFound(f"{queue} has nothing of a job {job_id}", hint="its hash has expired and its id left the lists")
    if job.is_expired:
        desk.info("its hash has expired: only the id is left")
    desk.write_record(joblist_job_record(desk, queue, job), COLUMNS, now_ms=now_ms)


@command(shape=EVENT_SCHEMA)
def events(
    desk: CommandContext,
    queue: QueueArgument,
    output: StreamOutputOption = None,
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many; 0 for never.")] = 0,
) -> None:
    """What workers tell, as it comes: completed, retry, failed. Claims, reclaims and enqueuing are told by nobody."""
    import sys

    from chasqui.foreign import joblist
    from chasqui_cli.output.writer import Format, RecordStreamWriter

    piped = Format.TABLE if sys.stdout.isatty() else Format.JSONL
    writer = RecordStreamWriter.open(
        EVENT_COLUMNS, replace(desk, output=output or piped).output_style(), ends=count > 0
    )
    with desk.link() as link:
        desk.info(f"listening on {joblist_keys(queue).events}; what was told before is gone")
        for number, event in enumerate(joblist.follow_events(link, joblist_keys(queue)), 1):
            raw = event.raw.decode("utf-8", "surrogateescape")
            writer.write({"queue": queue, "id": event.id, "status": event.status, "raw": raw})
            if count and number >= count:
                break
    writer.close()
