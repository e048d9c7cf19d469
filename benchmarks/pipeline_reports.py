"""What a report costs from 1 M to 8 M events with a heap of 1 GB, and what others need for the same Parquet.

    python -m benchmarks.pipeline_reports [--millions 1 2 4 8]

The question is the same for all: runs by queue and name with median, 95th and 99th percentile of their length. duckdb,
polars and pandas take part where they are installed; each runs in a process of its own, start-up included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

SPARK = """
from pathlib import Path; import time
from chasqui.spark import session, reports
from chasqui.spark.layout import Archive
from chasqui.spark.session import Where
top = Path({top!r})
with session.opened(Where(top / 'cache', top / 'log', master='local[2,4]', heap='1g')) as spark:
    for _ in range(2):
        begun = time.monotonic()
        rows = reports.report(spark, Archive({place!r}), 'latency', reports.Question())
        took = time.monotonic() - begun
    print(len(rows), round(took, 2))
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    peak = [line for line in open(f'/proc/{{pid}}/status') if line.startswith('VmHWM')]
    print(int(peak[0].split()[1]) // 1024)
"""
DUCKDB = """
import duckdb
print(len(duckdb.sql("SELECT queue, name, count(*), quantile_cont(duration_us, [0.5, 0.95, 0.99]) FROM "
  "read_parquet('{place}/events/**/*.parquet', hive_partitioning=true) WHERE event IN ('completed', 'failed') "
  "GROUP BY ALL").fetchall()))
"""
POLARS = """
import polars as pl
rows = pl.scan_parquet('{place}/events/**/*.parquet').filter(pl.col('event').is_in(['completed', 'failed']))
print(rows.group_by('queue', 'name').agg(pl.len(), *[pl.col('duration_us').quantile(q, 'linear').alias(str(q))
  for q in (0.5, 0.95, 0.99)]).collect().height)
"""
PANDAS = """
import pandas as pd
rows = pd.read_parquet('{place}/events', columns=['queue', 'name', 'event', 'duration_us'])
rows = rows[rows.event.isin(['completed', 'failed'])]
print(len(rows.groupby(['queue', 'name'], observed=True).duration_us.quantile([0.5, 0.95, 0.99])) // 3)
"""


def make(place: Path, millions: int) -> None:
    """An archive of made-up events, written by pyarrow: this is about reading it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = np.random.default_rng(7)
    names = pa.array([f"job-{n}" for n in range(20)])
    for part in range(millions * 4):
        size = 250_000
        kind = pa.array(["active", "completed", "failed"]).take(
            pa.array(chance.choice(3, size, p=[0.5, 0.48, 0.02]))
        )
        ms = 1_794_700_800_000 + np.sort(chance.integers(0, 86_400_000, size))
        table = pa.table(
            {
                "stream_id": pa.array([f"{m}-{n}" for n, m in enumerate(ms.tolist())]), "ms": ms,
                "seq": np.arange(size), "event": kind,
                "job_id": pa.array([f"job-{part}-{n}" for n in range(size)]),
                "name": names.take(pa.array(chance.integers(0, 20, size))),
                "attempt": pa.array(np.ones(size, dtype=np.int32)),
                "duration_us": chance.lognormal(9, 1, size).astype(np.int64), "ts": ms,
                "created_ms": ms - chance.integers(1, 30_000, size),
            }
        )  # fmt: skip
        directory = place / "events" / "queue=made" / "dt=2026-11-15" / f"batch={part}"
        directory.mkdir(parents=True)
        pq.write_table(table, directory / "part.parquet", compression="zstd")


def measured(code: str) -> tuple[str, float, int]:
    """What a process of its own said, how long it took, and the memory it had at most, in MB."""
    begun = time.monotonic()
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}"}
    meter = "\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    done = subprocess.run(
        [sys.executable, "-c", code + meter], capture_output=True, text=True, env=os.environ | paths
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][:60], 0.0, 0
    *said, mine = done.stdout.split("\n")[:-1]
    return " ".join(said), time.monotonic() - begun, int(mine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 2, 4, 8])
    asked = parser.parse_args()
    print(
        "| events | engine | seconds, start-up included | warm | peak MB |\n| --- | --- | --: | --: | --: |"
    )
    for millions in asked.millions:
        with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top:
            place = Path(top) / "archive"
            make(place, millions)
            for engine, code in (
                ("spark", SPARK),
                ("duckdb", DUCKDB),
                ("polars", POLARS),
                ("pandas", PANDAS),
            ):
                said, took, peak = measured(code.format(top=top, place=str(place)))
                words = said.split()
                warm = words[1] if engine == "spark" and len(words) > 2 else ""
                most = words[2] if warm else peak
                print(f"| {millions} M | {engine} | {took:.1f} | {warm} | {most} |", flush=True)


if __name__ == "__main__":
    main()
