"""Roll-ups of more jobs than a sketch can hold: their percentiles must still be within one per cent."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui.spark import maintenance, reports
from chasqui.spark.layout import Archive, utc_day
from chasqui.spark.reports import ReportQuery
from tests.support.seeds.event_history import BEGIN_MS

JOBS = 150_000
MINUTES = 10
"""15,000 values of a name in each minute: more than a sketch keeps, even before any two are merged."""
NAMES = ("invoice", "mail")
MEASURES = ("run_us", "wait_ms", "e2e_ms")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Ten minutes in which every name's jobs began and ended by the thousand, with long tails as jobs have them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = tmp_path_factory.mktemp("busy")
    day = place / "events" / "queue=busy" / f"dt={utc_day(BEGIN_MS)}"
    chance = np.random.default_rng(11)
    for batch, (name, kind) in enumerate((name, kind) for name in NAMES for kind in ("active", "completed")):
        ms = BEGIN_MS + np.sort(chance.integers(0, MINUTES * 60_000, JOBS))
        rows = {
            "ms": ms, "seq": np.arange(JOBS), "event": [kind] * JOBS, "name": [name] * JOBS,
            "attempt": np.ones(JOBS, dtype=np.int32), "duration_us": chance.lognormal(9, 1, JOBS).astype(np.int64),
            "ts": ms, "created_ms": ms - chance.lognormal(8, 1, JOBS).astype(np.int64),
        }  # fmt: skip
        (day / f"batch={batch}").mkdir(parents=True)
        pq.write_table(pa.table(rows), day / f"batch={batch}" / "part.parquet", compression="zstd")
    return Archive(str(place))


@pytest.fixture(scope="module")
def answers(spark: Any, busy: Archive) -> tuple[Rows, Rows]:
    """Of every name: by sketches, and exactly."""
    maintenance.roll_up(spark, busy)
    sketched, exact = (
        reports.run_report(spark, busy, "latency", ReportQuery(from_rollup=asked)) for asked in (True, False)
    )
    return sketched, exact


def test_lossy_sketches_count_every_job(answers: tuple[Rows, Rows]) -> None:
    assert JOBS > 4 * maintenance.SKETCH_SIZE, "a sketch could hold them all"
    for rows in answers:
        assert [(row["name"], row["completed"], row["failed"]) for row in rows] == [(name, JOBS, 0) for name in NAMES]


@pytest.mark.parametrize("n", [50, 95, 99])
def test_a_lossy_sketch_is_within_one_per_cent_of_the_exact_value(answers: tuple[Rows, Rows], n: int) -> None:
    off = {
        (mine["name"], measure): mine[f"{measure}_p{n}"] / theirs[f"{measure}_p{n}"] - 1
        for mine, theirs in zip(*answers, strict=True)
        for measure in MEASURES
    }
    assert {place: share for place, share in off.items() if abs(share) > 0.01} == {}
