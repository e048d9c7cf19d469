"""The archive under fire: killed again and again in the middle of batches, and beside a stream that is trimmed live.

    python -m benchmarks.pipeline_archive [--events 2000000] [--kills 10] [--rate 15000] [--seconds 60]

The archive runs as a user runs it, in processes of its own; what it left is then read by Spark and by pyarrow (and by
duckdb, where installed), and compared with what was added.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chasqui.server.call import Call, Flow
from chasqui.server.link import Link
from chasqui.spark import session
from chasqui.spark.archive import account_of, latest
from chasqui.spark.layout import Archive
from chasqui.spark.session import Where
from chasqui.wire.keys import Keys
from tests.servers import Server, spawn
from tests.spark.scenes import some_events

ROOT = Path(__file__).parents[1]
QUEUE = "fire"
BATCH = 100_000


def start(url: str, place: Path, *more: str) -> subprocess.Popen[bytes]:
    words = [
        sys.executable,
        "-m",
        "chasqui_cli",
        "pipeline",
        "archive",
        QUEUE,
        "-u",
        url,
        "--archive",
        str(place),
    ]
    words += ["--batch", str(BATCH), "--master", "local[2,4]", "-o", "json", *more]
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}", "HOME": str(place.parent)}
    return subprocess.Popen(words, env=os.environ | paths, start_new_session=True, stdout=subprocess.PIPE)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Java and Python alike, without a word."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def batches(place: Path) -> int:
    newest = latest(Archive(str(place)), "events")
    return -1 if newest is None else newest.batch


def killed_again_and_again(server: Server, place: Path, events: int, kills: int) -> dict[str, Any]:
    chance, done, begun = random.Random(3), 0, time.monotonic()
    while done < kills:
        process, before = start(server.url, place, "--once"), batches(place)
        while process.poll() is None and batches(place) <= before:
            time.sleep(0.05)
        if process.poll() is not None:
            break
        time.sleep(chance.uniform(0.0, 1.5))
        kill(process)
        done += 1
        print(f"  killed {done} after batch {batches(place)}", flush=True)
    last = start(server.url, place, "--once")
    out, _ = last.communicate()
    return {
        "kills": done, "exit": last.returncode, "seconds": round(time.monotonic() - begun, 1), "last": json.loads(out),
        **compared(place, events),
    }  # fmt: skip


def compared(place: Path, events: int) -> dict[str, Any]:
    """What is on disk, by whoever can read it."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset(place / "events", partitioning="hive").to_table(columns=["job_id", "event"])
    told: dict[str, Any] = {
        "added": events,
        "pyarrow rows": table.num_rows,
        "pyarrow distinct": pc.count_distinct(table["job_id"]).as_py(),
        "zero-byte files": sum(path.stat().st_size == 0 for path in (place / "events").glob("**/*.parquet")),
    }
    try:
        import duckdb

        sql = f"SELECT count(*), count(DISTINCT job_id) FROM '{place}/events/**/*.parquet'"
        [told["duckdb"]] = duckdb.sql(sql).fetchall()
    except ImportError:
        pass
    with session.opened(Where(place.parent / "cache", place.parent / "log", master="local[2,4]")) as spark:
        rows = spark.read.parquet(str(place / "events"))
        told["spark"] = tuple(rows.selectExpr("count(*)", "count(distinct job_id)").first())
    return told


def paced(link: Link, rate: int, seconds: float) -> int:
    """Events at a steady rate into a stream that is trimmed as the reference trims it; answers how many."""
    key, sent, begun = Keys(QUEUE).events, 0, time.monotonic()

    def some(numbers: Sequence[int]) -> Flow[None]:
        yield [
            Call(("XADD", key, "MAXLEN", "~", 100_000, "*", "e", "completed", "id", f"job-{n}", "ts", n, "n", "mail",
                  "attempt", 1, "duration_us", n), keys=(key,))
            for n in numbers
        ]  # fmt: skip

    while (elapsed := time.monotonic() - begun) < seconds:
        due = int(elapsed * rate)
        if due > sent:
            link.run(some(range(sent, due)))
            sent = due
        time.sleep(0.02)
    return sent


def beside_a_live_stream(server: Server, place: Path, rate: int, seconds: float) -> dict[str, Any]:
    with Link.open(server.url) as link:
        some_events(link, QUEUE, 1)
        process = start(server.url, place)
        while batches(place) < 0 and process.poll() is None:
            time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError(f"the archive ended by itself: {process.returncode}")
        sent = paced(link, rate, seconds)
        time.sleep(0.5)
        newest = -1
        while newest != batches(place):  # until it has caught up and stands still
            newest = batches(place)
            time.sleep(5)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
        added = sent + 1
    told = json.loads(out)
    accounts = [account_of(Archive(str(place)), "events", number) for number in range(newest + 1)]
    late = [one.lost for one in accounts if one and one.lost]
    return {
        "rate": rate, "seconds": seconds, "added": added, "archived": told["events"], "lost": told["lost"],
        "unaccounted": added - told["events"] - told["lost"], "batches": told["batches"], "batches with loss": len(late),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rate", type=int, default=15_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", choices=["kills", "live"])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top:
        if asked.only != "live":
            with spawn("redis-8.6") as server, Link.open(server.url) as link:
                for first in range(0, asked.events, 100_000):
                    some_events(link, QUEUE, min(100_000, asked.events - first), first=first)
                place = Path(top) / "kills"
                print("kills:", killed_again_and_again(server, place, asked.events, asked.kills), flush=True)
        if asked.only != "kills":
            with spawn("redis-8.6") as server:
                print(
                    "live:",
                    beside_a_live_stream(server, Path(top) / "live", asked.rate, asked.seconds),
                    flush=True,
                )


if __name__ == "__main__":
    main()
