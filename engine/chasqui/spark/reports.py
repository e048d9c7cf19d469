"""Reports over an archive: each is one question, answered by Spark in plain records, the same for every skin.

Percentiles are exact (linear between neighbours) unless a report is asked of the roll-ups, whose sketches are within
one per cent. Moments are milliseconds of the server's stream ids; queue time counts from the time in the job's id,
because there is no event for a job being added.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from chasqui.errors import ArgumentError, NotFound
from chasqui.spark import maintenance
from chasqui.spark.layout import Archive, entry_time, filter_rows, is_gap, job_age_ms, read_table
from chasqui.spark.percentiles import exact_percentiles

if TYPE_CHECKING:
    from collections.abc import Callable

Record = dict[str, Any]
PERCENTILES = (0.5, 0.95, 0.99)
MINUTE_MS = 60_000
DEFAULT_TOP = 20
MAX_INTERPOLATED = 5000
"""With more values than that neighbours are so close that either will do; with fewer a percentile lies between two."""


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What a report is about.

    at_ms, span_ms: the moment and the length of the two windows that `diff` compares. job_id: whose timeline. sla_ms:
    how long a job may take from its making to its end. bucket_ms: how long a step of `throughput` is.
    """

    queues: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    at_ms: int | None = None
    span_ms: int | None = None
    job_id: str | None = None
    sla_ms: int = 60_000
    bucket_ms: int = MINUTE_MS
    top: int = DEFAULT_TOP
    from_rollup: bool = False


@dataclass(frozen=True, slots=True)
class ReportDefinition:
    """A report: its title for people, the columns of its records, and what makes them."""

    name: str
    title: str
    columns: tuple[str, ...]
    make: Callable[[ReportTables, ReportQuery], Any]


class ReportTables:
    """The archive's tables, narrowed to what a question is about."""

    def __init__(self, spark: Any, archive: Archive, asked: ReportQuery) -> None:
        self.spark, self.archive, self.asked = spark, archive, asked
        self._read: dict[str, Any] = {}

    @property
    def events(self) -> Any:
        """Events, gaps aside."""
        return self.events_and_gaps.where(~is_gap("events"))

    @property
    def events_and_gaps(self) -> Any:
        """Events and gaps."""
        return self._table("events")

    def count_events(self) -> int:
        """How many events and gaps there are; without bounds in time, from the files' own counts."""
        found: int = self.events_and_gaps.count()
        return found

    @property
    def dlq(self) -> Any:
        """Dead letters."""
        return self._table("dlq")

    @property
    def minutes(self) -> Any:
        """Roll-ups; those of the minutes that lie wholly in the time asked about."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        if not self.archive.has_rows("rollup_minute"):
            raise NotFound("this archive has no roll-ups", hint="`chasqui pipeline rollup` makes them")
        rows = read_table(self.spark, self.archive, "rollup_minute").withColumn("ms", F.col("minute"))
        until_ms = self.asked.until_ms
        return self._filtered(rows, None if until_ms is None else until_ms - MINUTE_MS + 1)

    def _table(self, table: str) -> Any:
        if table not in self._read:  # each reading looks for all files again
            self._read[table] = read_table(self.spark, self.archive, table)
        return self._filtered(self._read[table], self.asked.until_ms)

    def _filtered(self, rows: Any, until_ms: int | None) -> Any:
        return filter_rows(rows, self.asked.queues, since_ms=self.asked.since_ms, until_ms=until_ms)


def run_report(spark: Any, archive: Archive, name: str, asked: ReportQuery) -> list[Record]:
    """The records of one report."""
    found = REPORTS.get(name)
    if found is None:
        raise ArgumentError(f"there is no report named {name!r}", hint=f"there are {', '.join(REPORTS)}")
    maintenance.recover_swaps(archive)
    if not archive.has_rows("events"):
        raise NotFound(
            f"there is nothing archived at {archive.root}",
            hint="`chasqui pipeline archive` fills it; --archive names another one",
        )
    rows = found.make(ReportTables(spark, archive, asked), asked)
    return [row.asDict() for row in rows.select(*found.columns).collect()]


def _with_error(rows: Any, text: str) -> Any:
    """Rows with a column `error`: a text without what is different every time. Each different text is looked at once."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from chasqui.inspect.error_fingerprint import fingerprint

    same = F.udf(lambda error: fingerprint(error), "string")  # noqa: PLW0108 - Spark cannot send a cached function
    error = F.coalesce(text, F.lit(""))
    texts = rows.select(error.alias("told")).distinct().withColumn("error", same("told"))
    return rows.withColumn("told", error).join(texts, "told", "left")


