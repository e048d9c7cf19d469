"""Keeping an archive in shape: days that are over become few large files, and minutes become roll-ups.

Both may be interrupted and run again. Writing the archive itself is the business of `archive.py`.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui.errors import ConfigError, Conflict, ServerError
from chasqui.spark.layout import (
    ROW_KEYS,
    Archive,
    escape_glob,
    file_lock,
    filter_rows,
    is_gap,
    job_age_ms,
    lost_count,
    read_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

ROWS_PER_FILE = 500_000
COMPACTED_BATCH = -1
"""The number of the batch that a compacted day is."""
SKETCH_SIZE = 8000
"""How fine a sketch is. At the 99th percentile of long tails Spark's own 200 is off by 5 to 9 %, 2000 by up to 3 %."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What became of one day of one queue."""

    table: str
    day: str
    rows: int
    repeated: int
    files_before: int
    files_after: int


def compact_days(
    spark: Any,
    archive: Archive,
    tables: Sequence[str],
    *,
    before: str,
    on_day: Callable[[CompactionResult], None] = lambda _: None,
) -> list[CompactionResult]:
    """Rewrite every day before this one into files of half a million rows, without rows that were written twice.

    The archive may be written meanwhile. Only batches that Spark knows to be done are taken: it never touches those
    again, while one that was killed before its end will be written once more, in its own place. A day is swapped
    between two batches, not during one. The new files are whole before the old ones go, and the swap is two renames:
    what is killed between them is finished by the next run.
    """
    root = archive.local_root
    if root is None:
        raise ConfigError("only an archive on this machine's disks can be compacted", hint=f"{archive.root} is not one")
    if not root.exists():
        return []
    taken = Conflict(f"somebody else compacts {root} already", hint="wait until that is done")
    with file_lock(root / "_lock.compact", taken):
        recover_swaps(archive)
        done = []
        for table in tables:
            newest = archive.last_committed_batch(table)
            for day in archive.day_dirs(table):
                batches = [one for one in sorted(day.glob("batch=*")) if newest is None or _batch_number(one) <= newest]
                over = day.name.removeprefix("dt=") < before
                if over and [_batch_number(batch) for batch in batches] not in ([], [COMPACTED_BATCH]):
                    done.append(_compact_day(spark, archive, table, day, batches))
                    on_day(done[-1])
    return done


def _batch_number(batch: Path) -> int:
    return int(batch.name.removeprefix("batch="))


