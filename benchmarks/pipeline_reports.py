"""What a report costs from 1 M to 8 M events with a heap of 1 GB, and what others need for the same Parquet.

    python -m benchmarks.pipeline_reports [--millions 1 2 4 8] [--engines duckdb polars] [--at DIR] [--make]

The question is the same for all, `report latency`: counts, and exact percentiles of run, queue and end-to-end time by
queue and job name. Each engine runs in a process of its own, asks once cold and twice more, and must give the same
numbers; what a million costs Spark must not grow, nor its memory. --make only writes the archives to DIR, so that
measuring finds them there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.claims import Claims, proof

ROOT = Path(__file__).parents[1]
BEGIN_MS = 1_794_700_800_000
PART = 250_000
FLAT = 1.25
CONSTANT = 1.25
"""Java fills its heap before it cleans up, so it is the last doubling of the events that its memory must not show."""

# Each piece of code defines `ask()`: rows of queue, name, completed, failed and nine percentiles.
SPARK = """
from pathlib import Path
from chasqui.spark import spark_session, reports
from chasqui.spark.layout import Archive
from chasqui.spark.spark_session import SparkTarget
top = Path({top!r})
where = SparkTarget(top / 'cache', top / 'log', master='local[2,4]', heap='1g')
spark = spark_session.start_session(where)
def ask():
    return [tuple(row.values()) for row in reports.run_report(spark, Archive({place!r}), 'latency', reports.ReportQuery())]
"""
DUCKDB = """
import duckdb
def ask():
    rows = duckdb.sql('''
        SELECT queue, name, count_if(event = 'completed'), count_if(event = 'failed'),
          quantile_cont(CASE WHEN event IN ('completed', 'failed') THEN duration_us END, [0.5, 0.95, 0.99]),
          quantile_cont(CASE WHEN event = 'active' AND attempt = 1 THEN ts - created_ms END, [0.5, 0.95, 0.99]),
          quantile_cont(CASE WHEN event = 'completed' THEN ts - created_ms END, [0.5, 0.95, 0.99])
        FROM read_parquet('{place}/events/**/*.parquet', hive_partitioning=true) GROUP BY ALL ORDER BY ALL''')
    return [(*row[:4], *row[4], *row[5], *row[6]) for row in rows.fetchall()]
"""
POLARS = """
import polars as pl
def ask():
    event, age = pl.col('event'), pl.col('ts') - pl.col('created_ms')
    measures = [pl.col('duration_us').filter(event.is_in(['completed', 'failed'])),
        age.filter((event == 'active') & (pl.col('attempt') == 1)), age.filter(event == 'completed')]
    exact = [one.quantile(q, 'linear').alias(f'{{n}}{{q}}') for n, one in enumerate(measures) for q in (0.5, 0.95, 0.99)]
    counts = [(event == kind).sum().alias(kind) for kind in ('completed', 'failed')]
    rows = pl.scan_parquet('{place}/events', hive_partitioning=True).group_by('queue', 'name').agg(*counts, *exact)
    return rows.sort('queue', 'name').collect().rows()
"""
PANDAS = """
import pandas as pd
def ask():
    rows = pd.read_parquet('{place}/events', columns=['queue', 'name', 'event', 'attempt', 'duration_us', 'ts', 'created_ms'])
    age, by = rows.ts - rows.created_ms, [rows.queue.astype(str), rows.name]
    event = rows.event
    found = pd.DataFrame({{'completed': (event == 'completed').groupby(by).sum(), 'failed': (event == 'failed').groupby(by).sum()}})
    measures = [rows.duration_us.where(event.isin(['completed', 'failed'])),
        age.where((event == 'active') & (rows.attempt == 1)), age.where(event == 'completed')]
    for n, one in enumerate(measures):
        for q in (0.5, 0.95, 0.99):
            found[f'{{n}}{{q}}'] = one.groupby(by).quantile(q)
    return [tuple(one) for one in found.reset_index().itertuples(index=False)]
