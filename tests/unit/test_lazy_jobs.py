"""Jobs that are made when they are first looked at behave like a list of them."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui.models import LazyJobs


@pytest.mark.parametrize(
    "place",
    [0, 4, -1, -5, slice(2), slice(-2, None), slice(None, -1), slice(None, None, -1), slice(3, 0, -2), slice(9, 12)],
)
def test_jobs_made_late_are_found_as_in_a_list(place: int | slice) -> None:
    jobs: LazyJobs[Any] = LazyJobs(lambda places: [f"job {at}" for at in places], 5)
    assert jobs[place] == [f"job {at}" for at in range(5)][place]


@pytest.mark.parametrize("place", [5, -6])
def test_a_job_beyond_the_last_is_an_index_error(place: int) -> None:
    jobs: LazyJobs[Any] = LazyJobs(lambda places: [f"job {at}" for at in places], 5)
    with pytest.raises(IndexError):
        _ = jobs[place]