def _compact_day(spark: Any, archive: Archive, table: str, day: Path, batches: list[Path]) -> CompactionResult:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    root = archive.local_root
    assert root is not None  # noqa: S101 - `compact` looked
    staged = root / "_compacting" / table / day.parent.name / day.name
    shutil.rmtree(staged, ignore_errors=True)
    shape = read_table(spark, archive, table).drop("dt", "batch", "queue").schema
    one_day = spark.read.schema(shape).parquet(*(escape_glob(_file_url(batch)) for batch in batches))
    events = F.count_distinct(F.when(~is_gap(table), F.struct(*ROW_KEYS[table])))
    [(total, wanted, lost)] = one_day.agg(F.count("*"), events + F.count_if(is_gap(table)), lost_count(table)).collect()
    files = max(1, -(-total // ROWS_PER_FILE))
    target = staged / f"batch={COMPACTED_BATCH}"
    _deduplicate(one_day, table).orderBy("ms", "seq").coalesce(files).write.mode("overwrite").parquet(_file_url(target))
    if not any(target.glob("*.parquet")):
        raise ConfigError(
            f"that Spark does not write to this machine's disks: nothing came to {target}",
            hint="nothing was changed; compact with a Spark of this machine",
        )
    written = spark.read.schema(shape).parquet(escape_glob(_file_url(target)))
    [(saved, saved_lost)] = written.agg(F.count("*"), lost_count(table)).collect()
    if (saved, saved_lost) != (wanted, lost):
        raise ServerError(
            f"{day}: {wanted} rows and {lost} lost events to keep, but {saved} and {saved_lost} were written",
            hint="nothing was changed; run it again",
        )
    for note in [*target.glob("_*"), *target.glob(".*")]:
        note.unlink()
    files_before = sum(1 for batch in batches for _ in batch.glob("*.parquet"))
    with archive.write_lock(table):
        _swap_day(root, table, day, staged, {batch.name for batch in batches})
    return CompactionResult(table, f"{day.parent.name}/{day.name}", saved, total - saved, files_before, files)


def _file_url(path: Path) -> str:
    """A path as Spark takes it, whatever file system it works on by default."""
    return f"file://{path}"


def _deduplicate(rows: Any, table: str) -> Any:
    """Every row once; but all gaps, for a long loss is several rows at one id, and each of them counts."""
    gap = is_gap(table)
    return rows.where(~gap).dropDuplicates(list(ROW_KEYS[table])).unionByName(rows.where(gap))


def _swap_day(root: Path, table: str, day: Path, staged: Path, known: set[str]) -> None:
    """The new day for the old; what came to the old one meanwhile moves along."""
    old = root / "_replaced" / table / day.parent.name / day.name
    old.parent.mkdir(parents=True, exist_ok=True)
    (staged / "_known").write_text("\n".join(sorted(known)))
    day.rename(old)
    staged.rename(day)
    _finish_swap(old, day)


def _finish_swap(old: Path, day: Path) -> None:
    note = day / "_known"
    known = set(note.read_text().splitlines()) if note.exists() else set()
    for late in old.glob("batch=*"):
        if late.name not in known and not (day / late.name).exists():  # else it was written again since
            late.rename(day / late.name)
    shutil.rmtree(old)
    note.unlink(missing_ok=True)


def recover_swaps(archive: Archive) -> None:
    """Finish a swap that was interrupted: until then its day is nowhere to be read."""
    root = archive.local_root
    if root is None:
        return
    for old in sorted((root / "_replaced").glob("*/queue=*/dt=*")):
        table, queue, name = old.parts[-3:]
        day, staged = root / table / queue / name, root / "_compacting" / table / queue / name
        with archive.write_lock(table):
            if not old.exists():
                continue  # the process that swaps it was not interrupted, only busy
            if not day.exists() and staged.exists():
                staged.rename(day)
            elif not day.exists():
                old.rename(day)
                continue
            _finish_swap(old, day)


def roll_up(spark: Any, archive: Archive, *, queues: Iterable[str] = (), since_ms: int | None = None) -> int:
    """Minutes of each queue and job name: counts, and sketches of how long things took; answers how many there are.

    A day is computed whole and overwrites what was there, so running it again changes nothing.
    """
    if archive.local_root is None:
        return _write_rollup(spark, archive, queues, since_ms)
    taken = Conflict(f"somebody else rolls up {archive.root} already", hint="wait until that is done")
    with file_lock(archive.local_root / "_lock.rollup", taken):
        for stale in (archive.local_root / "rollup_minute").glob(".spark-staging-*"):
            shutil.rmtree(stale, ignore_errors=True)
        return _write_rollup(spark, archive, queues, since_ms)


def _write_rollup(spark: Any, archive: Archive, queues: Iterable[str], since_ms: int | None) -> int:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from chasqui.spark.layout import utc_day

    events = filter_rows(read_table(spark, archive, "events"), queues)
    if since_ms is not None:
        events = events.where(F.col("dt") >= utc_day(since_ms))
    minutes = roll_up_minutes(events)
    place = archive.table_path("rollup_minute")
    (
        minutes.repartition(2, "queue", "dt")
        .write.partitionBy("queue", "dt")
        .option("partitionOverwriteMode", "dynamic")
        .mode("overwrite")
        .parquet(place)
    )
    return int(filter_rows(read_table(spark, archive, "rollup_minute"), queues).count())


def roll_up_minutes(events: Any) -> Any:
    """Events, added up by minute."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    def is_(kind: str) -> Any:
        return F.col("event") == kind

    first_run = is_("active") & (F.col("attempt") == 1)
    wait, end_to_end = F.when(first_run, job_age_ms()), F.when(is_("completed"), job_age_ms())
    ran = F.when(is_("completed") | is_("failed"), F.col("duration_us"))
    grouped = events.where(F.col("event").isin("active", "completed", "failed", "retry-scheduled", "dlq")).groupBy(
        "queue", "dt", F.expr("ms - ms % 60000").alias("minute"), F.coalesce("name", F.lit("")).alias("name")
    )
    return grouped.agg(
        F.count_if(is_("active")).alias("active"),
        F.count_if(is_("completed")).alias("completed"),
        F.count_if(is_("failed")).alias("failed"),
        F.count_if(is_("retry-scheduled")).alias("retried"),
        F.count_if(is_("dlq")).alias("dlq"),
        F.coalesce(F.try_sum(ran), F.lit(0)).alias("busy_us"),
        F.kll_sketch_agg_bigint(ran, F.lit(SKETCH_SIZE)).alias("dur_kll"),
        F.kll_sketch_agg_bigint(wait, F.lit(SKETCH_SIZE)).alias("wait_kll"),
        F.kll_sketch_agg_bigint(end_to_end, F.lit(SKETCH_SIZE)).alias("e2e_kll"),
    )
