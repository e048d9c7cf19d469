"""The archive under fire: killed again and again in the middle of batches, and next to streams that are trimmed live.

    python -m benchmarks.pipeline_archive [--events 2000000] [--kills 10] [--rate 15200] [--seconds 60] [--only live]

The archive runs as a user runs it, in processes of its own; what it left is then read by Spark and by pyarrow (and by
duckdb, where installed), and compared with what was added. Of the two live streams the archive must follow the first
without a loss; the second is trimmed so short that it cannot, and what it lost must be written down to the digit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.claims import Claims, proof
from chasqui.server.flow import Call, Flow
from chasqui.server.link import Link
from chasqui.spark import spark_session
from chasqui.spark.archiver import newest_totals, totals_up_to
from chasqui.spark.layout import Archive
from chasqui.spark.spark_session import SparkTarget
from chasqui.wire.keys import Keys
from tests.support.seeds.event_history import numbered_events
from tests.support.servers.server import Server, start_server

ROOT = Path(__file__).parents[1]
QUEUE = "fire"
REFERENCE_LENGTH = 100_000
"""What the reference trims its streams to."""
SHORT_LENGTH = 10_000
PATIENCE_S = 120


def start(url: str, place: Path, *more: str) -> subprocess.Popen[bytes]:
    """The archive as a user starts it, with all its processes in a session of their own."""
    words = [sys.executable, "-m", "chasqui_cli", "pipeline", "archive", QUEUE, "-u", url, "--archive", str(place)]  # fmt: skip
    words += ["--master", "local[2,4]", "--heap", "1g", "-o", "json", *more]
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}", "HOME": str(place.parent)}
    return subprocess.Popen(words, env=os.environ | paths, start_new_session=True, stdout=subprocess.PIPE)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Java and Python alike, without a word."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def fill(link: Link, first: int, events: int) -> None:
    """Events, numbered, up to this number."""
    for some in range(first, events, 100_000):
        numbered_events(link, QUEUE, min(100_000, events - some), first=some)


def batches(place: Path) -> int:
    """The newest batch that was accounted for."""
    newest = newest_totals(Archive(str(place)), "events")
    return -1 if newest is None else newest.batch


def inside_a_batch(place: Path, after: int) -> bool:
    """Whether the archive is past this batch, and in the middle of one: planned, and not accounted for."""
    log = place / "_checkpoints" / "events" / "offsets"
    planned = max((int(path.name) for path in log.glob("[0-9]*")), default=-1)
    return after <= batches(place) < planned


def come_true(process: subprocess.Popen[bytes], holds: Callable[[], bool]) -> bool:
    """Whether it did while the process ran."""
    while process.poll() is None:
        if holds():
            return True
        time.sleep(0.01)
    return False


def killed_again_and_again(server: Server, place: Path, events: int, kills: int, claims: Claims) -> None:
    """Every process finishes a batch or two and dies in the middle of the next; then one may end."""
    chance, inside, clock = random.Random(3), 0, time.monotonic()
    size = str(max(1000, events // (5 * kills)))  # large enough that none of the kills comes too late
    while inside < kills:
        process = start(server.url, place, "--once", "--batch", size)
        there = partial(inside_a_batch, place, batches(place) + chance.choice((1, 2)))
        if come_true(process, there):
            time.sleep(chance.uniform(0.0, 0.3))
        if not come_true(process, there):
            break
        kill(process)
        inside += there()
        print(f"  killed {inside} times inside a batch, now after batch {batches(place)}", flush=True)
    last = start(server.url, place, "--once", "--batch", size)
    last.communicate()
    print(
        f"  done after {time.monotonic() - clock:.0f} s, in {batches(place) + 1} batches of {size}",
        flush=True,
    )
    claims.that("kills inside a batch", inside, "=", kills)
    claims.that("exit after the kills", last.returncode, "=", 0)
    for reader, (rows, different) in views(place).items():
        claims.that(f"rows after the kills, by {reader}", rows, "=", events)
        claims.that(f"different ids after the kills, by {reader}", different, "=", events)
    empty = sum(path.stat().st_size == 0 for path in (place / "events").glob("**/*.parquet"))
    claims.that("empty files after the kills", empty, "=", 0)


def views(place: Path) -> dict[str, tuple[int, int]]:
    """Rows and different ids on disk, counted with whatever can read it."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    ids = ds.dataset(place / "events", partitioning="hive").to_table(columns=["job_id"])["job_id"]
    found = {"pyarrow": (len(ids), pc.count_distinct(ids).as_py())}
    try:
        import duckdb

        sql = f"SELECT count(*), count(DISTINCT job_id) FROM '{place}/events/**/*.parquet'"
        [found["duckdb"]] = duckdb.sql(sql).fetchall()
    except ImportError:
        pass
    with spark_session.open_session(
        SparkTarget(place.parent / "cache", place.parent / "log", master="local[2,4]")
    ) as spark:
        rows = spark.read.parquet(str(place / "events"))
        found["spark"] = tuple(rows.selectExpr("count(*)", "count(distinct job_id)").first())
    return found


