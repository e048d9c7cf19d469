"""A standalone cluster of one master and two workers: by spark-submit and through Spark Connect nothing is different."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_batch_stream_write_and_report_run_unchanged_on_a_cluster() -> None:
    words = [sys.executable, "-m", "benchmarks.pipeline_cluster"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 of 10 claims held" in done.stdout
