"""The pipeline on a real standalone cluster on this machine, one master and two workers: by spark-submit, and through
Spark Connect. Reads a batch, follows a stream, writes jobs; each result is compared with what it must be.

    python -m benchmarks.pipeline_cluster [--events 20000] [--only submit]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.claims import Claims, proof
from chasqui.server.link import Link
from chasqui.spark import connect_server, java
from chasqui.spark.connect_server import _free_port
from chasqui.spark.spark_session import SparkTarget
from chasqui.wire.keys import Keys
from tests.support.seeds.event_history import numbered_events, run_flow
from tests.support.servers.server import start_server

ROOT = Path(__file__).parents[1]
QUEUE = "cluster"
BATCH_READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.read.format("chasqui").option("redis.url", sys.argv[1]).option("subscribe", sys.argv[2])
rows = rows.option("maxRecordsPerPartition", 5000).load()
places = rows.rdd.mapPartitions(lambda part: [(__import__("os").getppid(), sum(1 for _ in part))]).collect()
print(rows.count(), len({pid for pid, count in places if count}))
"""
FAR_READ = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.remote(sys.argv[3]).getOrCreate()
rows = spark.read.format("chasqui").option("redis.url", sys.argv[1]).option("subscribe", sys.argv[2])
rows = rows.option("maxRecordsPerPartition", 5000).load()
where = F.udf(lambda _: __import__("os").getppid(), "bigint")
print(rows.count(), rows.select(where("ms").alias("pid")).distinct().count())
"""


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


@contextmanager
def cluster(top: Path) -> Iterator[str]:
    """Master and workers, as their scripts start them."""
    surroundings = os.environ | {
        "JAVA_HOME": str(java.find_java(top / "cache").home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    program = str(spark_home() / "bin" / "spark-class")
    master = [
        "org.apache.spark.deploy.master.Master",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--webui-port",
        "0",
    ]
    worker = [
        "org.apache.spark.deploy.worker.Worker",
        "--cores",
        "1",
        "--memory",
        "1g",
        "--webui-port",
        "0",
        url,
    ]
    with ExitStack() as stack, (top / "cluster.log").open("ab") as log:
        for number, words in enumerate((master, worker, worker)):
            more = ["--work-dir", str(top / f"work-{number}")] if number else []
            process = subprocess.Popen(
                [program, *words[:-1], *more, *words[-1:]] if number else [program, *words],
                env=surroundings, stdout=log, stderr=log, cwd=top,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if number == 0:
                _await(lambda: "I have been elected leader" in (top / "cluster.log").read_text(errors="replace"))
        _await(lambda: (top / "cluster.log").read_text(errors="replace").count("Registering worker") == 2)
        yield url


def _await(holds: Any) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError("the cluster did not come up")
        time.sleep(0.2)


def submitted(master: str, *words: str) -> str:
    """The output of a program that spark-submit runs."""
    program = str(spark_home() / "bin" / "spark-submit")
    surroundings = os.environ | {
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}",
    }  # fmt: skip
    conf = ["--conf", "spark.executor.memory=700m", "--conf", "spark.python.authenticate.socketTimeout=120s"]
    done = subprocess.run(
        [program, "--master", master, "--driver-memory", "700m", *conf, *words],
        capture_output=True,
        text=True,
        env=surroundings,
    )
    if done.returncode:
        raise RuntimeError(f"{words}: exit {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-2500:]}")
    return done.stdout


def python_output(*words: str) -> str:
    """The output of a Python program."""
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{words}: exit {done.returncode}\n{done.stderr[-2500:]}")
    return done.stdout


def typed(*words: str) -> Any:
    return json.loads(python_output("-m", "chasqui_cli", "pipeline", *words, "-o", "json"))


def by_submit(master: str, top: Path, url: str, link: Link, events: int, claims: Claims) -> None:
    program = str(ROOT / "chasqui_cli" / "__main__.py")
    (top / "read.py").write_text(BATCH_READ)
    spread(submitted(master, str(top / "read.py"), url, QUEUE), "submitted", events, claims)
    at = ("--archive", str(top / "archive"))
    out = submitted(master, program, "pipeline", "archive", QUEUE, "--once", *at, "-u", url, "-o", "json")
    claims.that("submitted, stream: events", json.loads(out[out.index("{") :])["events"], "=", events)
    submitted(master, program, "pipeline", "produce", "made", str(top / "jobs.jsonl"), "--yes", "-u", url)
    claims.that("submitted, write: XLEN", run_flow(link, "XLEN", Keys("made").stream), "=", events)


def spread(out: str, label: str, events: int, claims: Claims) -> None:
    """What a program that reads a batch python_output last: rows, and the executors that read them."""
    rows, executors = map(int, out.split()[-2:])
    claims.that(f"{label}, batch: rows", rows, "=", events)
    claims.that(f"{label}, batch: executors", executors, "=", 2)


def through_connect(master: str, top: Path, url: str, link: Link, events: int, claims: Claims) -> None:
    conf = {"spark.executor.memory": "700m", "spark.driver.host": "127.0.0.1"}
    at = SparkTarget(top / "cache", top / "connect.log", master=master, heap="700m", conf=conf)
    running = connect_server.start_or_find(at, top)
    try:
        (top / "far.py").write_text(FAR_READ)
        spread(python_output(str(top / "far.py"), url, QUEUE, running.url), "connect", events, claims)
        far = ("--archive", str(top / "far"), "--remote", running.url)
        result = typed("archive", QUEUE, "--once", *far, "-u", url)
        claims.that("connect, stream: events", result["events"], "=", events)
        result = typed("report", "throughput", *far)
        claims.that("connect, report: completed", sum(row["completed"] for row in result), "=", events)
        words = ("produce", "far", str(top / "jobs.jsonl"), "--yes", "--remote", running.url)
        claims.that("connect, write: added", typed(*words, "-u", url)["added"], "=", events)
        claims.that("connect, write: XLEN", run_flow(link, "XLEN", Keys("far").stream), "=", events)
    finally:
        connect_server.stop(top)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--only", choices=["submit", "connect"])
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="chasqui-proof-") as name,
        proof() as claims,
        start_server("redis-8.6", tcp=True) as server,
    ):
        top = Path(name)
        os.environ["HOME"] = name
        (top / "jobs.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(asked.events)))
        with Link.open(server.url) as link, cluster(top) as master:
            numbered_events(link, QUEUE, asked.events)
            if asked.only != "connect":
                with claims.part("spark-submit"):
                    by_submit(master, top, server.url, link, asked.events, claims)
            if asked.only != "submit":
                with claims.part("Spark Connect"):
                    through_connect(master, top, server.url, link, asked.events, claims)


if __name__ == "__main__":
    main()
