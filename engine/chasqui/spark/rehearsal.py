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

EVENTS = 200_000
ENOUGH = 0.9
"""The rehearsal ends when a round is hardly faster than the one before."""

_EVENTS = {
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
_LETTERS = {
    name: _EVENTS[name] for name in ("queue", "stream_id", "ms", "seq", "reason", "name", "job_id")
} | {
    "detail": "concat('no account ', id % 100)",
}


def rehearse(spark: Any, most_s: float, *, tell: Callable[[float], None] = lambda _: None) -> None:
    """Ask for every report again and again; `tell` gets the seconds of each round."""
    clock = SystemClock()
    begun, before = clock.mono(), 0.0
    with tempfile.TemporaryDirectory(prefix="chasqui-rehearsal-") as place:
        archive = Archive(place)
        _make(spark, archive, "events", EVENTS, _EVENTS)
        _make(spark, archive, "dlq", EVENTS // 100, _LETTERS)
        while clock.mono() - begun < most_s:
            round_begun = clock.mono()
            for name in reports.REPORTS:
                reports.report(spark, archive, name, reports.Question())
            took = clock.mono() - round_begun
            tell(took)
            if before and took > before * ENOUGH:
                break
            before = took


def _make(spark: Any, archive: Archive, table: str, rows: int, columns: dict[str, str]) -> None:
    made = spark.range(0, rows, 1, 2).selectExpr(*(f"{how} AS {name}" for name, how in columns.items()))
    days = made.selectExpr("*", "date_format(timestamp_millis(ms), 'yyyy-MM-dd') AS dt", "0L AS batch")
    days.write.partitionBy("queue", "dt", "batch").mode("overwrite").parquet(archive.table(table))
