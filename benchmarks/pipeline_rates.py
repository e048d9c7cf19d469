"""How fast, side by side in one run: reading beside a plain redis-py loop, producing beside the engine's own add_bulk.

python -m benchmarks.pipeline_rates [--events 2000000] [--jobs 500000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from chasqui.server.link import Link
from chasqui.spark import session
from chasqui.spark.session import Where
from chasqui.sync_queue import SyncQueue
from chasqui.wire.keys import Keys
from tests.servers import spawn
from tests.spark.scenes import ask, some_events

QUEUE = "rates"


def loop(url: str) -> int:
    """What one writes without a library: read on, page by page, into dicts."""
    client: Any = redis.Redis.from_url(url)
    count, after = 0, "-"
    while rows := client.xrange(Keys(QUEUE).events, after, "+", count=10_000):
        count += sum(1 for _, fields in rows if fields[b"e"])
        after = f"({rows[-1][0].decode()}"
    client.close()
    return count


def looped(url: str) -> Callable[[int], None]:
    def once(_: int) -> None:
        loop(url)

    return once


def best(rounds: int, count: int, work: Callable[[int], None]) -> float:
    """The best rate of some rounds: the machine is shared, and only what is possible says anything."""
    rates = []
    for number in range(rounds):
        begun = time.monotonic()
        work(number)
        rates.append(count / (time.monotonic() - begun))
    return max(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--jobs", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top, spawn("redis-8.6") as server:
        where = Where(Path(top) / "cache", Path(top) / "log", master="local[2,4]", heap="1g")
        url = f"unix://{server.socket}"
        with Link.open(url) as link, session.opened(where) as spark:
            for first in range(0, asked.events, 100_000):
                some_events(link, QUEUE, min(100_000, asked.events - first), first=first)

            def read(_: int) -> None:
                rows = spark.read.format("chasqui").option("redis.url", url).option("subscribe", QUEUE).load()
                assert rows.selectExpr("count(event)").first()[0] == asked.events

            def produce(idempotence: str) -> Callable[[int], None]:
                def once(number: int) -> None:
                    rows = spark.range(0, asked.jobs, 1, 4).selectExpr(
                        "concat('job-', id) AS job_id",
                        "struct(id AS i, 'ada@example.com' AS to) AS data",
                        "'mail' AS name",
                    )
                    writer = rows.write.format("chasqui").mode("append").option("redis.url", url)
                    writer = writer.option("maxBacklog", 10 * asked.jobs).option("idempotence", idempotence)
                    writer.option("queue", f"{idempotence}-{number}").option("runId", "r").save()
                    assert ask(link, "XLEN", Keys(f"{idempotence}-{number}").stream) == asked.jobs

                return once

            def own(number: int) -> None:
                with SyncQueue(f"own-{number}", redis_url=url, max_stream_len=10 * asked.jobs) as queue:
                    for first in range(0, asked.jobs, 10_000):
                        queue.add_bulk(
                            [
                                {"name": "mail", "data": {"i": n, "to": "ada@example.com"}}
                                for n in range(first, first + 10_000)
                            ]
                        )

            read(0)
            rates: dict[str, Any] = {
                "spark read": best(asked.rounds, asked.events, read),
                "redis-py loop": best(1, asked.events, looped(url)),
                "add_bulk": best(asked.rounds, asked.jobs, own),
                "spark rows": best(asked.rounds, asked.jobs, produce("rows")),
                "spark chunks": best(asked.rounds, asked.jobs, produce("chunks")),
            }
    for name, rate in rates.items():
        print(f"{name:<14} {rate / 1000:8.0f} k/s", flush=True)
    print(f"read ÷ loop             {rates['spark read'] / rates['redis-py loop']:.2f}  (goal ≥ 2)")
    print(f"produce rows ÷ bulk     {rates['spark rows'] / rates['add_bulk']:.2f}  (goal ≥ 1.5)")
    print(f"produce chunks ÷ bulk   {rates['spark chunks'] / rates['add_bulk']:.2f}")


if __name__ == "__main__":
    main()
