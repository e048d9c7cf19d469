"""The archive: events and dead letters of queues, written to Parquet on and on, every one of them accounted for.

A batch is written by overwriting its own directories, so that one that was killed half-way is simply written again, and
no reader ever meets half a file. Rows and recorded losses of each batch must add up to what its offsets say.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chasqui.clock import SystemClock
from chasqui.errors import ConfigError, Conflict, ServerError
from chasqui.spark import plain
from chasqui.spark.layout import TABLES, Archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WARM_ROWS = 100_000
WARM_ENOUGH = 0.9
"""Warming up ends when a round is hardly faster than the one before."""
TRIES = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What to archive. reach: options of the data source that name the server; queues: none means all.

    trigger_s: how often to look. once: end when what is there now is archived. most: rows of a batch at most.
    warm_up_s: how long Java may warm up first, for a cold one is overtaken by a busy stream. recreated: go on with a
    stream that somebody made anew.
    """

    archive: Archive
    reach: dict[str, str]
    queues: tuple[str, ...] = ()
    tables: tuple[str, ...] = TABLES
    trigger_s: float = 1.0
    once: bool = False
    most: int = 500_000
    warm_up_s: float = 20.0
    recreated: bool = False
    starting: str = "earliest"


@dataclass(frozen=True, slots=True)
class Account:
    """The sums of one batch: rows archived and events lost; planned: what its offsets say they must add up to."""

    table: str
    batch: int
    rows: int
    lost: int
    planned: int | None = None


@dataclass(slots=True)
class Totals:
    """The sums of one run; batches of nothing are not counted."""

    rows: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    batches: int = 0

    def add(self, one: Account) -> None:
        """One batch more."""
        self.rows[one.table] = self.rows.get(one.table, 0) + one.rows
        self.lost[one.table] = self.lost.get(one.table, 0) + one.lost
        self.batches += bool(one.rows or one.lost)


