"""`chasqui pipeline report`: questions to the archive, answered as tables, as JSON, or as a page to look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from errno import EINVAL, EISDIR
from os import strerror
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.pipeline._spark import (
    ArchiveOption,
    HeapOption,
    MasterOption,
    RemoteOption,
    archived_queues,
    complete_archived_queues,
    open_archive,
    parse_length_ms,
    parse_past_time_ms,
    select_spark,
)
from chasqui_cli.context.command_context import CommandContext, offline
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.json_schema import json_schema
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from chasqui.spark.layout import Archive
    from chasqui.spark.reports import ReportQuery
    from chasqui_cli.output.columns import Record


class ReportName(StrEnum):
    """The reports there are."""

    ALL = "all"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    RETRIES = "retries"
    FAILURES = "failures"
    DEAD = "dead"
    SLA = "sla"
    SLOWEST = "slowest"
    TIMELINE = "timeline"
    HEATMAP = "heatmap"
    DIFF = "diff"
    GAPS = "gaps"


ROLLUP_REPORTS = (ReportName.THROUGHPUT, ReportName.LATENCY)
MINUTE_MS = 60_000
MAX_NAMES_IN_HINT = 10
MOST_ROWS = 2**31 - 1
TEXT_FIELDS = ("queue", "name", "error", "sample", "reason", "event", "job_id", "sample_job_id", "stream_id")
NULLABLE_FIELDS = (
    "attempt", "backoff_ms", "duration_us", "job_id", "lost", "name", "reason", "sample", "sample_job_id", "since_ms",
)  # fmt: skip
"""Columns that an event need not have, beside all that is measured."""


@offline()
def report(
    desk: CommandContext,
    name: Annotated[ReportName, typer.Argument(help="Which report.")] = ReportName.ALL,
    path: ArchiveOption = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="QUEUE",
            help="Only this queue; may be repeated.",
            autocompletion=complete_archived_queues,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="From then on; 5m is before the newest archived event."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Up to then.")] = None,
    step: Annotated[str, typer.Option("--step", metavar="SPAN", help="How long a step of `throughput` is.")] = "1m",
    sla: Annotated[str, typer.Option("--sla", metavar="SPAN", help="How long a job may take, for `sla`.")] = "1m",
    top: Annotated[int, typer.Option("--top", min=1, max=MOST_ROWS, help="How many of the worst.")] = 20,
    job: Annotated[str | None, typer.Option("--job", metavar="ID", help="Whose `timeline`.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="The moment `diff` looks around: your deploy.")
    ] = None,
    span: Annotated[
        str | None, typer.Option("--span", metavar="SPAN", help="How far `diff` looks to both sides of it.")
    ] = None,
    from_rollup: Annotated[
        bool,
        typer.Option(
            "--from-rollup",
            help="Answer `latency` and `throughput` from the roll-ups, within 1 %; no other report.",
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with charts, too; it needs no network."),
    ] = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    heap: HeapOption = "1g",
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the shape of the JSON output, as JSON Schema, and end.")
    ] = False,
) -> None:
    """Ask the archive: how much, how fast, what failed, what was late, what changed.

    With `chasqui pipeline up` a Spark is kept warm, and a report takes seconds.
    """
    from chasqui.spark import reports, spark_session

    if schema:
        print_line(json_text(json_schema(report_schema(name), many=False), indent=2))
        return
    spark_session.check_installed()
    archive = open_archive(path, remote)
    names = [one.value for one in ReportName if one is not ReportName.ALL] if name is ReportName.ALL else [name.value]
    asked = reports.ReportQuery(
        queues=tuple(queue or ()),
        span_ms=parse_length_ms("--span", span) if span else None,
        job_id=job,
        sla_ms=parse_length_ms("--sla", sla, least=0),
        bucket_ms=parse_length_ms("--step", step),
        top=top,
        from_rollup=from_rollup,
    )
    _check_times(since, until, at)
    _check_page_path(html)
    require_archive(archive, asked.queues)
    if from_rollup:
        _require_rollup(archive, name, asked)
    spark_at = select_spark(master, remote, heap, may_be_warm=True, say=desk.info)
    with spark_session.open_session(spark_at) as spark:
        newest = _newest_event_ms(spark, archive, since, until, at)
        asked = replace(
            asked,
            since_ms=parse_past_time_ms(since, newest),
            until_ms=parse_past_time_ms(until, newest),
            at_ms=parse_past_time_ms(at, newest),
        )
        if "diff" in names:
            asked = resolve_diff_window(spark, archive, asked)
        found: dict[str, list[Record]] = {}
        with desk.progress("reporting", len(names)) as advance:
            for number, one in enumerate(names, 1):
                found[one] = reports.run_report(spark, archive, one, asked)
                advance(number)
    try:
        _write_reports(desk, found, asked, alone=name is not ReportName.ALL)
    finally:  # whoever reads the answer may have enough of it, and still want the page
        if html:
            _write_page(desk, html, found, asked, archive)


def resolve_diff_window(spark: Any, archive: Archive, asked: ReportQuery) -> ReportQuery:
    """The question with the moment and the length that `diff` would choose, so that they can be told."""
    from chasqui.spark.reports import ReportTables, diff_windows

    at_ms, span_ms = diff_windows(ReportTables(spark, archive, asked), asked)
    return replace(asked, at_ms=at_ms, span_ms=span_ms)


def report_caption(name: str, asked: ReportQuery) -> str:
    """What a report's numbers are about, where its columns do not tell."""
    from chasqui_cli.output.times import format_duration, format_iso

    if name == ReportName.SLA:
        return f"longer than {format_duration(asked.sla_ms)} from a job's making to its end"
    if name == ReportName.DIFF and asked.at_ms is not None and asked.span_ms is not None:
        return f"before and after {format_iso(asked.at_ms)}, {format_duration(asked.span_ms)} to each side"
    return ""


