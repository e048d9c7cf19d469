"""Percentiles are those of the nearest rank, as the doctor counts them."""

from __future__ import annotations

import pytest

from chasqui.inspect.event_stats import Percentiles


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], (7.0, 7.0, 7.0)),
        ([2.0, 1.0], (1.0, 2.0, 2.0)),
        ([float(value) for value in range(100, 0, -1)], (50.0, 95.0, 99.0)),
        ([float(value) for value in range(1, 1001)], (500.0, 950.0, 990.0)),
    ],
)
def test_a_percentile_is_the_value_that_so_many_do_not_exceed(
    values: list[float], expected: tuple[float, float, float]
) -> None:
    found = Percentiles.of(values)
    assert found
    assert (found.count, found.p50, found.p95, found.p99) == (len(values), *expected)
