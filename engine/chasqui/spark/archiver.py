"""The archive: events and dead letters of queues, written to Parquet on and on, every one of them accounted for.

A batch is written by overwriting its own directories, so that one that was killed half-way is simply written again, and
no reader ever meets half a file. Rows and recorded losses of each batch must add up to what its offsets say.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chasqui.clock import SystemClock
from chasqui.errors import ChasquiError, ConfigError, Conflict, NotFound, ServerError
from chasqui.spark import error_decoding, maintenance
from chasqui.spark.layout import (
    TABLES,
    Archive,
    directory_name,
    display_name,
    entry_time,
    file_lock,
    is_gap,
    lost_count,
    read_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Offsets = dict[str, Any]
WARM_ROWS = 100_000
WARM_RATIO = 0.9
"""Warming up ends when a round is hardly faster than the one before."""
MIN_EVENTS_PER_BATCH = 10_000
"""So few events of a queue may wait for more of them: each batch of a queue is a file of its own, and a day has 86,400
seconds.
"""
START_TRIES = 5
FIRST_PROGRESS_TIMEOUT_S = 30.0
EVENTS_CAP = 100_000
"""Where workers trim the stream of events by default."""
BATCHES_AHEAD = 3
MAX_TOTALS_FILES = 10_000
"""How many batches' sums are kept, at a batch a second some hours; those before are in the sums of all."""


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """What to archive. reach: options of the data source that name the server; queues: none means all.

    trigger_s: how often to look. once: end when what is there now is archived. most: rows of a batch at most.
    gather_s: how long a queue's few events may wait for more. warm_up_s: how long Java may warm up first, for a cold one
    is overtaken by a busy stream. recreated: go on with a stream that was deleted and created again.
    """

    archive: Archive
    server_options: dict[str, str]
    queues: tuple[str, ...] = ()
    tables: tuple[str, ...] = TABLES
    trigger_s: float = 1.0
    once: bool = False
    max_rows: int = 500_000
    gather_s: float = 10.0
    warm_up_s: float = 20.0
    accept_recreated: bool = False
    starting: str = "earliest"


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """The sums of one batch: rows archived and events lost; planned: what its offsets say they must add up to.

    all_rows, all_lost: of all batches up to this one. Older versions did not write that down.
    """

    table: str
    batch: int
    rows: int
    lost: int
    planned: int | None = None
    all_rows: int | None = None
    all_lost: int | None = None


@dataclass(slots=True)
class RunTotals:
    """The sums of one run; batches of nothing are not counted."""

    rows: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    batches: int = 0

    def add(self, one: BatchTotals) -> None:
        """One batch more."""
        self.rows[one.table] = self.rows.get(one.table, 0) + one.rows
        self.lost[one.table] = self.lost.get(one.table, 0) + one.lost
        self.batches += bool(one.rows or one.lost)


