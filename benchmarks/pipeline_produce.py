"""A million jobs out of Spark: tasks that fail half-way, two attempts at once, a full second run; a bounded backlog
next to a live producer; then workers of both engines run a sample.

    python -m benchmarks.pipeline_produce [--jobs 1000000] [--sample 500] [--backlog 20000] [--only bounded]
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.claims import Claims, proof
from chasqui.server.link import Link
from chasqui.spark import bulk_jobs, spark_session
from chasqui.spark.spark_session import SparkTarget
from chasqui.sync_queue import SyncQueue
from chasqui.wire import envelope
from chasqui.wire.keys import Keys
from tests.support.faults.run_ledger import RunLedger
from tests.support.processes.engines import Engine, wait_until
from tests.support.seeds.event_history import run_flow
from tests.support.servers.server import start_server

QUEUE = "million"
BOUNDED = "bounded"
TASKS = 4


def rows_of(spark: Any, jobs: int) -> Any:
    return spark.range(0, jobs, 1, TASKS).selectExpr(
        "concat('job-', id) AS job_id", "struct(id AS n, 'ada@example.com' AS to) AS data", "'mail' AS name"
    )


def failing(place: Path, batches: Iterator[Any]) -> Iterator[Any]:
    """The first attempt of every task dies after some ten thousand rows, and leaves a mark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    for number, batch in enumerate(batches):
        yield batch
        if context is not None and context.attemptNumber() == 0 and number == 1:
            (place / f"failed-{context.partitionId()}").touch()
            raise RuntimeError("an injected failure")


def load_and_fail(spark: Any, queue: str, jobs: int, reach: dict[str, str], claims: Claims) -> None:
    rows = rows_of(spark, jobs)
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as place:
        marked = partial(failing, Path(place))
        bulk_jobs.write_jobs(rows.mapInArrow(marked, rows.schema), queue, "load", reach)
        failed = len(list(Path(place).iterdir()))
    claims.that(f"tasks that failed half-way, {queue}", failed, "=", TASKS)


def distinct(link: Link, queue: str) -> tuple[int, int]:
    """Entries, and different ids among them."""
    seen: set[str] = set()
    entries, after = 0, "-"
    while rows := run_flow(link, "XRANGE", Keys(queue).stream, after, "+", "COUNT", 20_000):
        entries += len(rows)
        seen.update(envelope.decode(fields[1]).id for _, fields in rows)
        after = f"({rows[-1][0].decode()}"
    return entries, len(seen)


def run_by(engine: Engine, url: str, queue: str, jobs: int, place: Path) -> int:
    """How many different jobs a worker of this engine completes."""
    ledger = RunLedger(place)
    with engine.worker(queue, url, place, concurrency=50):
        wait_until(lambda: len(ledger.completions()) >= jobs, f"{jobs} jobs are done", 120)
    return len(ledger.completions())


def drain(url: str, over: Any, results: Any) -> None:
    """As fast as a busy worker, and no faster: jobs leave in the order they came, and each id is written down."""
    seen: Counter[bool] = Counter()
    different: set[str] = set()
    key = Keys(BOUNDED).stream
    with Link.open(url) as link:
        while not (over.is_set() and run_flow(link, "XLEN", key) == 0):
            entries = run_flow(link, "XRANGE", key, "-", "+", "COUNT", 2000)
            if entries:
                run_flow(link, "XDEL", key, *(entry_id for entry_id, _ in entries))
            loaded = [job for _, fields in entries if (job := envelope.decode(fields[1]).id).startswith("job-")]
            seen.update({True: len(loaded), False: len(entries) - len(loaded)})
            different.update(loaded)
            time.sleep(0.02)
    results.put((seen[True], len(different), seen[False]))


def produce_live(url: str, over: Any, results: Any) -> None:
    """Another producer's jobs, some five hundred a second, whatever the backlog."""
    count = 0
    with SyncQueue(BOUNDED, redis_url=url, max_stream_len=0) as queue:
        while not over.wait(0.02):
            queue.add_bulk({"name": "live", "data": {"n": n}} for n in range(10))
            count += 10
    results.put(count)


