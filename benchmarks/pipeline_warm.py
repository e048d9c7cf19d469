"""What a report takes on a Spark that `chasqui pipeline up` keeps warm: whole commands, from Enter to the prompt.

python -m benchmarks.pipeline_warm [--millions 1] [--reports throughput latency] [--at DIR]
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

from benchmarks.pipeline_reports import make
from chasqui.spark.reports import REPORTS

ROOT = Path(__file__).parents[1]
NAMES = tuple(REPORTS)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--millions", type=int, default=1)
    parser.add_argument("--reports", nargs="+", default=NAMES)
    parser.add_argument("--at", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chasqui-proof-") as name:
        home = Path(name)
        place = (asked.at or home) / str(asked.millions)
        if not place.exists():
            make(place, asked.millions)
        at = ("--archive", str(place))
        print(f"up: {typed(home, 'up')[0]:.1f} s", flush=True)
        try:
            for report in asked.reports:
                first, *again = (typed(home, "report", report, *at)[0] for _ in range(3))
                later = " and ".join(f"{one:.1f}" for one in again)
                print(f"report {report:<11} {first:5.1f} s, again {later} s  (goal < 3)", flush=True)
        finally:
            typed(home, "down")


if __name__ == "__main__":
    main()