"""
METER = """
import json, time
def peak(pid):
    return next(int(line.split()[1]) // 1024 for line in open(f'/proc/{{pid}}/status') if line.startswith('VmHWM'))
rows, took = [], []
for _ in range(3):
    begun = time.monotonic()
    rows = ask()
    took.append(time.monotonic() - begun)
total, used = peak('self'), None
if 'spark' in globals():
    java = spark._jvm.java.lang
    total += peak(java.ProcessHandle.current().pid())
    used = java.Runtime.getRuntime().maxMemory() // 2**20
print(json.dumps({{'warm': min(took), 'peak': total, 'heap': used,
    'rows': [[str(row[0]), row[1], *map(float, row[2:])] for row in rows]}}))
"""
ENGINES = {"spark": SPARK, "duckdb": DUCKDB, "polars": POLARS, "pandas": PANDAS}


def make(place: Path, events: int, batches: int | None = None, span_ms: int = 86_400_000) -> None:
    """An archive of made-up events, written by pyarrow: this is about reading it.

    A few large batches, each of which spreads over the whole day; or this many, one after the other.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = np.random.default_rng(7)
    names = pa.array([f"job-{n}" for n in range(20)])
    kinds = pa.array(["active", "completed", "failed"])
    reasons = pa.array([f"no account {n}" for n in range(500)])
    in_turn = batches is not None
    parts = batches or max(1, events // PART)
    each = span_ms // parts if in_turn else span_ms
    for part, rows in enumerate(len(some) for some in np.array_split(np.empty(events), parts)):
        ms = BEGIN_MS + part * each * in_turn + np.sort(chance.integers(0, each, rows))
        kind = chance.choice(3, rows, p=[0.5, 0.48, 0.02])
        why = reasons.take(pa.array(chance.integers(0, 500, rows), mask=kind != 2))
        table = pa.table(
            {
                "stream_id": pa.array([f"{m}-{n}" for n, m in enumerate(ms.tolist())]), "ms": ms, "seq": np.arange(rows),
                "event": kinds.take(pa.array(kind)), "reason": why,
                "job_id": pa.array([f"job-{part}-{n}" for n in range(rows)]),
                "name": names.take(pa.array(chance.integers(0, 20, rows))),
                "attempt": pa.array(np.ones(rows, dtype=np.int32)),
                "duration_us": chance.lognormal(9, 1, rows).astype(np.int64), "ts": ms,
                "created_ms": ms - chance.integers(1, 30_000, rows),
            }
        )  # fmt: skip
        letters = table.filter(pa.array((kind == 2) & (chance.random(rows) < 0.2)))
        letters = letters.drop_columns(["event", "duration_us", "ts", "created_ms"])
        for name, rows in (("events", table), ("dlq", letters)):
            directory = place / name / "queue=made" / "dt=2026-11-15" / f"batch={part}"
            if len(rows):
                directory.mkdir(parents=True)
                pq.write_table(rows, directory / "part.parquet", compression="zstd")


def measured(engine: str, top: Path, place: Path) -> dict[str, Any]:
    """What a process of its own answered, how long all of it took, and how long the best of its asks."""
    code = (ENGINES[engine] + METER).format(top=str(top), place=str(place))
    begun = time.monotonic()
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | paths, check=False
    )
    if done.returncode:
        return {"fault": done.stderr.strip().splitlines()[-1][:80]}
    measured_times: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured_times | {"all": time.monotonic() - begun}


def same(one: list[list[Any]], other: list[list[Any]]) -> bool:
    """Whether two engines say the same, but for the last digits of a float."""
    return len(one) == len(other) and all(
        a == b if isinstance(a, str) else abs(a - b) <= 1e-9 * max(1.0, abs(a))
        for x, y in zip(one, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def judge(spark: dict[float, dict[str, Any]], claims: Claims) -> None:
    """What grows with the events, and must not."""
    sizes = sorted(spark)
    if len(sizes) < 2:
        return
    small, half, large = sizes[0], sizes[-2], sizes[-1]
    cost = {size: spark[size]["warm"] / size for size in sizes}
    claims.that(f"spark, seconds a million, {large:g} M ÷ {small:g} M", cost[large] / cost[small], "≤", FLAT)
    growth = spark[large]["peak"] / spark[half]["peak"]
    claims.that(f"spark, peak memory, {large:g} M ÷ {half:g} M", growth, "≤", CONSTANT)
    claims.that("spark, heap in MB", spark[large]["heap"], "≤", 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--at", type=Path)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as name:
        top = asked.at or Path(name)
        for millions in asked.millions:
            if not (top / f"{millions:g}").exists():
                make(top / f"{millions:g}", int(millions * 1_000_000))
        if not asked.make:
            with proof() as claims:
                compare(asked.millions, asked.engines, top, Path(name), claims)


def compare(sizes: list[float], engines: list[str], top: Path, scratch: Path, claims: Claims) -> None:
    print("| events | engine | seconds, three asks and start-up | s per M, warm | peak MB | same numbers |")
    print("| --- | --- | --: | --: | --: | --- |")
    spark: dict[float, dict[str, Any]] = {}
    for millions in sizes:
        size, first = f"{millions:g} M", None
        for engine in engines:
            measured_times = measured(engine, scratch, top / f"{millions:g}")
            if "fault" in measured_times:
                print(f"| {size} | {engine} | {measured_times['fault']} | | | |", flush=True)
                claims.that(f"{engine}, {size}", measured_times["fault"], "=", "the same numbers")
                continue
            first = measured_times["rows"] if first is None else first
            agreed = "yes" if same(first, measured_times["rows"]) else "NO"
            print(
                f"| {size} | {engine} | {measured_times['all']:.1f} | {measured_times['warm'] / millions:.2f} | {measured_times['peak']} | {agreed} |",
                flush=True,
            )
            claims.that(f"same numbers by {engine}, {size}", agreed, "=", "yes")
            if engine == "spark":
                spark[millions] = measured_times
    judge(spark, claims)


if __name__ == "__main__":
    main()
