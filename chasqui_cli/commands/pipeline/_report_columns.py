"""The reports there are, with their captions, schemas and columns."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui.spark.reports import ReportQuery


class ReportName(StrEnum):
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


TEXT_FIELDS = ("queue", "name", "error", "sample", "reason", "event", "job_id", "sample_job_id", "stream_id")


NULLABLE_FIELDS = (
    "attempt", "backoff_ms", "duration_us", "job_id", "lost", "name", "reason", "sample", "sample_job_id", "since_ms",
)  # fmt: skip
"""Columns that may be null; measured ones may be, too."""


def report_caption(name: str, asked: ReportQuery) -> str:
    """What a report's numbers refer to, where its columns do not show it; else empty."""
    from chasqui_cli.output.times import format_duration, format_iso

    if name == ReportName.SLA:
        return f"longer than {format_duration(asked.sla_ms)} from a job's making to its end"
    if name == ReportName.DIFF and asked.at_ms is not None and asked.span_ms is not None:
        return f"before and after {format_iso(asked.at_ms)}, {format_duration(asked.span_ms)} to each side"
    return ""


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
    """A report's columns. exact: without rounding, for programs."""
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
