"""`chasqui pipeline report`: questions to the archive, answered as tables, as JSON, or as a page to look at."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.commands.pipeline.place import ArchivePath, Heap, Master, Remote, archive_at, where
from chasqui_cli.desk import Desk, offline
from chasqui_cli.output import Format

if TYPE_CHECKING:
    from chasqui.spark.layout import Archive
    from chasqui.spark.reports import Question
    from chasqui_cli.columns import Record


class Name(StrEnum):
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


@offline()
def report(
    desk: Desk,
    name: Annotated[Name, typer.Argument(help="Which report.")] = Name.ALL,
    path: ArchivePath = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="QUEUE", help="Only this queue; may be repeated.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="From then on; 5m is before the newest archived event."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Up to then.")] = None,
    step: Annotated[
        str, typer.Option("--step", metavar="SPAN", help="How long a step of `throughput` is.")
    ] = "1m",
    sla: Annotated[
        str, typer.Option("--sla", metavar="SPAN", help="How long a job may take, for `sla`.")
    ] = "1m",
    top: Annotated[int, typer.Option("--top", min=1, help="How many of the worst.")] = 20,
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
            "--from-rollup", help="Answer `latency` and `throughput` from the roll-ups, within 1 %."
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with charts, too; it needs no network."),
    ] = None,
    master: Master = None,
    remote: Remote = None,
    heap: Heap = "1g",
) -> None:
    """Ask the archive: how much, how fast, what failed, what was late, what changed.

    With `chasqui pipeline up` a Spark is kept warm, and a report takes seconds.
    """
    from chasqui.spark import reports, session
    from chasqui_cli.times import duration_ms

    session.check_installed()
    archive = archive_at(path, remote)
    _check_page(html)
    _check_archive(archive)
    names = [one.value for one in Name if one is not Name.ALL] if name is Name.ALL else [name.value]
    with session.opened(where(master, remote, heap, may_be_warm=True)) as spark:
        newest = _newest(spark, archive, since, until, at)
        asked = reports.Question(
            queues=tuple(queue or ()),
            since_ms=_moment(since, newest),
            until_ms=_moment(until, newest),
            at_ms=_moment(at, newest),
            span_ms=duration_ms(span) if span else None,
            job_id=job,
            sla_ms=duration_ms(sla),
            bucket_ms=duration_ms(step),
            top=top,
            from_rollup=from_rollup,
        )
        found: dict[str, list[Record]] = {}
        with desk.progress("reporting", len(names)) as advance:
            for number, one in enumerate(names, 1):
                found[one] = reports.report(spark, archive, one, asked)
                advance(number)
    if html:
        _write_page(desk, html, found, asked, archive)
    _emit(desk, found, alone=name is not Name.ALL)


def _emit(desk: Desk, found: dict[str, list[Record]], *, alone: bool) -> None:
    from chasqui.spark.reports import REPORTS

    if not alone and desk.output in (Format.JSON, Format.YAML):
        desk.emit_one(dict(found))
        return
    for name, records in found.items():
        if not alone:
            desk.say("")
            desk.say(f"{REPORTS[name].title} ({name}){'' if records else ': nothing'}")
        if alone or records:
            tagged = (
                [{"report": name} | one for one in records]
                if not alone and desk.output is Format.JSONL
                else records
            )
            desk.emit(tagged, columns_of(name))


def columns_of(name: str) -> list[Column]:
    """How people read a report's columns."""
    from chasqui.spark.reports import REPORTS

    return [_column(one) for one in REPORTS[name].columns]


def _column(name: str) -> Column:
    if name in ("ms", "at_ms", "first_ms", "last_ms"):
        return column(name.removesuffix("_ms") if name != "ms" else "when", name, kind="moment")
    if name in ("since_ms", "worst_ms", "backoff_ms"):
        return column(name.removesuffix("_ms"), name, kind="span")
    if name in (
        "queue",
        "name",
        "error",
        "sample",
        "reason",
        "event",
        "job_id",
        "sample_job_id",
        "stream_id",
    ):
        return column(name, wide=name in ("sample", "sample_job_id"))
    if "_p" in name or name in ("share", "run_ratio"):
        return Column(
            name, lambda record: _rounded(record.get(name)), align="right", wide=name.endswith("_p50")
        )
    return column(name, kind="count")


def _rounded(value: Any) -> Any:
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def _moment(text: str | None, newest: int) -> int | None:
    from chasqui_cli.times import moment_ms

    return moment_ms(text, newest, "past") if text else None


def _newest(spark: Any, archive: Archive, *texts: str | None) -> int:
    """The archive's own now, looked up only if somebody counts from it."""
    from chasqui.spark.layout import read
    from chasqui_cli.times import moment_ms

    if all(moment_ms(text, 0, "past") >= 0 and text != "now" for text in texts if text):
        return 0
    found = read(spark, archive, "events").agg({"ms": "max"}).collect()[0][0]
    return int(found or 0)


def _check_archive(archive: Archive) -> None:
    """That there is nothing is told before Java is started."""
    from chasqui.errors import NotFound

    if not archive.has("events"):
        raise NotFound(
            f"there is nothing archived at {archive.root}",
            hint="`chasqui pipeline archive` fills it; --archive names another one",
        )


def _check_page(html: Path | None) -> None:
    from chasqui.errors import ConfigError

    if html and (html.is_dir() or not html.absolute().parent.is_dir()):
        raise ConfigError(f"cannot write a page at {html}", hint="name a file in a directory that is there")


def _write_page(
    desk: Desk, html: Path, found: dict[str, list[Record]], asked: Question, archive: Archive
) -> None:
    from chasqui_cli.commands.pipeline.page import page

    fresh = html.with_name(f".{html.name}.new")
    fresh.write_text(page(found, asked, archive.root), "utf-8")
    fresh.rename(html)
    desk.say(f"wrote {html}")
