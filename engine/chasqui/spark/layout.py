"""Where an archive keeps what: plain Parquet in directories that Spark, duckdb, polars and pyarrow read alike.

    events/queue=emails/dt=2026-11-17/batch=42/part-….parquet     rollup_minute/queue=…/dt=…/part-….parquet
    dlq/queue=…/dt=…/batch=…/…                                      _checkpoints/  _accounts/  _lock*

Who writes and reads them is the business of `archive.py`, `upkeep.py` and `reports.py`.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chasqui.errors import ChasquiError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLES = ("events", "dlq")
ROW_KEYS = {"events": ("ms", "seq", "event"), "dlq": ("ms", "seq")}
"""What distinguishes one row of a queue from another, gaps aside."""
NULL_NAMES = ("", "__HIVE_DEFAULT_PARTITION__")
"""Names that Spark reads back as null."""
MAX_NAME_BYTES = 255
"""Bytes of a file's name, at most."""
MAX_MS = 253_402_300_799_999
"""The end of the year 9999."""
ROLLUP_COLUMNS = {
    "minute": "BIGINT", "name": "STRING", "active": "BIGINT", "completed": "BIGINT", "failed": "BIGINT",
    "retried": "BIGINT", "dlq": "BIGINT", "busy_us": "BIGINT", "dur_kll": "BINARY", "wait_kll": "BINARY",
    "e2e_kll": "BINARY", "queue": "STRING", "dt": "STRING",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive at a path or URL."""

    root: str

    def table_path(self, name: str) -> str:
        """Where a table's files are."""
        return f"{self.root}/{name}"

    def checkpoint_path(self, table: str) -> str:
        """Where Spark keeps how far a table was archived."""
        return f"{self.root}/_checkpoints/{table}"

    @property
    def local_root(self) -> Path | None:
        """The archive as a directory of this machine, if it is one."""
        if re.match(r"[a-z][a-z0-9+.-]+://", self.root):
            return None
        return Path(self.root.removeprefix("file:"))

    def totals_dir(self, table: str) -> Path | None:
        """Where the sums of each batch are written down."""
        return self.local_root / "_accounts" / table if self.local_root else None

    def day_dirs(self, table: str) -> list[Path]:
        """The directories of each queue and day."""
        return sorted((self.local_root / table).glob("queue=*/dt=*")) if self.local_root else []

    def last_committed_batch(self, table: str) -> int | None:
        """The newest batch that Spark knows to be done; later ones it will write again. None: no archiver writes here."""
        place = self.local_root / "_checkpoints" / table if self.local_root else None
        if place is None or not place.exists():
            return None
        return max((int(one.name) for one in (place / "commits").glob("*") if one.name.isdigit()), default=-1)

    @contextmanager
    def write_lock(self, table: str) -> Iterator[None]:
        """Either a batch is written or a day is swapped, never both at once: the other waits for its turn."""
        if self.local_root is None:
            yield
            return
        with file_lock(self.local_root / f"_lock.{table}"):
            yield

    def has_rows(self, table: str) -> bool:
        """Whether there may be rows; for a remote archive only Spark could know."""
        return not self.local_root or any((self.local_root / table).glob("queue=*/dt=*/**/*.parquet"))


@contextmanager
def file_lock(path: Path, taken: ChasquiError | None = None) -> Iterator[None]:
    """A lock that ends with its process. A second process waits; or raises `taken`, if that is given."""
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as fault:
        raise ConfigError(
            f"cannot write to {path.parent}: {fault.strerror}",
            hint="give a directory that is yours: --archive for the archive, HOME for what is kept between commands",
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if taken else 0))
        except BlockingIOError:
            assert taken  # noqa: S101 - else it would wait
            raise taken from None
        yield
    finally:
        os.close(lock)


def is_gap(table: str) -> Any:
    """Whether a row stands for events that are missing: true or false, never null, for an event may say no kind at all."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from pyspark_chasqui.tables import GAP

    return F.col("event").eqNullSafe(GAP) if table == "events" else F.lit(False)


def lost_count(table: str) -> Any:
    """How many events the rows of a table say are lost; dead letters say nothing of the kind."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    return F.coalesce(F.sum("lost" if table == "events" else F.lit(0)), F.lit(0))


def entry_time() -> Any:
    """When a row's entry was added, by its id; of what lies beyond all calendars, the last moment of the year 9999."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    return F.timestamp_millis(F.least("ms", F.lit(MAX_MS)))


def job_age_ms() -> Any:
    """How old an event's job was, in ms; null where its id has no time, or the time is nonsense."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    passed = F.try_subtract("ts", "created_ms")
    return F.when(passed < 0, 0).otherwise(passed)


def display_name(queue: str) -> str:
    """A queue's name as the data source shows it: what is not UTF-8 with backslashes."""
    return queue.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def directory_name(queue: str) -> str:
    """The name of a queue in the archive: its own; or, where no directory can be called that, how it begins and a hash."""
    name = display_name(queue)
    escaped = re.sub(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]", "%00", name)  # three characters each, as Spark does
    if name not in NULL_NAMES and "\0" not in name and len(f"queue={escaped}".encode()) <= MAX_NAME_BYTES:
        return name
    begins = re.sub(r"[^\w.-]", "_", name[:40], flags=re.ASCII)
    return f"{begins}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def read_table(spark: Any, archive: Archive, table: str) -> Any:
    """A table of the archive as a DataFrame; without a single file it is empty."""
    from pyspark_chasqui.tables import TABLE_COLUMNS

    columns = ROLLUP_COLUMNS if table == "rollup_minute" else TABLE_COLUMNS[table] | {"dt": "STRING", "batch": "BIGINT"}
    ddl = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    if not archive.has_rows(table):
        return spark.createDataFrame([], ddl)
    return spark.read.schema(ddl).parquet(escape_glob(archive.table_path(table)))


def escape_glob(path: str) -> str:
    """A path that Spark is to read as it stands, and not as a pattern of many."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def filter_rows(
    rows: Any, queues: Iterable[str] = (), *, since_ms: int | None = None, until_ms: int | None = None
) -> Any:
    """The rows of some queues and of a time; days outside it are not even opened."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    wanted = [directory_name(queue) for queue in queues]
    if wanted:
        rows = rows.where(F.col("queue").isin(wanted))
    if since_ms is not None:
        rows = rows.where((F.col("ms") >= since_ms) & (F.col("dt") >= utc_day(since_ms)))
    if until_ms is not None:
        rows = rows.where((F.col("ms") < until_ms) & (F.col("dt") <= utc_day(until_ms)))
    return rows


def utc_day(ms: int) -> str:
    """The UTC day of a moment, as directories are named."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")
