"""`chasqui pipeline report`: reports on the archive as tables, as JSON, or as an HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from errno import EINVAL, EISDIR
from os import strerror
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.commands.pipeline._report_columns import ReportName, report_caption, report_columns, report_schema
from chasqui_cli.commands.pipeline._spark import (
    ArchiveOption,
    SparkOptions,
    complete_archived_queues,
    open_archive,
    parse_length_ms,
    parse_past_time_ms,
    require_archive,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.shared_options import options_from
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.json_schema import json_schema
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from chasqui.spark.layout import Archive
    from chasqui.spark.reports import ReportQuery
    from chasqui_cli.output.columns import Record


ROLLUP_REPORTS = (ReportName.THROUGHPUT, ReportName.LATENCY)
MINUTE_MS = 60_000
MOST_ROWS = 2**31 - 1


@command("pipeline report", server=False, effect=Effect.READS_LOCAL)
@options_from(SparkOptions)
def report(
    ctx: CommandContext,
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
            "--from-rollup", help="Answer `latency` and `throughput` from the roll-ups, within 1 %; no other report."
        ),
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts, too; it needs no network.")
    ] = None,
    *,
    spark_options: SparkOptions,
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
    archive = open_archive(path, spark_options.remote)
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
    spark_at = spark_options.select(may_be_warm=True, warn=ctx.info)
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
        with ctx.progress("reporting", len(names)) as advance:
            for number, one in enumerate(names, 1):
                found[one] = reports.run_report(spark, archive, one, asked)
                advance(number)
    try:
        _write_reports(ctx, found, asked, alone=name is not ReportName.ALL)
    finally:  # the page is wanted even where the reader of the output stopped early
        if html:
            _write_page(ctx, html, found, asked, archive)


def resolve_diff_window(spark: Any, archive: Archive, asked: ReportQuery) -> ReportQuery:
    """The query with the moment and the length that `diff` selects, so that they can be shown."""
    from chasqui.spark.reports import ReportTables, diff_windows

    at_ms, span_ms = diff_windows(ReportTables(spark, archive, asked), asked)
    return replace(asked, at_ms=at_ms, span_ms=span_ms)


def _write_reports(ctx: CommandContext, found: dict[str, list[Record]], asked: ReportQuery, *, alone: bool) -> None:
    from chasqui.spark.reports import REPORTS

    if not alone and ctx.output in (Format.TABLE, Format.WIDE, Format.NAME):
        for name, records in found.items():
            words = (f"{REPORTS[name].title} ({name})", report_caption(name, asked), "" if records else "nothing")
            ctx.info("")
            ctx.info(": ".join(filter(None, words)))
            if records:
                ctx.write_records(records, report_columns(name))
        return
    for name in found:
        if caption := report_caption(name, asked):
            ctx.info(f"{name}: {caption}")
    if alone:
        [(name, records)] = found.items()
        ctx.write_records(records, report_columns(name, exact=ctx.output is Format.CSV))
    elif ctx.output in (Format.JSON, Format.YAML):
        ctx.write_record(dict(found))
    else:
        named = [{"report": name} | one for name, records in found.items() for one in records]
        ctx.write_records(named, _all_columns(found))


def _all_columns(names: Iterable[str]) -> list[Column]:
    """One table for all reports, for programs: a row has the columns of its report, the others are empty."""
    columns = {one.title: one for name in names for one in report_columns(name, exact=True)}
    return [column("report"), *columns.values()]


def _check_times(*texts: str | None) -> None:
    """Raise for invalid times before Java is started; what they are relative to is known only then."""
    for text in texts:
        parse_past_time_ms(text, 0)


def _newest_event_ms(spark: Any, archive: Archive, *texts: str | None) -> int:
    """The time of the newest archived event; looked up only if one of the times is relative to it."""
    from chasqui.spark.layout import read_table
    from chasqui_cli.output.times import parse_time_ms

    if all(parse_time_ms(text, 0, "past") == parse_time_ms(text, 1, "past") for text in texts if text):
        return 0
    found = read_table(spark, archive, "events").agg({"ms": "max"}).collect()[0][0]
    return int(found or 0)


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
    """Raise `ConfigError` before Java is started if the page cannot be written, by creating a temporary file."""
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
            f"cannot write a page at {html}: {error.strerror}", hint="name a file in a directory that is yours"
        ) from None


def _write_page(
    ctx: CommandContext, html: Path, found: dict[str, list[Record]], asked: ReportQuery, archive: Archive
) -> None:
    from chasqui.errors import ChasquiError
    from chasqui_cli.commands.pipeline._page import render_page

    target = html.resolve()  # a symbolic link stays one
    fresh = target.with_name(f".{target.name}.new")
    try:
        fresh.write_text(render_page(found, asked, archive.root), "utf-8")
        fresh.rename(target)
    except OSError as error:
        raise ChasquiError(
            f"cannot write the page at {html}: {error.strerror}", hint="the answer is whole; only the page is not"
        ) from None
    ctx.info(f"wrote {html}")
