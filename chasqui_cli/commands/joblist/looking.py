"""`chasqui joblist overview`, `list`, `show` and `events`: how a list job queue stands, and what becomes of its jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.commands.joblist.naming import (
    COLUMNS,
    JOB,
    ListName,
    QueueName,
    Visibility,
    check_queue,
    job_record,
    keys_of,
)
from chasqui_cli.completing import list_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.options import OutputOrPiped
from chasqui_cli.times import duration_ms

if TYPE_CHECKING:
    from chasqui.foreign.joblist import Overview
    from chasqui_cli.columns import Record

OVERVIEW: dict[str, Any] = {
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
EVENT = {"queue": "str", "id": "str?", "status": "str?", "raw": "str"}
EVENT_COLUMNS = [column("id"), column("status"), column("raw", wide=True)]


@at_desk(shape=OVERVIEW)
def overview(
    desk: Desk,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=list_names),
    ] = None,
    visibility: Visibility = "5s",
) -> None:
    """Depths, ages, attempts, and how many claims are stale for a visibility that only the workers know."""
    from chasqui.foreign import discover, joblist

    visibility_ms = duration_ms(visibility)
    with desk.session() as session:
        names = queues or [keys.queue for keys in discover(session.link).joblists]
        rows = []
        for name in names:
            keys = keys_of(name)
            if queues:
                check_queue(session, keys)
            told = session.link.run(joblist.overview(keys, visibility_ms=visibility_ms))
            rows.append(_overview(name, told, visibility_ms))
    desk.emit(rows, OVERVIEW_COLUMNS)


def _overview(name: str, told: Overview, visibility_ms: int) -> Record:
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
        "unsettled": [{"id": one.held.id, "verdict": one.verdict, "why": one.why} for one in told.unsettled],
        "attempts": {str(tries): many for tries, many in sorted(told.attempts.items())},
        "parked": told.parked,
    }


@at_desk(shape=JOB, payloads=True)
def list_jobs(
    desk: Desk,
    queue: QueueName,
    which: Annotated[ListName, typer.Option("--list", help="Which of the four lists.")] = "pending",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 20,
) -> None:
    """Jobs of one list: of pending ones the next first, of the others the newest. Nothing is claimed."""
    from chasqui.foreign import joblist

    keys = keys_of(queue)
    with desk.session() as session:
        check_queue(session, keys)
        now_ms = session.now_ms()
        ids = session.link.run(joblist.ids(keys, which, limit=limit))
        jobs = [session.link.run(joblist.job(keys, job_id)) for job_id in dict.fromkeys(ids)]
    desk.emit([job_record(desk, queue, job) for job in jobs if job], COLUMNS, now_ms=now_ms)


@at_desk(shape=JOB, many=False, payloads=True)
def show(
    desk: Desk,
    queue: QueueName,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Which job.")],
) -> None:
    """One job: its hash, the lists its id is in and where, how long it is kept. Exit code 4 when it is not there."""
    from chasqui.errors import NotFound
    from chasqui.foreign import joblist

    with desk.session() as session:
        now_ms = session.now_ms()
        job = session.link.run(joblist.job(keys_of(queue), job_id))
    if job is None:
        raise NotFound(
            f"{queue} has nothing of a job {job_id}", hint="its hash has expired and its id left the lists"
        )
    if job.expired:
        desk.say("its hash has expired: only the id is left")
    desk.emit_one(job_record(desk, queue, job), COLUMNS, now_ms=now_ms)


@at_desk(shape=EVENT)
def events(
    desk: Desk,
    queue: QueueName,
    output: OutputOrPiped = None,
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many; 0 for never.")] = 0,
) -> None:
    """What workers tell, as it comes: completed, retry, failed. Claims, reclaims and enqueuing are told by nobody."""
    import sys

    from chasqui.foreign import joblist
    from chasqui_cli.output import Format, Running

    piped = Format.TABLE if sys.stdout.isatty() else Format.JSONL
    writer = Running.of(EVENT_COLUMNS, replace(desk, output=output or piped).look(), ends=count > 0)
    with desk.link() as link:
        desk.say(f"listening on {keys_of(queue).events}; what was told before is gone")
        for number, event in enumerate(joblist.tail(link, keys_of(queue)), 1):
            raw = event.raw.decode("utf-8", "surrogateescape")
            writer.write({"queue": queue, "id": event.id, "status": event.status, "raw": raw})
            if count and number >= count:
                break
    writer.end()
