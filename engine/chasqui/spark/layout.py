"""Where an archive keeps what: plain Parquet in directories that Spark, duckdb, polars and pyarrow read alike.

    events/queue=emails/dt=2026-11-17/batch=42/part-….parquet     rollup_minute/queue=…/dt=…/part-….parquet
    dlq/queue=…/dt=…/batch=…/…                                      _checkpoints/  _accounts/  _lock

Who writes and reads them is the business of `archive.py`, `upkeep.py` and `reports.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLES = ("events", "dlq")
KEY = ("queue", "ms", "seq", "event")
KEYS = {"events": KEY, "dlq": ("queue", "ms", "seq")}
ROLLUP = {
    "minute": "BIGINT", "name": "STRING", "active": "BIGINT", "completed": "BIGINT", "failed": "BIGINT",
    "retried": "BIGINT", "dlq": "BIGINT", "busy_us": "BIGINT", "dur_kll": "BINARY", "wait_kll": "BINARY",
    "e2e_kll": "BINARY", "queue": "STRING", "dt": "STRING",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive at a path or URL."""

    root: str

    def table(self, name: str) -> str:
        """Where a table's files are."""
        return f"{self.root}/{name}"

    def checkpoint(self, table: str) -> str:
        """Where Spark keeps how far a table was archived."""
        return f"{self.root}/_checkpoints/{table}"

    @property
    def local(self) -> Path | None:
        """The archive as a directory of this machine, if it is one."""
        if re.match(r"[a-z][a-z0-9+.-]+://", self.root):
            return None
        return Path(self.root.removeprefix("file:"))

    def accounts(self, table: str) -> Path | None:
        """Where the sums of each batch are written down."""
        return self.local / "_accounts" / table if self.local else None

    def days(self, table: str) -> list[Path]:
        """The directories of each queue and day."""
        return sorted((self.local / table).glob("queue=*/dt=*")) if self.local else []

    def has(self, table: str) -> bool:
        """Whether there may be rows; of an archive elsewhere only Spark could tell."""
        return not self.local or any((self.local / table).glob("queue=*/dt=*/**/*.parquet"))


def read(spark: Any, archive: Archive, table: str) -> Any:
    """A table of the archive as a DataFrame; without a single file it is empty."""
    from pyspark_chasqui.tables import COLUMNS

    columns = ROLLUP if table == "rollup_minute" else COLUMNS[table] | {"dt": "STRING", "batch": "BIGINT"}
    ddl = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    if not archive.has(table):
        return spark.createDataFrame([], ddl)
    return spark.read.schema(ddl).parquet(archive.table(table))


def chosen(
    rows: Any, queues: Iterable[str] = (), *, since_ms: int | None = None, until_ms: int | None = None
) -> Any:
    """The rows of some queues and of a time; days outside it are not even opened."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    wanted = list(queues)
    if wanted:
        rows = rows.where(F.col("queue").isin(wanted))
    if since_ms is not None:
        rows = rows.where((F.col("ms") >= since_ms) & (F.col("dt") >= day_of(since_ms)))
    if until_ms is not None:
        rows = rows.where((F.col("ms") < until_ms) & (F.col("dt") <= day_of(until_ms)))
    return rows


def day_of(ms: int) -> str:
    """The UTC day of a moment, as directories are named."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")
