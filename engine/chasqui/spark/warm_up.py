"""Every report on made-up days, over and over, until Java has compiled most of what they need: then the first real one
takes seconds, too, whether there is an archive yet or not.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from chasqui.clock import SystemClock
from chasqui.spark import reports
from chasqui.spark.layout import Archive

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_EVENTS = 200_000
WARM_RATIO = 0.9
"""The rehearsal ends when a round is hardly faster than the one before."""

_EVENT_COLUMNS = {
    "queue": "concat('made-up-', id % 2)",
    "stream_id": "concat(946684800000 + id * 100, '-', 0)",
    "ms": "946684800000 + id * 100",
    "seq": "0L",
    "event": "element_at(array('active', 'completed', 'active', 'failed', 'retry-scheduled', 'dlq'), 1 + int(id % 6))",
    "job_id": "concat('job-', id div 2)",
    "name": "concat('kind-', id % 7)",
    "attempt": "1 + int(id % 3)",
    "backoff_ms": "500L",
    "delay_ms": "0L",
    "duration_us": "hash(id) & 1048575L",
    "reason": "concat('no account ', id % 100)",
    "ts": "946684800000 + id * 100",
    "created_ms": "946684800000 + id * 100 - (hash(id) & 16383L)",
    "lost": "0L",
}
_DEAD_LETTER_COLUMNS = {
    name: _EVENT_COLUMNS[name] for name in ("queue", "stream_id", "ms", "seq", "reason", "name", "job_id")
} | {"detail": "concat('no account ', id % 100)"}


def warm_up_reports(spark: Any, most_s: float, *, on_round: Callable[[float], None] = lambda _: None) -> None:
    """Ask for every report again and again; `on_round` gets the seconds of each round."""
    clock = SystemClock()
    begun, before = clock.monotonic(), 0.0
    with tempfile.TemporaryDirectory(prefix="chasqui-rehearsal-") as place:
        archive = Archive(place)
        _write_sample_table(spark, archive, "events", SAMPLE_EVENTS, _EVENT_COLUMNS)
        _write_sample_table(spark, archive, "dlq", SAMPLE_EVENTS // 100, _DEAD_LETTER_COLUMNS)
        while clock.monotonic() - begun < most_s:
            round_begun = clock.monotonic()
            for name in reports.REPORTS:
                reports.run_report(spark, archive, name, reports.ReportQuery())
            took = clock.monotonic() - round_begun
            on_round(took)
            if before and took > before * WARM_RATIO:
                break
            before = took


def _write_sample_table(spark: Any, archive: Archive, table: str, rows: int, columns: dict[str, str]) -> None:
    made = spark.range(0, rows, 1, 2).selectExpr(*(f"{how} AS {name}" for name, how in columns.items()))
    days = made.selectExpr("*", "date_format(timestamp_millis(ms), 'yyyy-MM-dd') AS dt", "0L AS batch")
    days.write.partitionBy("queue", "dt", "batch").mode("overwrite").parquet(archive.table_path(table))