def _throughput(tables: ReportTables, asked: ReportQuery) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    step = asked.bucket_ms
    at = F.expr(f"ms - ms % {int(step)}").alias("at_ms")
    if asked.from_rollup:
        if step % MINUTE_MS:
            raise ArgumentError("roll-ups know whole minutes only", hint="ask for steps of 1m, 5m, 1h")
        counts = [F.sum(one).alias(name) for one, name in (("completed", "completed"), ("failed", "failed"), ("retried", "retried"), ("dlq", "dead"))]  # fmt: skip
        return tables.minutes.groupBy("queue", at).agg(*counts).orderBy("queue", "at_ms")
    return (
        tables.events.where(F.col("event").isin("completed", "failed", "retry-scheduled", "dlq"))
        .groupBy("queue", at)
        .agg(
            F.count_if(F.col("event") == "completed").alias("completed"),
            F.count_if(F.col("event") == "failed").alias("failed"),
            F.count_if(F.col("event") == "retry-scheduled").alias("retried"),
            F.count_if(F.col("event") == "dlq").alias("dead"),
        )
        .orderBy("queue", "at_ms")
    )


def _measures() -> dict[str, Any]:
    """How long runs took, jobs waited, and jobs took from their making to their end; null where an event lacks it."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    return {
        "run_us": F.when(F.col("event").isin("completed", "failed"), F.col("duration_us")),
        "wait_ms": F.when((F.col("event") == "active") & (F.col("attempt") == 1), job_age_ms()),
        "e2e_ms": F.when(F.col("event") == "completed", job_age_ms()),
    }


def _latency(tables: ReportTables, asked: ReportQuery) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    if asked.from_rollup:
        return _latency_from_rollup(tables)
    named = _with_name(tables.events.where(F.col("event").isin("active", "completed", "failed")))
    ended = {kind: F.col("event") == kind for kind in ("completed", "failed")}
    found = exact_percentiles(named, ("queue", "name"), ended, _measures(), PERCENTILES, at_most=tables.count_events())
    return found.orderBy("queue", "name")


def _with_name(rows: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    return rows.withColumn("name", F.coalesce("name", F.lit("")))


def _latency_from_rollup(tables: ReportTables) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    sketches = {"run_us": "dur_kll", "wait_ms": "wait_kll", "e2e_ms": "e2e_kll"}
    merged = [
        F.kll_merge_agg_bigint(F.col(saved), F.lit(maintenance.SKETCH_SIZE)).alias(name)
        for name, saved in sketches.items()
    ]
    grouped = tables.minutes.groupBy("queue", "name").agg(
        F.sum("completed").alias("completed"), F.sum("failed").alias("failed"), *merged
    )

    def count(name: str) -> Any:
        return F.kll_sketch_get_n_bigint(F.col(name))

    sizes = {n for row in grouped.select(*map(count, sketches)).collect() for n in row}
    ranks = sorted(
        {
            one
            for n in sizes
            if n and n <= MAX_INTERPOLATED
            for share in PERCENTILES
            for one in neighbour_ranks(n, share)
        }
    )

    def quantile(name: str, number: int) -> Any:
        n, share = count(name), PERCENTILES[number]
        place = (n - 1) * share
        asked = F.array(*map(F.lit, ranks or [share]))
        found = F.map_from_arrays(asked, F.kll_sketch_get_quantile_bigint(F.col(name), asked))
        low, high = (found[F.try_divide(end(place) + 0.5, n)].cast("double") for end in (F.floor, F.ceil))
        between = low + (high - low) * (place - F.floor(place))
        nearest = F.kll_sketch_get_quantile_bigint(F.col(name), F.lit(share)).cast("double")
        return F.when(n > MAX_INTERPOLATED, nearest).when(n > 0, between)

    return grouped.select("queue", "name", "completed", "failed", *_percentile_columns(quantile)).orderBy(
        "queue", "name"
    )


def neighbour_ranks(n: int, share: float) -> tuple[float, float]:
    """The ranks of the two among n values that a percentile lies between; a sketch must be asked for each by name."""
    place = (n - 1) * share
    return (floor(place) + 0.5) / n, (ceil(place) + 0.5) / n


def _percentile_columns(take: Callable[[str, int], Any]) -> list[Any]:
    return [
        take(name, n).alias(f"{name}_p{round(share * 100)}")
        for name in ("run_us", "wait_ms", "e2e_ms")
        for n, share in enumerate(PERCENTILES)
    ]


def _retries(tables: ReportTables, _: ReportQuery) -> Any:
    """Of the jobs that came to their n-th run: how many ended there well, failed, or died."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    return (
        tables.events.where(F.col("event").isin("active", "completed", "failed", "dlq") & F.col("attempt").isNotNull())
        .groupBy("queue", "attempt")
        .agg(
            F.count_if(F.col("event") == "active").alias("started"),
            F.count_if(F.col("event") == "completed").alias("completed"),
            F.count_if(F.col("event") == "failed").alias("failed"),
            F.count_if(F.col("event") == "dlq").alias("dead"),
        )
        .orderBy("queue", "attempt")
    )