def paced(link: Link, rate: int, seconds: float, length: int) -> int:
    """Events at a steady rate into a stream that is trimmed as the reference trims it; answers how many."""
    key, sent, clock = Keys(QUEUE).events, 0, time.monotonic()

    def some(numbers: Sequence[int]) -> Flow[None]:
        yield [
            Call(("XADD", key, "MAXLEN", "~", length, "*", "e", "completed", "id", f"job-{n}", "ts", n, "n", "mail",
                  "attempt", 1, "duration_us", n), keys=(key,))
            for n in numbers
        ]  # fmt: skip

    while (elapsed := time.monotonic() - clock) < seconds:
        due = 1 + int(elapsed * rate)
        if due > sent:
            link.run(some(range(1 + sent, 1 + due)))
            sent = due
        time.sleep(0.02)
    return sent


def live(
    server: Server, place: Path, rate: int, seconds: float, length: int, *more: str, early: bool = False
) -> dict[str, Any]:
    """The archive of a stream that is filled and trimmed; what was added, and what the archive made of it.

    early: the stream is busy already when the archive is begun; what was trimmed before that is none of its business.
    """
    accounted = Archive(str(place))
    with Link.open(server.url) as link, ThreadPoolExecutor(1) as producer:
        numbered_events(link, QUEUE, 1)
        added_by = producer.submit(paced, link, rate, seconds, length) if early else None
        process = start(server.url, place, *more)
        try:
            if not come_true(process, lambda: batches(place) >= 0):
                raise RuntimeError(f"the archive ended by itself: {process.returncode}")
            added = 1 + (added_by.result() if added_by else paced(link, rate, seconds, length))
            added -= beginning(place)
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline and process.poll() is None:
                so_far = totals_up_to(accounted, "events", batches(place))
                if so_far["rows"] + so_far["lost"] >= added:
                    break
                time.sleep(0.2)
        finally:
            process.terminate()
            out, _ = process.communicate()
    return {"added": added, "exit": process.returncode, "told": json.loads(out), **on_disk(place)}


def beginning(place: Path) -> int:
    """How many events were gone already when the archive began."""
    log = place / "_checkpoints" / "events" / "offsets" / "0"
    begun: int = json.loads(log.read_text().splitlines()[2])[QUEUE]["from"]["n"]
    return begun


def on_disk(place: Path) -> dict[str, int]:
    """Events, different ones, and the losses that gap rows stand for, as read without Spark."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    columns = ["event", "job_id", "lost"]
    rows = ds.dataset(place / "events", partitioning="hive").to_table(columns=columns)
    is_gap = pc.equal(rows["event"], "chasqui.gap")
    events, gaps = rows.filter(pc.invert(is_gap)), rows.filter(is_gap)
    return {
        "archived": len(events), "different": pc.count_distinct(events["job_id"]).as_py(), "gaps": len(gaps),
        "lost": pc.sum(gaps["lost"]).as_py() or 0,
    }  # fmt: skip


def add_up(label: str, found: dict[str, Any], claims: Claims) -> None:
    """What holds whether something was lost or not."""
    print(f"  {label}: {found}", flush=True)
    reported = (found["told"]["events"], found["told"]["lost"])
    claims.that(f"archived + recorded lost, {label}", found["archived"] + found["lost"], "=", found["added"])
    claims.that(f"different ids, {label}", found["different"], "=", found["archived"])
    claims.that(f"archived and lost as the command reports, {label}", reported, "=", (found["archived"], found["lost"]))
    claims.that(f"exit, {label}", found["exit"], "=", 3 if found["lost"] else 0)


def followed(server: Server, place: Path, rate: int, seconds: float, claims: Claims) -> None:
    found = live(server, place, rate, seconds, REFERENCE_LENGTH)
    add_up("live", found, claims)
    claims.that("events a second, live", found["added"] / seconds, "≥", 0.987 * rate)
    claims.that("lost, live", found["lost"], "=", 0)


def overtaken(server: Server, place: Path, rate: int, seconds: float, claims: Claims) -> None:
    """Java is cold, and what a batch was planned to read is trimmed before it can be, and while it is; the first one too."""
    found = live(server, place, rate, seconds, SHORT_LENGTH, "--warm-up", "0s", early=True)
    add_up("trimmed short", found, claims)
    claims.that("lost, trimmed short", found["lost"], ">", 0)
    claims.that("gaps, trimmed short", found["gaps"], ">", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rate", type=int, default=15_200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", choices=["kills", "live", "short"])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top, proof() as claims:
        place = Path(top)
        if asked.only in (None, "kills"):
            with claims.part("kills"), start_server("redis-8.6") as server, Link.open(server.url) as link:
                fill(link, 0, asked.events)
                killed_again_and_again(server, place / "kills", asked.events, asked.kills, claims)
        if asked.only in (None, "live"):
            with claims.part("live"), start_server("redis-8.6") as server:
                followed(server, place / "live", asked.rate, asked.seconds, claims)
        if asked.only in (None, "short"):
            with claims.part("trimmed short"), start_server("redis-8.6") as server:
                overtaken(server, place / "short", asked.rate, asked.seconds / 2, claims)


if __name__ == "__main__":
    main()
