from __future__ import annotations

from typing import Any

from chasqui_cli.commands.job._query import COLUMNS, JobIdArgument, job_state, no_such_job, read_result
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument, ScanOption
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.job_records import JOB_SCHEMA, job_record
from chasqui_cli.output.writer import Format, print_line
from chasqui_cli.queues.targets import warn_if_missing


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


@command("job show", schema=JOB_SCHEMA, many=False, payloads=True)
def show(ctx: CommandContext, queue: QueueArgument, job_id: JobIdArgument, scan: ScanOption = 100_000) -> None:
    """Everything known of a job, merged from stream, delayed set, dead letters, events and result."""
    from chasqui_cli.output.job_text import search_extent

    with ctx.session() as session:
        report = job_state(session, queue, job_id, scan)
        if report.state == "unknown":
            warn_if_missing(ctx, session, queue)
        with_result = [one for one in (report.primary, *report.also) if getattr(one, "result_bytes", None)]
        result = read_result(session, queue, job_id) if with_result else None
    for looked in report.coverage:
        ctx.info(search_extent(looked))
    if report.state == "unknown" and not report.events:
        raise no_such_job(queue, job_id)
    record = job_record(report, result, ctx)
    ctx.write_record(record, COLUMNS, now_ms=report.server_time_ms)
    if record["events"] and ctx.output in (Format.TABLE, Format.WIDE):
        print_line("")
        ctx.write_records(record["events"], EVENT_COLUMNS, now_ms=report.server_time_ms)