def _failures(tables: ReportTables, asked: ReportQuery) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    failed = _with_error(tables.events.where(F.col("event") == "failed"), "reason")
    return (
        failed.groupBy("queue", F.coalesce("name", F.lit("")).alias("name"), "error")
        .agg(
            F.count("*").alias("failures"),
            F.countDistinct("job_id").alias("jobs"),
            F.min("ms").alias("first_ms"),
            F.max("ms").alias("last_ms"),
            F.min("reason").alias("sample"),
        )
        .orderBy(F.desc("failures"), "queue", "name", "error")
        .limit(asked.top)
    )


def _dead_letters(tables: ReportTables, asked: ReportQuery) -> Any:
    """Dead letters by what killed them: their own detail, or else what their last failure said."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    last_words = (
        tables.events.where((F.col("event") == "failed") & F.col("job_id").isNotNull())
        .groupBy("queue", "job_id")
        .agg(F.max_by("reason", F.struct("ms", "seq")).alias("last_reason"))
    )
    letters = tables.dlq.join(last_words, ["queue", "job_id"], "left")
    letters = _with_error(letters.withColumn("why", F.coalesce("detail", "last_reason")), "why")
    return (
        letters.groupBy("queue", "reason", F.coalesce("name", F.lit("")).alias("name"), "error")
        .agg(
            F.count("*").alias("letters"),
            F.min("ms").alias("first_ms"),
            F.max("ms").alias("last_ms"),
            F.min("job_id").alias("sample_job_id"),
        )
        .orderBy(F.desc("letters"), "queue", "reason", "name", "error")
        .limit(asked.top)
    )


def _deadline_misses(tables: ReportTables, asked: ReportQuery) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    took = _measures()["e2e_ms"]
    timed = tables.events.withColumn("took", took).where(F.col("took").isNotNull())
    breach = F.col("took") > asked.sla_ms
    return (
        timed.groupBy("queue", F.coalesce("name", F.lit("")).alias("name"))
        .agg(
            F.count("*").alias("completed"),
            F.count_if(breach).alias("breaches"),
            (F.count_if(breach) / F.count("*")).alias("share"),
            F.max("took").alias("worst_ms"),
        )
        .orderBy(F.desc("share"), F.desc("breaches"), "queue", "name")
    )


def _slowest(tables: ReportTables, asked: ReportQuery) -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    return (
        tables.events.where(F.col("event").isin("completed", "failed") & F.col("duration_us").isNotNull())
        .withColumn("name", F.coalesce("name", F.lit("")))
        .orderBy(F.desc("duration_us"), "queue", "ms", "seq")
        .limit(asked.top)
    )


def _timeline(tables: ReportTables, asked: ReportQuery) -> Any:
    """Everything that happened to one job; by default the one that was tried most often, the newest of those."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    events = tables.events.where(F.col("job_id").isNotNull())
    job_id = asked.job_id
    if job_id is None:
        hardest = F.max(F.struct(F.coalesce("attempt", F.lit(0)), "ms", "seq", "job_id"))
        job_id = events.select(hardest.alias("of")).select("of.job_id").collect()[0][0] or ""
    place = Window.partitionBy("queue").orderBy("ms", "seq")
    since = F.try_subtract("ts", F.lag("ts").over(place))
    return events.where(F.col("job_id") == job_id).withColumn("since_ms", since).orderBy("queue", "ms", "seq")