def watch(url: str, over: Any, results: Any) -> None:
    """The depth of the stream, asked again and again."""
    depths: list[int] = []
    with Link.open(url) as link:
        while not over.is_set():
            depths.append(run_flow(link, "XLEN", Keys(BOUNDED).stream))
            time.sleep(0.001)
    results.put((len(depths), max(depths)))


def bounded(spark: Any, url: str, jobs: int, backlog: int, claims: Claims) -> None:
    """The load with failing tasks again, into a queue with a cap, while three others work on it."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    ears = {work: context.SimpleQueue() for work in (drain, produce_live, watch)}
    processes = [context.Process(target=work, args=(url, over, ear)) for work, ear in ears.items()]
    for process in processes:
        process.start()
    begun = time.monotonic()
    try:
        load_and_fail(spark, BOUNDED, jobs, {"redis.url": url, "maxBacklog": str(backlog)}, claims)
        took = time.monotonic() - begun
    finally:
        over.set()
    (loaded, different, others), live, (looks, deepest) = (ear.get() for ear in ears.values())
    for process in processes:
        process.join()
    print(f"bounded backlog:   {took:.1f} s, {looks} looks", flush=True)
    claims.that("jobs, bounded backlog", loaded, "=", jobs)
    claims.that("different ids, bounded backlog", different, "=", jobs)
    claims.that("jobs of the live producer, bounded backlog", others, "=", live)
    claims.that("looks at XLEN, bounded backlog", looks, ">", 100)
    claims.that("XLEN at every look, bounded backlog", deepest, "≤", backlog)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--backlog", type=int, default=20_000)
    parser.add_argument("--only", choices=["bounded"])
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top,
        proof() as claims,
        start_server("redis-8.6", tcp=True) as server,
    ):
        fair = {"spark.scheduler.mode": "FAIR"}  # a core for each of two attempts, not one after the other
        where = SparkTarget(Path(top) / "cache", Path(top) / "log", master="local[2,4]", conf=fair)
        with Link.open(server.url) as link, spark_session.open_session(where) as spark:
            if not asked.only:
                with claims.part("exactly once"):
                    exactly_once(spark, link, server.url, asked.jobs, claims)
                with claims.part("run by both engines"):
                    run_by_both(spark, link, server.url, asked.sample, Path(top), claims)
            with claims.part("bounded backlog"):
                bounded(spark, server.url, asked.jobs, asked.backlog, claims)


def counted(link: Link, queue: str, jobs: int, label: str, claims: Claims) -> None:
    entries, different = distinct(link, queue)
    print(f"{label}: {entries} entries, {different} ids", flush=True)
    claims.that(f"entries, {label}", entries, "=", jobs)
    claims.that(f"different ids, {label}", different, "=", jobs)


def exactly_once(spark: Any, link: Link, url: str, jobs: int, claims: Claims) -> None:
    """Through failures, again, and twice at the same time."""
    reach = {"redis.url": url, "maxBacklog": str(2 * jobs)}
    load_and_fail(spark, QUEUE, jobs, reach, claims)
    counted(link, QUEUE, jobs, "injected failures", claims)
    bulk_jobs.write_jobs(rows_of(spark, jobs), QUEUE, "load", reach)
    counted(link, QUEUE, jobs, "full second run", claims)

    def attempt(pool: str) -> None:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        bulk_jobs.write_jobs(rows_of(spark, jobs), f"{QUEUE}-2", "load", reach)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(attempt, ("one", "other")))
    counted(link, f"{QUEUE}-2", jobs, "two at once", claims)


def run_by_both(spark: Any, link: Link, url: str, sample: int, top: Path, claims: Claims) -> None:
    """Jobs that Spark wrote are jobs to either engine."""
    for engine in (Engine.reference(), Engine.ours()):
        queue = f"sample-{engine.package}"
        bulk_jobs.write_jobs(rows_of(spark, sample), queue, "load", {"redis.url": url})
        done = run_by(engine, url, queue, sample, top / engine.package)
        claims.that(f"jobs run by {engine.package}", done, "=", sample)
        claims.that(f"dead letters of {engine.package}", run_flow(link, "XLEN", Keys(queue).dlq), "=", 0)


if __name__ == "__main__":
    main()
