"""`chasqui why`: the state of one job, in one queue or wherever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import plural
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.context.shared_options import ScanOption
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.job_records import JOB_STATE_SCHEMA, job_state_record
from chasqui_cli.output.writer import Format, print_line
from chasqui_cli.queues.targets import warn_if_missing

if TYPE_CHECKING:
    from chasqui.inspect.job_state import JobStateReport
    from chasqui_cli.context.session import Session


FIRST_SCAN = 1000
"""Entries per place and queue that are looked at before all queues are looked through."""
COLUMNS: list[Column] = [column("id"), column("queue"), column("state"), column("text")]
EVENT_COLUMNS: list[Column] = [
    column("when", "ts", kind="moment"),
    column("event"),
    column("attempt", align="right"),
    Column("what", lambda record: record.get("reason")),
]


@command("why", schema=JOB_STATE_SCHEMA, many=False, payloads=True)
def why(
    ctx: CommandContext,
    job_id: Annotated[str, typer.Argument(metavar="JOB_ID", help="The job's id.")],
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="QUEUE", help="Where; else everywhere.", autocompletion=complete_queues),
    ] = None,
    scan: ScanOption = 100_000,
) -> None:
    """Why a job is where it is: waiting behind others, in flight on a worker, delayed, dead, done, or unknown.

    The cheap places are asked first; what must be searched is searched within bounds, and how far is told. Ends with 4
    when there is no trace of the job.
    """
    with ctx.session() as session:
        if queue:
            report, queues = _in(session, queue, job_id, scan), 1
            if report.state == "unknown":
                warn_if_missing(ctx, session, queue)
        else:
            report, queues = _find_anywhere(ctx, session, job_id, scan)
    _print_state(ctx, report, queues)
    if report.state == "unknown":
        raise typer.Exit(ExitCode.NOT_FOUND)


def _print_state(ctx: CommandContext, report: JobStateReport, queues: int) -> None:
    """Write the state as `-o` asks: as text a sentence, other places, its events, and how far the search went."""
    from chasqui_cli.output.job_text import search_extent, state_headline

    record = job_state_record(report, ctx)
    for looked in report.coverage if queues == 1 or report.state != "unknown" else ():
        ctx.info(search_extent(looked))
    if ctx.output not in (Format.TABLE, Format.WIDE):
        ctx.write_record(record, COLUMNS, now_ms=report.server_time_ms)
        return
    print_line(safe(ctx.redacted(state_headline(report, queues))))
    for other in record["also"]:
        print_line(safe(f"also: {other['text']}"))
    for name, value in record["evidence"].items():
        if value is not None:
            print_line(safe(f"  {name} = {value}"))
    if record["events"]:
        print_line("events:")
        ctx.write_records(record["events"], EVENT_COLUMNS, now_ms=report.server_time_ms)


def _in(session: Session, queue: str, job_id: str, scan: int) -> JobStateReport:
    from chasqui import Keys
    from chasqui.defaults import SearchLimits
    from chasqui.inspect.job_state_search import find_job_state as ask

    options = SearchLimits(max_entries=scan, max_entries_nearby=min(scan, SearchLimits().max_entries_nearby))
    return session.query(ask, Keys(queue), job_id, options=options)


def _find_anywhere(ctx: CommandContext, session: Session, job_id: str, scan: int) -> tuple[JobStateReport, int]:
    """The queue that knows it best, and how many were looked into: briefly first, then as far as allowed."""
    from chasqui.errors import NotFound
    from chasqui_cli.queues.targets import discover_native_queues

    queues = discover_native_queues(ctx, session)
    if not queues:
        raise NotFound("there are no queues on this server", hint="name another server with --redis-url")
    for most in sorted({min(FIRST_SCAN, scan), scan}):
        with ctx.progress(f"looking for {job_id}", len(queues)) as advance:
            reports = []
            for number, queue in enumerate(queues, 1):
                reports.append(_in(session, queue, job_id, most))
                advance(number)
        known = [report for report in reports if report.state != "unknown"]
        whole = all(looked.complete for report in reports for looked in report.coverage)
        if known or whole:
            break
    ctx.info(
        f"looked into {plural(len(queues), 'queues')}, {'all of each' if whole else f'up to {most:,} entries of each place'}"
    )
    for other in known[1:]:
        ctx.info(f"there is one of this id in {other.queue} too: {other.state}")
    with_events = [report for report in reports if report.events]
    return (known or with_events or reports)[0], len(queues)
