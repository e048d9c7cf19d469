"""`chasqui job`: everything known of one job, its result, and how to cancel it while it is delayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.context.shared_options import ScanOption
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.job_records import JOB_SCHEMA, job_record
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format, print_line
from chasqui_cli.queues.targets import warn_if_missing

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui.inspect.job_search import DelayedJob
    from chasqui.inspect.job_state import JobStateReport
    from chasqui_cli.context.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.", autocompletion=complete_queues)]
JobIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]

CANCEL_SCHEMA = {"queue": "str", "id": "str", "name": "str", "run_at_ms": "int", "outcome": "str"}
CANCEL_COLUMNS: list[Column] = [
    column("id"),
    column("name"),
    column("due", "run_at_ms", kind="moment"),
    column("outcome"),
]
RESULT_SCHEMA = {"queue": "str", "id": "str", "result": "any"}
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


def _duration_text(record: dict[str, Any]) -> str | None:
    from chasqui_cli.output.times import format_duration

    micros = record.get("duration_us")
    return None if micros is None else format_duration(micros // 1000)


EVENT_COLUMNS: list[Column] = [
    column("when", "ts", kind="moment"),
    column("event"),
    column("attempt", align="right"),
    Column("took", _duration_text, "right"),
    Column("what", lambda record: record.get("reason")),
]


@app.callback(invoke_without_command=True)
def job(ctx: typer.Context) -> None:
    """One job: everything known of it, its result; cancel it."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
@command(shape=JOB_SCHEMA, many=False, payloads=True)
def show(desk: CommandContext, queue: QueueArgument, job_id: JobIdArgument, scan: ScanOption = 100_000) -> None:
    """Everything known of a job, merged from stream, delayed set, dead letters, events and result."""
    from chasqui_cli.output.job_text import search_extent

    with desk.session() as session:
        verdict = job_state(session, queue, job_id, scan)
        if verdict.state == "unknown":
            warn_if_missing(desk, session, queue)
        kept = [one for one in (verdict.primary, *verdict.also) if getattr(one, "result_bytes", None)]
        result = read_result(session, queue, job_id) if kept else None
    for looked in verdict.coverage:
        desk.info(search_extent(looked))
    if verdict.state == "unknown" and not verdict.events:
        raise no_such_job(queue, job_id)
    record = job_record(verdict, result, desk)
    desk.write_record(record, COLUMNS, now_ms=verdict.server_time_ms)
    if record["events"] and desk.output in (Format.TABLE, Format.WIDE):
        print_line("")
        desk.write_records(record["events"], EVENT_COLUMNS, now_ms=verdict.server_time_ms)


@app.command()
@command(shape=RESULT_SCHEMA, many=False, payloads=True)
def result(desk: CommandContext, queue: QueueArgument, job_id: JobIdArgument) -> None:
    """What a job returned, as JSON. Workers keep it for a while, and only with store_results."""
    from chasqui.errors import NotFound

    with desk.session() as session:
        value = read_result(session, queue, job_id)
    if value is None:
        raise NotFound(
            f"there is no result of {job_id!r} in {queue!r}",
            hint="results expire, and only workers with store_results keep them; see: chasqui job show",
        )
    shown = desk.redacted(value)
    if desk.output is Format.TABLE:
        print_line(json_text(shown, indent=2))
    else:
        desk.write_record({"queue": queue, "id": job_id, "result": shown}, [column("result"), column("id")])


@app.command()
@command(shape=CANCEL_SCHEMA, changes=True)
def cancel(desk: CommandContext, queue: QueueArgument, job_id: JobIdArgument, scan: ScanOption = 100_000) -> None:
    """Cancel a job that is delayed: it is removed by its exact bytes, which are written down first."""
    from chasqui import Keys
    from chasqui.errors import NotFound
    from chasqui.operate import delayed_jobs
    from chasqui.undo import changed_delayed_jobs, stream_search
    from chasqui_cli.changes.confirm import ChangePlan

    keys = Keys(queue)
    with desk.session() as session:
        member, far = _find_delayed_job(session, keys, job_id, scan)
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
        agreed = desk.confirm(ChangePlan("cancel", queue, "delayed job", [record], CANCEL_COLUMNS), now_ms=None)
        if agreed:
            with desk.journal_operation("job cancel", queue) as pen:
                end = session.run(stream_search.stream_end, keys)
                known = session.run(changed_delayed_jobs.read_saved_jobs, keys, [member])
                pen.write_items(changed_delayed_jobs.items(known, "cancelled", end=end))
                [done] = session.run(delayed_jobs.cancel_delayed_jobs, keys, [member])
                record["outcome"] = "cancelled" if done else "gone"
                pen.set_result(cancelled=int(done), gone=int(not done))
    desk.write_records([record], CANCEL_COLUMNS)
    if record["outcome"] == "gone":
        raise typer.Exit(3)


def _find_delayed_job(session: Session, keys: Keys, job_id: str, scan: int) -> tuple[DelayedJob | None, str]:
    """The delayed job of this id, where its index points or by a search; and how far that went."""
    from chasqui.inspect import job_search
    from chasqui.operate import delayed_jobs

    indexed = session.query(delayed_jobs.delayed_jobs_by_id, keys, [job_id])
    if job_id in indexed:
        return indexed[job_id], ""
    found, looked = session.query(job_search.find_delayed_job, keys.delayed, job_id, most=scan)
    return found, "at all" if looked.complete else f"among the first {looked.scanned:,}"


def job_state(session: Session, queue: str, job_id: str, scan: int) -> JobStateReport:
    from chasqui import Keys
    from chasqui.defaults import SearchLimits
    from chasqui.inspect.job_state_search import find_job_state

    options = SearchLimits(max_entries=scan, max_entries_nearby=min(scan, SearchLimits().max_entries_nearby))
    return session.query(find_job_state, Keys(queue), job_id, options=options)


def read_result(session: Session, queue: str, job_id: str) -> Any:
    from chasqui import Keys
    from chasqui.inspect import results

    [value] = session.query(results.read_results, Keys(queue), [job_id])
    return value


def no_such_job(queue: str, job_id: str) -> Exception:
    from chasqui.errors import NotFound

    return NotFound(
        f"there is no trace of a job {job_id!r} in {queue!r}",
        hint=f"`chasqui why {job_id}` looks in every queue",
    )