def archive_queues(
    spark: Any,
    plan: ArchivePlan,
    *,
    on_batch: Callable[[BatchTotals], None] = lambda _: None,
    log: Callable[[str], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> RunTotals:
    """Archive until everything is, or `should_stop()`. A server that went away is waited for, as long as it takes."""
    totals, clock = RunTotals(), SystemClock()
    with _archive_lock(plan):
        if not plan.once and plan.warm_up_s:
            warm_up_writer(spark, plan.warm_up_s, log=log)
        watch = _ArchiveMonitor(spark, plan, totals, on_batch, log)
        queries: dict[str, Any] = {}
        try:
            for table in plan.tables:
                for other in queries.values():
                    _wait_for_progress(other, clock, should_stop)
                queries[table] = _start_with_retries(spark, plan, table, log)
            while queries and not should_stop():
                for table, query in list(queries.items()):
                    if query.isActive:
                        continue
                    problem = _query_error(query)
                    if problem is None:
                        watch.finish_table(table)
                        del queries[table]
                    elif isinstance(problem, ServerError) and problem.transient:
                        log(f"{problem}; trying again{_hint_suffix(problem.hint)}")
                        clock.sleep_sync(2.0)
                        queries[table] = _start_with_retries(spark, plan, table, log)
                    else:
                        raise problem
                watch.report_new_batches()
                watch.warn_if_too_slow(queries.get("events"))
                clock.sleep_sync(0.2)
        finally:
            for table, query in queries.items():
                query.stop()
                watch.finish_table(table)
            watch.report_new_batches()
    return totals


def _wait_for_progress(query: Any, clock: SystemClock, ended: Callable[[], bool]) -> None:
    """Wait for a query's first word before another is started. Both write the environment of their Pythons into one map
    that Spark does not guard; meeting there for the first time they leave it broken for as long as Java runs.
    """
    deadline = clock.monotonic() + FIRST_PROGRESS_TIMEOUT_S
    while query.isActive and query.lastProgress is None and not ended() and clock.monotonic() < deadline:
        clock.sleep_sync(0.1)


def _start_with_retries(spark: Any, plan: ArchivePlan, table: str, log: Callable[[str], None]) -> Any:
    """The query, tried again while the machine is too busy to start a Python for it."""
    for _ in range(START_TRIES):
        try:
            with error_decoding.decoded_errors():
                return start_query(spark, plan, table)
        except error_decoding.SparkBusy as problem:
            log(f"{problem}; trying again")
            SystemClock().sleep_sync(2.0)
    return start_query(spark, plan, table)


def start_query(spark: Any, plan: ArchivePlan, table: str) -> Any:
    """The streaming query of one table."""
    reader = spark.readStream.format("chasqui").options(**plan.server_options).option("table", table)
    reader = (
        reader.option("subscribe", json.dumps(plan.queues))
        if plan.queues
        else reader.option("subscribePattern", "(?s).*")
    )
    rows = (
        reader.option("startingOffsets", plan.starting)
        .option("failOnDataLoss", "false")
        .option("allowRecreated", str(plan.accept_recreated).lower())
        .option("maxOffsetsPerTrigger", plan.max_rows)
        .option("maxRecordsPerPartition", max(1, plan.max_rows // 2))
        .options(**_gather_options(plan, table))
        .load()
    )
    writer = (
        rows.writeStream.queryName(f"chasqui {table}")
        .foreachBatch(partial(write_batch, plan.archive, table, [True]))
        .option("checkpointLocation", plan.archive.checkpoint_path(table))
    )
    timed = (
        writer.trigger(availableNow=True) if plan.once else writer.trigger(processingTime=f"{plan.trigger_s} seconds")
    )
    return timed.start()


def _gather_options(plan: ArchivePlan, table: str) -> dict[str, int]:
    """Events gather a little. Dead letters do not: a user may replay or purge them in the meantime."""
    if plan.once or table != "events":
        return {}
    delay_s = max(0, int(plan.gather_s - plan.trigger_s))  # a queue that is passed over is read at the next trigger
    return {"minOffsetsPerTrigger": MIN_EVENTS_PER_BATCH, "maxTriggerDelay": delay_s}


def write_batch(archive: Archive, table: str, is_first: list[bool], rows: Any, batch_id: int) -> None:
    """Write one batch and check its sums. Only the first after a start can meet what a killed one left behind."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from pyspark_chasqui import error_marks

    sums, ends = Observation(), _batch_offsets(rows, archive, table, batch_id)
    odd = {display_name(queue): directory_name(queue) for queue in ends if directory_name(queue) != display_name(queue)}
    named = rows.replace(odd, subset=["queue"]) if odd else rows
    seen = named.observe(sums, F.count(F.when(~is_gap(table), 1)).alias("rows"), lost_count(table).alias("lost"))
    day = F.date_format(entry_time(), "yyyy-MM-dd")
    with archive.write_lock(table):
        leftovers = _batch_directories(archive, table, batch_id) if is_first[0] else {}
        is_first[0] = False
        (
            seen.withColumn("dt", day)
            .withColumn("batch", F.lit(batch_id))
            .write.partitionBy("queue", "dt", "batch")
            .option("partitionOverwriteMode", "dynamic")
            .mode("overwrite")
            .parquet(archive.table_path(table))
        )
        for stale, number in leftovers.items():
            if stale.exists() and stale.stat().st_ino == number:
                shutil.rmtree(stale)
    total = sums.get
    begins = _batch_offsets(rows, archive, table, batch_id - 1) if batch_id else {}
    account = BatchTotals(table, batch_id, total["rows"], total["lost"], expected_entries(begins, ends))
    with error_marks.marked_errors():
        check_totals(account)
    _save_totals(archive, account)


def check_totals(account: BatchTotals) -> None:
    """Rows and losses must be what the offsets say: of events exactly; dead letters may be deleted by people."""
    if account.planned is None or account.table != "events":
        return
    if account.rows + account.lost != account.planned:
        raise ServerError(
            f"batch {account.batch} of {account.table} does not add up: {account.rows} archived and {account.lost} "
            f"lost, but {account.planned} planned",
            hint="stop, keep the archive as it is, and report this: it should be impossible",
        )


def expected_entries(begins: Offsets, ends: Offsets) -> int | None:
    """How many entries lie between the offsets of a batch, each queue from where it was left, or from where its stream,
    if it is another one, was begun. None: offsets of an older version did not say that.
    """
    total = 0
    for queue, end in ends.items():
        begin = begins.get(queue)
        if begin is None or begin["ep"] != end["ep"]:
            begin = end.get("from")
        if begin is None:
            return None
        total += end["n"] - begin["n"]
    return total


def _batch_offsets(rows: Any, archive: Archive, table: str, batch_id: int) -> Offsets:
    """Where a batch ends, by Spark's own log."""
    path = f"{archive.checkpoint_path(table)}/offsets/{batch_id}"
    if archive.local_root is None:
        lines = [row[0] for row in rows.sparkSession.read.text(path).collect()]
    else:
        lines = Path(path.removeprefix("file:")).read_text("utf-8").splitlines()
    found: Offsets = json.loads(lines[2])
    return found


def warm_up_writer(spark: Any, most_s: float, *, log: Callable[[str], None] = lambda _: None) -> None:
    """Write made-up events until Java has compiled what a batch needs: a cold one takes ten seconds for its first."""
    import tempfile

    from pyspark_chasqui.tables import arrow_schema, ddl

    clock = SystemClock()
    begun, before = clock.monotonic(), 0.0
    log("warming up")
    make = partial(_sample_events, arrow_schema(spark.createDataFrame([], ddl("events")).schema))
    with tempfile.TemporaryDirectory(prefix="chasqui-warm-") as place:
        while clock.monotonic() - begun < most_s:
            round_begun = clock.monotonic()
            made = spark.range(0, WARM_ROWS, 1, 2).mapInArrow(make, ddl("events"))
            keep_warm = made.selectExpr("*", "'2000-01-01' AS dt", "0 AS batch")
            keep_warm.write.partitionBy("queue", "dt", "batch").mode("overwrite").parquet(place)
            took = clock.monotonic() - round_begun
            if before and took > before * WARM_RATIO:
                break
            before = took


def _sample_events(schema: Any, batches: Iterator[Any]) -> Iterator[Any]:
    """Rows like those of a busy queue, taken apart by the same code."""
    from pyspark_chasqui import tables

    for batch in batches:
        rows = [
            [
                b"946684800000-%d" % n,
                [b"e", b"completed", b"id", b"01M7FEK0ZGBZK5R25VVNHVQ28Q", b"ts", b"946684800000", b"n", b"warm",
                 b"attempt", b"1", b"duration_us", b"%d" % n],
            ]
            for n in batch.column(0).to_pylist()
        ]  # fmt: skip
        if rows:
            yield tables.to_batch("events", "warm", rows, schema)


class _ArchiveMonitor:
    """Reports batches as their totals appear; for a remote archive, what was added to it, at the end."""

    def __init__(
        self,
        spark: Any,
        plan: ArchivePlan,
        totals: RunTotals,
        on_batch: Callable[[BatchTotals], None],
        log: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._elsewhere = (
            {} if plan.archive.local_root else {one: _newest_batch(spark, plan.archive, one) for one in plan.tables}
        )
        self._plan, self._totals, self._on_batch, self._log = plan, totals, on_batch, log
        self._progress: Any = None
        self._warned: set[str] = set()
        self._seen = {table: newest_totals(plan.archive, table) for table in plan.tables}

    def report_new_batches(self) -> None:
        for table, seen in self._seen.items():
            after = -1 if seen is None else seen.batch
            while (found := read_totals(self._plan.archive, table, after + 1)) is not None:
                self._totals.add(found)
                self._on_batch(found)
                self._seen[table], after = found, found.batch

    def warn_if_too_slow(self, query: Any) -> None:
        """Warn, once of each queue, before the archive is overtaken."""
        before, now = self._progress, query.lastProgress if query else None
        if now is None or (before is not None and before.batchId == now.batchId):
            return
        self._progress = now
        for queue, rate in (queues_too_fast(before, now) if before is not None else {}).items():
            if queue not in self._warned:
                self._warned.add(queue)
                self._log(
                    f"warning: {queue} tells {rate:,.0f} events a second, and a batch takes {now.batchDuration / 1000:.1f} s: "
                    f"where workers trim at {EVENTS_CAP:,}, their default, events may soon be lost unread; raise events_cap"
                )

    def finish_table(self, table: str) -> None:
        """What a query has added to an archive where no accounts can be kept."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        if table not in self._elsewhere:
            return
        rows = read_table(self._spark, self._plan.archive, table).where(F.col("batch") > self._elsewhere[table])
        counted = (F.count_if(~is_gap(table)), lost_count(table), F.count_distinct("batch"))
        with suppress(NotFound), error_decoding.decoded_errors():
            [(saved, lost, batches)] = rows.agg(*counted).collect()
            self._on_batch(BatchTotals(table, self._elsewhere[table] + batches, saved, lost))
            self._totals.rows[table], self._totals.lost[table] = saved, lost
            self._totals.batches += batches


def queues_too_fast(before: Any, now: Any) -> dict[str, float]:
    """Queues that get more events while three batches are written than a stream keeps, and how many a second, by
    Spark's progress of two batches.
    """
    first, last = _latest_offsets(before), _latest_offsets(now)
    begun, ended = (datetime.fromisoformat(one.timestamp).timestamp() for one in (before, now))
    rates = {
        queue: (mark["n"] - first[queue]["n"]) / max(0.001, ended - begun)
        for queue, mark in last.items()
        if queue in first and first[queue]["ep"] == mark["ep"]
    }
    return {
        queue: rate for queue, rate in rates.items() if rate * now.batchDuration / 1000 * BATCHES_AHEAD > EVENTS_CAP
    }


def _latest_offsets(progress: Any) -> Offsets:
    """How far the streams reached; empty while there is no queue."""
    offsets = str(progress.sources[0].latestOffset)
    return dict(json.loads(offsets)) if offsets.startswith("{") else {}


def _newest_batch(spark: Any, archive: Archive, table: str) -> int:
    """The newest batch of an archive that only Spark can look into; -1 if there is none."""
    with suppress(NotFound), error_decoding.decoded_errors():
        [(found,)] = read_table(spark, archive, table).agg({"batch": "max"}).collect()
        return -1 if found is None else int(found)
    return -1


def newest_totals(archive: Archive, table: str) -> BatchTotals | None:
    """The newest batch that was accounted for."""
    place = archive.totals_dir(table)
    numbers = [int(path.stem) for path in place.glob("*.json")] if place and place.exists() else []
    return read_totals(archive, table, max(numbers)) if numbers else None


def totals_up_to(archive: Archive, table: str, newest: int) -> dict[str, int]:
    """The newest batch, and what all batches have archived and lost together."""
    rows = lost = 0
    for number in range(newest, -1, -1):
        one = read_totals(archive, table, number)
        if one and one.all_rows is not None and one.all_lost is not None:
            return {"batch": newest, "rows": rows + one.all_rows, "lost": lost + one.all_lost}
        rows, lost = (rows + one.rows, lost + one.lost) if one else (rows, lost)
    return {"batch": newest, "rows": rows, "lost": lost}


def read_totals(archive: Archive, table: str, batch: int) -> BatchTotals | None:
    """The sums of one batch, if it is done."""
    place = archive.totals_dir(table)
    try:
        return BatchTotals(**json.loads((place / f"{batch}.json").read_text())) if place else None
    except FileNotFoundError:
        return None


def _save_totals(archive: Archive, account: BatchTotals) -> None:
    place = archive.totals_dir(account.table)
    if place is None:
        return
    place.mkdir(parents=True, exist_ok=True)
    before = totals_up_to(archive, account.table, account.batch - 1)
    record = asdict(account) | {
        "all_rows": before["rows"] + account.rows, "all_lost": before["lost"] + account.lost,
    }  # fmt: skip
    fresh = place / f".{account.batch}.new"
    fresh.write_text(json.dumps(record))
    fresh.rename(place / f"{account.batch}.json")
    (place / f"{account.batch - MAX_TOTALS_FILES}.json").unlink(missing_ok=True)


@contextmanager
def _archive_lock(plan: ArchivePlan) -> Iterator[None]:
    """The directory, ours alone for the while, and without what a killed process left in the middle of writing."""
    root = plan.archive.local_root
    if root is None:
        yield
        return
    taken = Conflict(f"somebody else archives to {root} already", hint="one archive, one writer; use another directory")
    with file_lock(root / "_lock", taken):
        maintenance.recover_swaps(plan.archive)
        for table in plan.tables:
            _remove_unfinished(plan.archive, table)
        yield


def _remove_unfinished(archive: Archive, table: str) -> None:
    """Take away what was not brought to its end."""
    root, newest = archive.local_root, archive.last_committed_batch(table)
    assert root is not None  # noqa: S101 - `_prepared` looked
    if newest is None and archive.day_dirs(table):
        raise ConfigError(
            f"{root} holds {table}, but not how far they were archived: {archive.checkpoint_path(table)} is gone",
            hint="archive to another directory: here, the first batches would replace old ones",
        )
    for stale in (root / table).glob(".spark-staging-*"):
        shutil.rmtree(stale, ignore_errors=True)
    for account in (root / "_accounts" / table).glob("*.json"):
        if int(account.stem) > (-1 if newest is None else newest):
            account.unlink()  # its batch is written again, and may come to other sums


def _batch_directories(archive: Archive, table: str, batch_id: int) -> dict[Path, int]:
    """Directories of a batch that exist already, and which they are."""
    return {path: path.stat().st_ino for day in archive.day_dirs(table) if (path := day / f"batch={batch_id}").exists()}


def _hint_suffix(hint: str | None) -> str:
    return f" ({hint})" if hint else ""


def _query_error(query: Any) -> ChasquiError | None:
    fault = query.exception()
    return None if fault is None else error_decoding.decode_error(str(fault))