def run(
    spark: Any,
    plan: Plan,
    *,
    tell: Callable[[Account], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    ended: Callable[[], bool] = lambda: False,
) -> Totals:
    """Archive until everything is, or `ended` says so. A server that went away is waited for, as long as it takes."""
    totals, clock = Totals(), SystemClock()
    with _prepared(plan):
        if not plan.once and plan.warm_up_s:
            warm_up(spark, plan.warm_up_s, say=say)
        watch = _Watch(plan, totals, tell)
        queries = {table: _started(spark, plan, table, say) for table in plan.tables}
        try:
            while queries and not ended():
                for table, query in list(queries.items()):
                    if query.isActive:
                        continue
                    problem = _problem(query)
                    if problem is None:
                        watch.ended(table, query)
                        del queries[table]
                    elif getattr(problem, "transient", False):
                        say(f"{problem}; trying again")
                        clock.pause(2.0)
                        queries[table] = _started(spark, plan, table, say)
                    else:
                        raise problem
                watch.look()
                clock.pause(0.2)
        finally:
            for table, query in queries.items():
                query.stop()
                watch.ended(table, query)
            watch.look()
    return totals


def _started(spark: Any, plan: Plan, table: str, say: Callable[[str], None]) -> Any:
    """The query, tried again while the machine is too busy to start a Python for it."""
    for _ in range(TRIES):
        try:
            with plain.plainly():
                return start(spark, plan, table)
        except plain.TooBusy as problem:
            say(f"{problem}; trying again")
            SystemClock().pause(2.0)
    return start(spark, plan, table)


def start(spark: Any, plan: Plan, table: str) -> Any:
    """The streaming query of one table."""
    reader = spark.readStream.format("chasqui").options(**plan.reach).option("table", table)
    reader = (
        reader.option("subscribe", ",".join(plan.queues))
        if plan.queues
        else reader.option("subscribePattern", "(?s).*")
    )
    rows = (
        reader.option("startingOffsets", plan.starting)
        .option("failOnDataLoss", "false")
        .option("allowRecreated", str(plan.recreated).lower())
        .option("maxOffsetsPerTrigger", plan.most)
        .option("maxRecordsPerPartition", max(1, plan.most // 2))
        .load()
    )
    writer = (
        rows.writeStream.queryName(f"chasqui {table}")
        .foreachBatch(partial(keep, plan.archive, table, [True]))
        .option("checkpointLocation", plan.archive.checkpoint(table))
    )
    timed = (
        writer.trigger(availableNow=True)
        if plan.once
        else writer.trigger(processingTime=f"{plan.trigger_s} seconds")
    )
    return timed.start()


def keep(archive: Archive, table: str, is_first: list[bool], rows: Any, batch_id: int) -> None:
    """Write one batch and check its sums. Only the first after a start can meet what a killed one left behind."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    leftovers = _directories(archive, table, batch_id) if is_first[0] else {}
    is_first[0] = False
    sums = Observation()
    gap = F.col("event") == "chasqui.gap" if table == "events" else F.lit(False)
    lost = F.sum("lost") if table == "events" else F.max(F.lit(0))
    seen = rows.observe(sums, F.count(F.when(~gap, 1)).alias("rows"), lost.alias("lost"))
    day = F.date_format(F.timestamp_millis("ms"), "yyyy-MM-dd")
    (
        seen.withColumn("dt", day)
        .withColumn("batch", F.lit(batch_id))
        .write.partitionBy("queue", "dt", "batch")
        .option("partitionOverwriteMode", "dynamic")
        .mode("overwrite")
        .parquet(archive.table(table))
    )
    for stale, number in leftovers.items():
        if stale.exists() and stale.stat().st_ino == number:
            shutil.rmtree(stale)
    told = sums.get
    account = Account(
        table, batch_id, told["rows"] or 0, told["lost"] or 0, planned(rows, archive, table, batch_id)
    )
    check(account)
    _write_down(archive, account)


def check(account: Account) -> None:
    """Rows and losses must be what the offsets say: of events exactly; dead letters may be deleted by people."""
    if account.planned is None or account.table != "events":
        return
    if account.rows + account.lost != account.planned:
        raise ServerError(
            f"batch {account.batch} of {account.table} does not add up: {account.rows} archived and {account.lost} "
            f"lost, but {account.planned} planned",
            hint="stop, keep the archive as it is, and report this: it should be impossible",
        )


def planned(rows: Any, archive: Archive, table: str, batch_id: int) -> int | None:
    """How many entries lie between the offsets of a batch, by Spark's own log; None for the first one, whose start
    is not in it.
    """
    if batch_id == 0:
        return None
    log = f"{archive.checkpoint(table)}/offsets"
    before, after = (_offsets(rows, f"{log}/{number}") for number in (batch_id - 1, batch_id))
    if before is None or after is None:
        return None
    total = 0
    for queue, end in after.items():
        begin = before.get(queue, {"n": 0, "ep": end["ep"]})
        total += end["n"] - (begin["n"] if begin["ep"] == end["ep"] else 0)
    return total if before.keys() == after.keys() else None


def _offsets(rows: Any, path: str) -> dict[str, Any] | None:
    if "://" in path:
        lines = [row[0] for row in rows.sparkSession.read.text(path).collect()]
    else:
        lines = Path(path.removeprefix("file:")).read_text("utf-8").splitlines()
    found = json.loads(lines[2]) if len(lines) > 2 else None
    return found if isinstance(found, dict) else None


def warm_up(spark: Any, most_s: float, *, say: Callable[[str], None] = lambda _: None) -> None:
    """Write made-up events until Java has compiled what a batch needs: a cold one takes ten seconds for its first."""
    import tempfile

    from pyspark_chasqui.tables import arrow_schema, ddl

    clock = SystemClock()
    begun, before = clock.mono(), 0.0
    say("warming up")
    make = partial(_made_up, arrow_schema(spark.createDataFrame([], ddl("events")).schema))
    with tempfile.TemporaryDirectory(prefix="chasqui-warm-") as place:
        while clock.mono() - begun < most_s:
            round_begun = clock.mono()
            made = spark.range(0, WARM_ROWS, 1, 2).mapInArrow(make, ddl("events"))
            keep_warm = made.selectExpr("*", "'2000-01-01' AS dt", "0 AS batch")
            keep_warm.write.partitionBy("queue", "dt", "batch").mode("overwrite").parquet(place)
            took = clock.mono() - round_begun
            if before and took > before * WARM_ENOUGH:
                break
            before = took


def _made_up(schema: Any, batches: Iterator[Any]) -> Iterator[Any]:
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
            yield tables.batch("events", "warm", rows, schema)


class _Watch:
    """Tells of batches as their accounts appear; of an archive elsewhere, what Spark's progress says at the end."""

    def __init__(self, plan: Plan, totals: Totals, tell: Callable[[Account], None]) -> None:
        self._plan, self._totals, self._tell = plan, totals, tell
        self._seen = {table: latest(plan.archive, table) for table in plan.tables}

    def look(self) -> None:
        for table, seen in self._seen.items():
            after = -1 if seen is None else seen.batch
            while (found := account_of(self._plan.archive, table, after + 1)) is not None:
                self._totals.add(found)
                self._tell(found)
                self._seen[table], after = found, found.batch

    def ended(self, table: str, query: Any) -> None:
        if self._plan.archive.local is not None:
            return
        for one in query.recentProgress:
            self._totals.add(Account(table, one.batchId, one.numInputRows, 0))


def latest(archive: Archive, table: str) -> Account | None:
    """The newest batch that was accounted for."""
    place = archive.accounts(table)
    numbers = [int(path.stem) for path in place.glob("*.json")] if place and place.exists() else []
    return account_of(archive, table, max(numbers)) if numbers else None


def sums(archive: Archive, table: str, newest: int) -> dict[str, int]:
    """The newest batch, and what all batches have archived and lost together."""
    found = [one for number in range(newest + 1) if (one := account_of(archive, table, number))]
    return {"batch": newest, "rows": sum(one.rows for one in found), "lost": sum(one.lost for one in found)}


def account_of(archive: Archive, table: str, batch: int) -> Account | None:
    """The sums of one batch, if it is done."""
    place = archive.accounts(table)
    try:
        return Account(**json.loads((place / f"{batch}.json").read_text())) if place else None
    except FileNotFoundError:
        return None


def _write_down(archive: Archive, account: Account) -> None:
    place = archive.accounts(account.table)
    if place is None:
        return
    place.mkdir(parents=True, exist_ok=True)
    fresh = place / f".{account.batch}.new"
    told = {name: getattr(account, name) for name in Account.__slots__}
    fresh.write_text(json.dumps(told))
    fresh.rename(place / f"{account.batch}.json")


@contextmanager
def _prepared(plan: Plan) -> Iterator[None]:
    """The directory, ours alone for the while, and without what a killed process left in the middle of writing."""
    import fcntl

    root = plan.archive.local
    if root is None:
        yield
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = os.open(root / "_lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as fault:
        raise ConfigError(
            f"cannot write the archive at {root}: {fault.strerror}",
            hint="give a directory that is yours: --archive",
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(
                f"somebody else archives to {root} already",
                hint="one archive, one writer; use another directory",
            ) from None
        for table in plan.tables:
            for stale in (root / table).glob(".spark-staging-*"):
                shutil.rmtree(stale, ignore_errors=True)
        yield
    finally:
        os.close(lock)


def _directories(archive: Archive, table: str, batch_id: int) -> dict[Path, int]:
    """Directories of a batch that exist already, and which they are."""
    return {
        path: path.stat().st_ino
        for day in archive.days(table)
        if (path := day / f"batch={batch_id}").exists()
    }


def _problem(query: Any) -> Exception | None:
    fault = query.exception()
    return None if fault is None else plain.told(str(fault))
