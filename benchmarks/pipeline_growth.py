"""What archiving costs from 1 M to 8 M events with a heap of 1 GB: seconds a million, and memory at its peak.

    python -m benchmarks.pipeline_growth [--events 1000000 2000000 4000000 8000000] [--batch 100000]

One stream grows, and each time a new archive is made of all of it, by a command of its own. What a million costs is
taken between the accounts of batches, so that Java's start is left out, and as the median, so that its warming up
is not either. Memory is that of all processes of the command, added up twice a second, with what they share counted
once (PSS).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.claims import Claims, proof
from benchmarks.pipeline_archive import fill, start
from chasqui.server.link import Link
from chasqui.spark.archiver import read_totals
from chasqui.spark.layout import Archive
from tests.support.servers.server import start_server

FLAT = 1.25
CONSTANT = 1.25
"""Java fills its heap before it cleans up, so it is the last doubling of the events that its memory must not show."""


@dataclass(frozen=True)
class Cost:
    """What one archive took. costs: seconds a million of each batch but the first."""

    rows: int
    seconds: float
    costs: list[float]
    java_mb: int
    python_mb: int

    @property
    def warm(self) -> float:
        return statistics.median(self.costs)

    @property
    def late(self) -> float:
        """The last quarter of the batches, next to the second one: what comes first warms Java up."""
        quarter = max(1, len(self.costs) // 4)
        return statistics.median(self.costs[-quarter:]) / statistics.median(self.costs[quarter : 2 * quarter])


def memory_mb(session: int) -> tuple[int, int]:
    """Of the Java and of the Python processes of a session."""
    java = python = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            name, fields = (place / "stat").read_text().split("(", 1)[1].rsplit(") ", 1)
            if int(fields.split()[3]) != session:
                continue
            size = int((place / "smaps_rollup").read_text().split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue  # it has just ended
        java, python = (java + size, python) if name == "java" else (java, python + size)
    return java // 1024, python // 1024


def costs(place: Path) -> Iterator[tuple[int, float]]:
    """Rows of each batch but the first, and the seconds since the one before it."""
    archive = Archive(str(place))
    accounts = place / "_accounts" / "events"
    numbers = sorted(int(path.stem) for path in accounts.glob("*.json"))
    for before, number in pairwise(numbers):
        account = read_totals(archive, "events", number)
        took = (accounts / f"{number}.json").stat().st_mtime - (accounts / f"{before}.json").stat().st_mtime
        if account and account.rows:
            yield account.rows, took


def archived(url: str, place: Path, batch: int) -> Cost:
    begun = time.monotonic()
    process = start(url, place, "--once", "--batch", str(batch))
    java = python = 0
    while process.poll() is None:
        now = memory_mb(process.pid)
        java, python = max(java, now[0]), max(python, now[1])
        time.sleep(0.5)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "chasqui pipeline archive")
    found = list(costs(place))
    first = read_totals(Archive(str(place)), "events", 0)
    rows = sum(count for count, _ in found) + (first.rows if first else 0)
    per_million = [took / count * 1e6 for count, took in found]
    return Cost(rows, time.monotonic() - begun, per_million, java, python)


def judge(measured: dict[int, Cost], claims: Claims) -> None:
    for events, cost in measured.items():
        claims.that(f"rows archived of {events:,}", cost.rows, "=", events)
    sizes = sorted(measured)
    if len(sizes) < 2:
        return
    small, half, large = (measured[size] for size in (sizes[0], sizes[-2], sizes[-1]))
    claims.that(f"seconds a million, {large.rows:,} ÷ {small.rows:,} events", large.warm / small.warm, "≤", FLAT)
    claims.that(f"seconds a million of {large.rows:,}, last quarter ÷ second", large.late, "≤", FLAT)
    claims.that(f"peak of Java, {large.rows:,} ÷ {half.rows:,} events", large.java_mb / half.java_mb, "≤", CONSTANT)
    growth = large.python_mb / small.python_mb
    claims.that(f"peak of Python, {large.rows:,} ÷ {small.rows:,} events", growth, "≤", CONSTANT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, nargs="+", default=[n * 1_000_000 for n in (1, 2, 4, 8)])
    parser.add_argument("--batch", type=int, default=100_000)
    asked = parser.parse_args()
    measured: dict[int, Cost] = {}
    with (
        tempfile.TemporaryDirectory(prefix="chasqui-proof-") as top,
        proof() as claims,
        start_server("redis-8.6") as server,
        Link.open(server.url) as link,
    ):
        print("| events | seconds, all | s per M, warm | peak MB: Java | Python |")
        print("| --: | --: | --: | --: | --: |")
        for before, events in pairwise([0, *sorted(asked.events)]):
            fill(link, before, events)
            cost = measured[events] = archived(server.url, Path(top) / str(events), asked.batch)
            print(
                f"| {events:,} | {cost.seconds:.1f} | {cost.warm:.2f} | {cost.java_mb} | {cost.python_mb} |",
                flush=True,
            )
        judge(measured, claims)


if __name__ == "__main__":
    main()