def _write_reports(desk: CommandContext, found: dict[str, list[Record]], asked: ReportQuery, *, alone: bool) -> None:
    from chasqui.spark.reports import REPORTS

    if not alone and desk.output in (Format.TABLE, Format.WIDE, Format.NAME):
        for name, records in found.items():
            words = (
                f"{REPORTS[name].title} ({name})",
                report_caption(name, asked),
                "" if records else "nothing",
            )
            desk.info("")
            desk.info(": ".join(filter(None, words)))
            if records:
                desk.write_records(records, report_columns(name))
        return
    for name in found:
        if told := report_caption(name, asked):
            desk.info(f"{name}: {told}")
    if alone:
        [(name, records)] = found.items()
        desk.write_records(records, report_columns(name, exact=desk.output is Format.CSV))
    elif desk.output in (Format.JSON, Format.YAML):
        desk.write_record(dict(found))
    else:
        named = [{"report": name} | one for name, records in found.items() for one in records]
        desk.write_records(named, _all_columns(found))


def _all_columns(names: Iterable[str]) -> list[Column]:
    """One table for all reports, as programs want it: a row has the columns of its report, and the others empty."""
    columns = {one.title: one for name in names for one in report_columns(name, exact=True)}
    return [column("report"), *columns.values()]


def report_schema(name: ReportName) -> Any:
    """What the JSON is: an array of records; of all reports, an object with an array of each."""
    from chasqui.spark.reports import REPORTS

    of_each = {one.name: [{title: _field_type(title) for title in one.columns}] for one in REPORTS.values()}
    return of_each if name is ReportName.ALL else of_each[name]


def _field_type(name: str) -> str:
    if _is_measured(name):
        return "float?"
    return f"{'str' if name in TEXT_FIELDS else 'int'}{'?' if name in NULLABLE_FIELDS else ''}"


def report_columns(name: str, *, exact: bool = False) -> list[Column]:
    """A report's columns. exact: for programs, which round by themselves if they want to."""
    from chasqui.spark.reports import REPORTS

    return [_column(one, exact=exact) for one in REPORTS[name].columns]


