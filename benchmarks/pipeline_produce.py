"""A million jobs out of Spark: tasks that fail half-way, two attempts at once, a full second run; then workers run them.

python -m benchmarks.pipeline_produce [--jobs 1000000] [--sample 500]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chasqui.server.link import Link
from chasqui.spark import bulk, session
from chasqui.spark.session import Where
from chasqui.wire import envelope
from chasqui.wire.keys import Keys
from tests.engines import Engine, await_that
from tests.ledger import Ledger
from tests.servers import spawn
from tests.spark.scenes import ask

QUEUE = "million"


def rows_of(spark: Any, jobs: int) -> Any:
    return spark.range(0, jobs, 1, 4).selectExpr(
        "concat('job-', id) AS job_id", "struct(id AS n, 'ada@example.com' AS to) AS data", "'mail' AS name"
    )


def failing(batches: Iterator[Any]) -> Iterator[Any]:
    """The first attempt of every task dies after some ten thousand rows."""
    from pyspark import TaskContext

    context = TaskContext.get()
    for number, batch in enumerate(batches):
        yield batch
        if context is not None and context.attemptNumber() == 0 and number == 3:
            raise RuntimeError("an injected failure")


def distinct(link: Link, queue: str) -> tuple[int, int]:
    """Entries, and different ids among them."""
    seen: set[str] = set()
    entries, after = 0, "-"
    while rows := ask(link, "XRANGE", Keys(queue).stream, after, "+", "COUNT", 20_000):
        entries += len(rows)
        seen.update(envelope.decode(fields[1]).id for _, fields in rows)
        after = f"({rows[-1][0].decode()}"
    return entries, len(seen)


def run_by(engine: Engine, url: str, queue: str, jobs: int, place: Path) -> int:
    """How many different jobs a worker of this engine completes."""
    ledger = Ledger(place)
    with engine.worker(queue, url, place, concurrency=50):
        await_that(lambda: len(ledger.completions()) >= jobs, f"{jobs} jobs are done", 120)
    return len(ledger.completions())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top, spawn("redis-8.6", tcp=True) as server:
        where = Where(Path(top) / "cache", Path(top) / "log", master="local[2,4]")
        reach = {"redis.url": server.url, "maxBacklog": str(2 * asked.jobs)}
        with Link.open(server.url) as link, session.opened(where) as spark:
            rows = rows_of(spark, asked.jobs)
            begun = time.monotonic()
            bulk.write(rows.mapInArrow(failing, rows.schema), QUEUE, "load", reach)
            print(
                "injected failures:", distinct(link, QUEUE), f"{time.monotonic() - begun:.1f} s", flush=True
            )
            bulk.write(rows_of(spark, asked.jobs), QUEUE, "load", reach)
            print("full second run:  ", distinct(link, QUEUE), flush=True)
            threads = [
                threading.Thread(
                    target=bulk.write, args=(rows_of(spark, asked.jobs), f"{QUEUE}-2", "load", reach)
                )
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print("two at once:      ", distinct(link, f"{QUEUE}-2"), flush=True)
            for engine in (Engine.reference(), Engine.ours()):
                queue = f"sample-{engine.package}"
                bulk.write(rows_of(spark, asked.sample), queue, "load", reach)
                done = run_by(engine, server.url, queue, asked.sample, Path(top) / engine.package)
                dead = ask(link, "XLEN", Keys(queue).dlq)
                print(f"run by {engine.package}: {done} of {asked.sample}, {dead} dead", flush=True)


if __name__ == "__main__":
    main()
