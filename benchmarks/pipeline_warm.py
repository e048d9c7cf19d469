"""What a report takes on a Spark that `chasqui pipeline up` keeps warm: whole commands, from Enter to the prompt.

    python -m benchmarks.pipeline_warm [--events 1000000] [--batches 3600] [--reports throughput latency]

Asked of two archives: one of few large files, as `compact` leaves them, and one of an hour of one batch a second, as
the archive itself leaves it. The goal is claimed of the first; the time of the second is printed.
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
from benchmarks.pipeline_reports import make
from chasqui.spark.reports import REPORTS

ROOT = Path(__file__).parents[1]
GOAL_S = 3.0
HOUR_MS = 3_600_000


def typed(home: Path, *words: str) -> tuple[float, Any]:
    """A command line in a process of its own: how long it took, and what it said."""
    paths = {
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}",
        "CHASQUI_SPARK_MASTER": "local[2,4]",
    }
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "chasqui_cli", "pipeline", *words, "-o", "json"],
        env=os.environ | paths, capture_output=True, text=True,
    )  # fmt: skip
    took = time.monotonic() - begun
    if done.returncode:
        raise RuntimeError(f"{words}: exit {done.returncode}\n{done.stderr}")
    return took, json.loads(done.stdout)


def ask(home: Path, place: Path, names: list[str]) -> dict[str, float]:
    """Every report three times; the slowest of them."""
    slowest = {}
    for name in names:
        first, *again = took = [typed(home, "report", name, "--archive", str(place))[0] for _ in range(3)]
        slowest[name] = max(took)
        later = " and ".join(f"{one:.1f}" for one in again)
        print(f"{place.name} files, report {name:<11} {first:5.1f} s, again {later} s", flush=True)
    return slowest


def measure(home: Path, events: int, batches: int, names: list[str], claims: Claims) -> None:
    large, small = home / "large", home / "small"
    make(large, events)
    make(small, events, batches, HOUR_MS)
    print(f"up: {typed(home, 'up')[0]:.1f} s", flush=True)
    try:
        for name, took in ask(home, large, names).items():
            claims.that(f"seconds for {name}, large files", took, "<", GOAL_S)
        late = {name: took for name, took in ask(home, small, names).items() if took >= GOAL_S}
        print(f"{batches} batches: {len(names) - len(late)} of {len(names)} reports within {GOAL_S:g} s")
    finally:
        typed(home, "down")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=3600)
    parser.add_argument("--reports", nargs="+", default=list(REPORTS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as name, proof() as claims:
        measure(Path(name), asked.events, asked.batches, asked.reports, claims)


if __name__ == "__main__":
    main()
