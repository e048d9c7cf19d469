"""How fast, side by side in one run: reading next to a plain redis-py loop, producing next to the engine's own add_bulk.

python -m benchmarks.pipeline_rates [--events 2000000] [--jobs 3000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import redis

from benchmarks.claims import Claims, proof
from chasqui.server.link import Link
from chasqui.spark import spark_session
from chasqui.spark.spark_session import SparkTarget
from chasqui.sync_queue import SyncQueue
from chasqui.wire.keys import Keys
from tests.support.seeds.event_history import numbered_events, run_flow
from tests.support.servers.server import start_server

QUEUE = "rates"
READ_GOAL = 2
WRITE_GOALS = {"chunks 1000": 1.5}
"""`rows`, the default, is measured next to them without a goal: the server looks up and stores every id."""


def loop(url: str) -> int:
    """What one writes without a library: read on, page by page, into dicts."""
    client: Any = redis.Redis.from_url(url)
    count, after = 0, "-"
    while rows := client.xrange(Keys(QUEUE).events, after, "+", count=10_000):
        count += sum(1 for _, fields in rows if fields[b"e"])
        after = f"({rows[-1][0].decode()}"
    client.close()
    return count


def spark_read(spark: Any, url: str) -> int:
    rows = spark.read.format("chasqui").option("redis.url", url).option("subscribe", QUEUE).load()
    found: int = rows.selectExpr("count(event)").first()[0]
    return found


def own(url: str, jobs: int, queue: str) -> int:
    """The engine alone: one process, ten thousand jobs a call."""
    with SyncQueue(queue, redis_url=url, max_stream_len=10 * jobs) as producer:
        for first in range(0, jobs, 10_000):
            producer.add_bulk(
                {"name": "mail", "data": {"i": n, "to": "ada@example.com"}} for n in range(first, first + 10_000)
            )
    return jobs


def spark_write(spark: Any, url: str, jobs: int, idempotence: str, pipeline: int, queue: str) -> int:
    rows = spark.range(0, jobs, 1, 2).selectExpr(
        "concat('job-', id) AS job_id", "struct(id AS i, 'ada@example.com' AS to) AS data", "'mail' AS name"
    )
    writer = rows.write.format("chasqui").mode("append").option("redis.url", url).option("runId", "r")
    writer = writer.option("maxBacklog", 10 * jobs).option("pipelineSize", pipeline)
    writer.option("idempotence", idempotence).option("queue", queue).save()
    return jobs


def in_turns(
    rounds: int,
    contenders: Mapping[str, Callable[[str], int]],
    after: Callable[[str, int], None] | None = None,
) -> dict[str, float]:
    """Rows a second of each, median of some rounds, one after the other in each: the machine changes its mind.

    What must be done `after` each is done before the next begins, and no clock runs.
    """
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, work in contenders.items():
            queue = f"{name}-{number}".replace(" ", "-")
            begun = time.monotonic()
            count = work(queue)
            rates[name].append(count / (time.monotonic() - begun))
            if after:
                after(queue, count)
    for name, found in rates.items():
        print(f"{name:<20} {' '.join(f'{rate / 1000:6.0f}' for rate in found)}  k/s", flush=True)
    return {name: statistics.median(found) for name, found in rates.items()}


def count_and_clear(link: Link, claims: Claims, queue: str, count: int) -> None:
    """Every job is there, and then none: a server that is full, or still emptying, would slow the next one."""
    claims.that(f"jobs of {queue}", run_flow(link, "XLEN", Keys(queue).stream), "=", count)
    run_flow(link, "FLUSHALL", "SYNC")


def reading(spark: Any, link: Link, url: str, events: int, rounds: int, claims: Claims) -> None:
    for first in range(0, events, 100_000):
        numbered_events(link, QUEUE, min(100_000, events - first), first=first)
    for name, count in (
        ("spark", spark_read(spark, url)),
        ("the loop", loop(url)),
    ):  # Java is slow while it is cold
        claims.that(f"events read by {name}", count, "=", events)
    rates = in_turns(rounds, {"redis-py loop": lambda _: loop(url), "spark read": lambda _: spark_read(spark, url)})
    claims.that("reading ÷ redis-py loop", rates["spark read"] / rates["redis-py loop"], "≥", READ_GOAL)


def writing(spark: Any, link: Link, url: str, jobs: int, rounds: int, claims: Claims) -> None:
    kinds = [("rows", 1000), ("chunks", 1000), ("chunks", 500)]
    tidy = partial(count_and_clear, link, claims)
    run_flow(link, "FLUSHALL", "SYNC")
    for kind, size in kinds:  # a round that does not count: Java is slow while it is cold
        name = f"warm-{kind}-{size}"
        tidy(name, spark_write(spark, url, jobs, kind, size, name))
    contenders = {"add_bulk": partial(own, url, jobs)} | {
        f"{kind} {size}": partial(spark_write, spark, url, jobs, kind, size) for kind, size in kinds
    }
    rates = in_turns(rounds, contenders, tidy)
    for name, rate in rates.items():
        ratio = rate / rates["add_bulk"]
        print(f"{name:<12} ÷ add_bulk  {ratio:.2f}", flush=True)
        if name in WRITE_GOALS:
            claims.that(f"producing, {name} ÷ add_bulk", ratio, "≥", WRITE_GOALS[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--jobs", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top,
        proof() as claims,
        start_server("redis-8.6") as server,
    ):
        where = SparkTarget(Path(top) / "cache", Path(top) / "log", master="local[2,4]", heap="1g")
        url = f"unix://{server.socket}"
        with Link.open(url) as link, spark_session.open_session(where) as spark:
            if asked.events:
                with claims.part("reading"):
                    reading(spark, link, url, asked.events, asked.rounds, claims)
            if asked.jobs:
                with claims.part("writing"):
                    writing(spark, link, url, asked.jobs, asked.rounds, claims)


if __name__ == "__main__":
    main()
