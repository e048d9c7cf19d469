"""`chasqui job`: everything known of one job, its result, and how to cancel it while it is delayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.finding import warn_where_there_is_no
from chasqui_cli.options import SearchBound
from chasqui_cli.output import Format, print_line
from chasqui_cli.tagged import json_text
from chasqui_cli.verdicts import JOB, job_record

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui.search import Member
    from chasqui.verdict import Verdict
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.", autocompletion=queue_names)]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]

CANCELLED = {"queue": "str", "id": "str", "name": "str", "run_at_ms": "int", "outcome": "str"}
CANCEL_COLUMNS: list[Column] = [
    column("id"),
    column("name"),
    column("due", "run_at_ms", kind="moment"),
    column("outcome"),
]
RESULT = {"queue": "str", "id": "str", "result": "any"}
COLUMNS: list[Column] = [
    column("id"),
    column("queue"),
    column("state"),
    column("text"),
    column("name"),
    column("created", "created_at_ms", kind="moment"),
    column("attempt"),
    column("retry"),
    column("data"),
    column("bytes", "payload_bytes", kind="bytes"),
    column("undecodable"),
    column("result"),
]


def _took(record: dict[str, Any]) -> str | None:
    from chasqui_cli.times import span

    micros = record.get("duration_us")
    return None if micros is None else span(micros // 1000)


EVENT_COLUMNS: list[Column] = [
    column("when", "ts", kind="moment"),
    column("event"),
    column("attempt", align="right"),
    Column("took", _took, "right"),
    Column("what", lambda record: record.get("reason")),
]


@app.callback(invoke_without_command=True)
def job(ctx: typer.Context) -> None:
    """One job: everything known of it, its result; cancel it."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
@at_desk(shape=JOB, many=False, payloads=True)
def show(desk: Desk, queue: Queue, job_id: JobId, scan: SearchBound = 100_000) -> None:
    """Everything known of a job, merged from stream, delayed set, dead letters, events and result."""
    from chasqui_cli.words import how_far

    with desk.session() as session:
        verdict = _verdict(session, queue, job_id, scan)
        if verdict.state == "unknown":
            warn_where_there_is_no(desk, session, queue)
        kept = [one for one in (verdict.finding, *verdict.also) if getattr(one, "result_bytes", None)]
        result = _result(session, queue, job_id) if kept else None
    for looked in verdict.looked:
        desk.say(how_far(looked))
    if verdict.state == "unknown" and not verdict.events:
        raise _no_such_job(queue, job_id)
    record = job_record(verdict, result, desk)
    desk.emit_one(record, COLUMNS, now_ms=verdict.server_time_ms)
    if record["events"] and desk.output in (Format.TABLE, Format.WIDE):
        print_line("")
        desk.emit(record["events"], EVENT_COLUMNS, now_ms=verdict.server_time_ms)


@app.command()
@at_desk(shape=RESULT, many=False, payloads=True)
def result(desk: Desk, queue: Queue, job_id: JobId) -> None:
    """What a job returned, as JSON. Workers keep it for a while, and only with store_results."""
    from chasqui.errors import NotFound

    with desk.session() as session:
        value = _result(session, queue, job_id)
    if value is None:
        raise NotFound(
            f"there is no result of {job_id!r} in {queue!r}",
            hint="results expire, and only workers with store_results keep them; see: chasqui job show",
        )
    shown = desk.shown(value)
    if desk.output is Format.TABLE:
        print_line(json_text(shown, indent=2))
    else:
        desk.emit_one({"queue": queue, "id": job_id, "result": shown}, [column("result"), column("id")])


@app.command()
@at_desk(shape=CANCELLED, changes=True)
def cancel(desk: Desk, queue: Queue, job_id: JobId, scan: SearchBound = 100_000) -> None:
    """Cancel a job that is delayed: it is removed by its exact bytes, which are written down first."""
    from chasqui import Keys, delaying, withdrawal
    from chasqui.errors import NotFound
    from chasqui_cli.changes import Plan

    keys = Keys(queue)
    with desk.session() as session:
        member, far = _delayed(session, keys, job_id, scan)
        if member is None:
            raise NotFound(
                f"there is no delayed job {job_id!r} {far} in {queue!r}",
                hint=f"only delayed jobs can be cancelled; see: chasqui why {job_id} --queue {queue}",
            )
        record = {
            "queue": queue,
            "id": job_id,
            "name": member.name,
            "run_at_ms": member.run_at_ms,
            "outcome": "would cancel",
        }
        agreed = desk.agrees(Plan("cancel", queue, "delayed job", [record], CANCEL_COLUMNS), now_ms=None)
        if agreed:
            with desk.written_down("job cancel", queue) as pen:
                footing = session.run(withdrawal.footing, keys)
                known = session.run(delaying.known, keys, [member])
                pen.keep(delaying.items(known, "cancelled", footing=footing))
                [done] = session.run(delaying.cancel, keys, [member])
                record["outcome"] = "cancelled" if done else "gone"
                pen.tell(cancelled=int(done), gone=int(not done))
    desk.emit([record], CANCEL_COLUMNS)
    if record["outcome"] == "gone":
        raise typer.Exit(3)


def _delayed(session: Session, keys: Keys, job_id: str, scan: int) -> tuple[Member | None, str]:
    """The delayed job of this id, where its index points or by a search; and how far that went."""
    from chasqui import delaying, search

    indexed = session.look(delaying.by_id, keys, [job_id])
    if job_id in indexed:
        return indexed[job_id], ""
    found, looked = session.look(search.members, keys.delayed, job_id, most=scan)
    return found, "at all" if looked.complete else f"among the first {looked.entries:,}"


def _verdict(session: Session, queue: str, job_id: str, scan: int) -> Verdict:
    from chasqui import Keys
    from chasqui.options import Search
    from chasqui.why import why

    options = Search(most=scan, most_nearby=min(scan, Search().most_nearby))
    return session.look(why, Keys(queue), job_id, options=options)


def _result(session: Session, queue: str, job_id: str) -> Any:
    from chasqui import Keys, results

    [value] = session.look(results.results, Keys(queue), [job_id])
    return value


def _no_such_job(queue: str, job_id: str) -> Exception:
    from chasqui.errors import NotFound

    return NotFound(
        f"there is no trace of a job {job_id!r} in {queue!r}",
        hint=f"`chasqui why {job_id}` looks in every queue",
    )