def _heatmap(tables: ReportTables, _: ReportQuery) -> Any:
    """Runs by weekday (0 is Monday) and hour, in UTC."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    at = entry_time()
    return (
        tables.events.where(F.col("event").isin("completed", "failed"))
        .groupBy("queue", F.weekday(at).alias("weekday"), F.hour(at).alias("hour"))
        .agg(
            F.count_if(F.col("event") == "completed").alias("completed"),
            F.count_if(F.col("event") == "failed").alias("failed"),
        )
        .orderBy("queue", "weekday", "hour")
    )


def _diff(tables: ReportTables, asked: ReportQuery) -> Any:
    """What changed at a moment: the same numbers before and after it, side by side."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    at_ms, span_ms = diff_windows(tables, asked)
    if at_ms is None or span_ms is None:
        return tables.spark.createDataFrame([], ", ".join(f"{name} DOUBLE" for name in _DIFF_COLUMNS))
    near = tables.events.where((F.col("ms") >= at_ms - span_ms) & (F.col("ms") < at_ms + span_ms))
    ended = _with_name(near.where(F.col("event").isin("completed", "failed")))
    sides = {"before": F.col("ms") < at_ms, "after": F.col("ms") >= at_ms}
    counts = {
        f"{kind}_{label}": (F.col("event") == kind) & side
        for kind in ("completed", "failed")
        for label, side in sides.items()
    }
    runs = {f"run_us_{label}": F.when(side, F.col("duration_us")) for label, side in sides.items()}
    found = exact_percentiles(ended, ("queue", "name"), counts, runs, (0.95,), at_most=tables.count_events())
    before, after = F.col("run_us_before_p95"), F.col("run_us_after_p95")
    return (
        found.withColumn("run_ratio", F.when(before > 0, after / before))
        .withColumnsRenamed({f"run_us_{label}_p95": f"run_us_p95_{label}" for label in sides})
        .orderBy(F.desc_nulls_last("run_ratio"), "queue", "name")
    )


def diff_windows(tables: ReportTables, asked: ReportQuery) -> tuple[int | None, int | None]:
    """The moment and the length of both windows; by default the middle of what there is, and all of it."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    if asked.at_ms is not None and asked.span_ms is not None:
        return asked.at_ms, asked.span_ms
    [(first, last)] = tables.events.agg(F.min("ms"), F.max("ms")).collect()
    if first is None:
        return None, None
    at_ms = asked.at_ms if asked.at_ms is not None else (first + last) // 2
    return at_ms, asked.span_ms or max(1, at_ms - first, last + 1 - at_ms)


def _gaps(tables: ReportTables, _: ReportQuery) -> Any:
    """Where events are missing, and how many: trimmed before anybody read them."""
    return tables.events_and_gaps.where(is_gap("events")).orderBy("queue", "ms", "seq")


_PERCENTILE_COLUMNS = tuple(f"{name}_p{n}" for name in ("run_us", "wait_ms", "e2e_ms") for n in (50, 95, 99))
_DIFF_COLUMNS = (
    "queue", "name", "completed_before", "completed_after", "failed_before", "failed_after", "run_us_p95_before",
    "run_us_p95_after", "run_ratio",
)  # fmt: skip
REPORTS = {
    one.name: one
    for one in (
        ReportDefinition("throughput", "Throughput", ("queue", "at_ms", "completed", "failed", "retried", "dead"), _throughput),
        ReportDefinition("latency", "How long jobs take", ("queue", "name", "completed", "failed", *_PERCENTILE_COLUMNS), _latency),
        ReportDefinition("retries", "Retry funnel", ("queue", "attempt", "started", "completed", "failed", "dead"), _retries),
        ReportDefinition("failures", "Failure hot spots",
               ("queue", "name", "error", "failures", "jobs", "first_ms", "last_ms", "sample"), _failures),
        ReportDefinition("dead", "Dead letters by cause",
               ("queue", "reason", "name", "error", "letters", "first_ms", "last_ms", "sample_job_id"), _dead_letters),
        ReportDefinition("sla", "Too late", ("queue", "name", "completed", "breaches", "share", "worst_ms"), _deadline_misses),
        ReportDefinition("slowest", "Slowest runs", ("queue", "name", "job_id", "attempt", "event", "duration_us", "ms"), _slowest),
        ReportDefinition("timeline", "One job's way",
               ("queue", "ms", "since_ms", "event", "job_id", "name", "attempt", "duration_us", "backoff_ms", "reason"),
               _timeline),
        ReportDefinition("heatmap", "Hours and weekdays", ("queue", "weekday", "hour", "completed", "failed"), _heatmap),
        ReportDefinition("diff", "What changed", _DIFF_COLUMNS, _diff),
        ReportDefinition("gaps", "What is missing", ("queue", "stream_id", "ms", "reason", "lost"), _gaps),
    )
}  # fmt: skip