def _column(name: str, *, exact: bool) -> Column:
    if name in ("ms", "at_ms", "first_ms", "last_ms"):
        return column(name.removesuffix("_ms") if name != "ms" else "when", name, kind="moment")
    if name in ("since_ms", "worst_ms", "backoff_ms"):
        return column(name.removesuffix("_ms"), name, kind="span")
    if name in TEXT_FIELDS:
        return column(name, wide=name in ("sample", "sample_job_id"))
    if _is_measured(name) and not exact:
        return Column(name, lambda record: _rounded(record.get(name)), align="right", wide=name.endswith("_p50"))
    return column(name, kind="count")


def _is_measured(name: str) -> bool:
    return "_p" in name or name in ("share", "run_ratio")


def _rounded(value: Any) -> Any:
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def _check_times(*texts: str | None) -> None:
    """That a time is none is told before Java is started, though what it is counted from is known only then."""
    for text in texts:
        parse_past_time_ms(text, 0)


def _newest_event_ms(spark: Any, archive: Archive, *texts: str | None) -> int:
    """The archive's own now, looked up only if somebody counts from it."""
    from chasqui.spark.layout import read_table
    from chasqui_cli.output.times import parse_time_ms

    if all(parse_time_ms(text, 0, "past") == parse_time_ms(text, 1, "past") for text in texts if text):
        return 0
    found = read_table(spark, archive, "events").agg({"ms": "max"}).collect()[0][0]
    return int(found or 0)


def require_archive(archive: Archive, queues: Iterable[str]) -> None:
    """That there is nothing is told before Java is started."""
    from chasqui.errors import NotFound
    from chasqui.spark import maintenance
    from chasqui.spark.layout import directory_name

    maintenance.recover_swaps(archive)
    if not archive.has_rows("events"):
        raise NotFound(
            f"there is nothing archived at {archive.root}",
            hint="`chasqui pipeline archive` fills it; --archive names another one",
        )
    known = archived_queues(archive)
    for queue in queues:
        if known and directory_name(queue) not in known:
            more = ", …" if len(known) > MAX_NAMES_IN_HINT else ""
            raise NotFound(
                f"there is nothing archived of a queue named {queue!r}",
                hint=f"archived there: {', '.join(known[:MAX_NAMES_IN_HINT])}{more}",
            )


def _require_rollup(archive: Archive, name: ReportName, asked: ReportQuery) -> None:
    from chasqui.errors import ArgumentError, NotFound

    if name not in (ReportName.ALL, *ROLLUP_REPORTS):
        raise ArgumentError(
            f"roll-ups cannot answer {name.value!r}",
            hint=f"--from-rollup is for {' and '.join(ROLLUP_REPORTS)}, and for those two of `all`",
        )
    if name is not ReportName.LATENCY and asked.bucket_ms % MINUTE_MS:
        raise ArgumentError("roll-ups know whole minutes only", hint="ask for steps of 1m, 5m, 1h")
    if not archive.has_rows("rollup_minute"):
        raise NotFound("this archive has no roll-ups", hint="`chasqui pipeline rollup` makes them")


def _check_page_path(html: Path | None) -> None:
    """That a page cannot be written is told before Java is started: by writing something that is gone at once."""
    from chasqui.errors import ConfigError

    if html is None:
        return
    try:
        if html.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        if html.exists() and not html.is_file():
            raise OSError(EINVAL, "not a regular file")
        with TemporaryFile(dir=html.resolve().parent):
            pass
    except OSError as error:
        raise ConfigError(
            f"cannot write a page at {html}: {error.strerror}",
            hint="name a file in a directory that is yours",
        ) from None


def _write_page(
    desk: CommandContext, html: Path, found: dict[str, list[Record]], asked: ReportQuery, archive: Archive
) -> None:
    from chasqui.errors import ChasquiError
    from chasqui_cli.commands.pipeline._page import render_page

    target = html.resolve()  # a link goes on leading to it
    fresh = target.with_name(f".{target.name}.new")
    try:
        fresh.write_text(render_page(found, asked, archive.root), "utf-8")
        fresh.rename(target)
    except OSError as error:
        raise ChasquiError(
            f"cannot write the page at {html}: {error.strerror}",
            hint="the answer is whole; only the page is not",
        ) from None
    desk.info(f"wrote {html}")
