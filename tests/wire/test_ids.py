from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ArgumentError
from chasqui.wire.job_id import check_job_id, created_ms, new_job_id, new_job_ids

LAST_MS = 2**48 - 1


@given(st.integers(0, LAST_MS))
def test_an_id_holds_the_time_it_was_made(now_ms: int) -> None:
    assert created_ms(new_job_id(now_ms)) == now_ms


def test_ids_of_a_batch_share_their_moment_and_differ() -> None:
    minted = new_job_ids(10_000, 1_794_796_970_454)
    assert len(set(minted)) == 10_000
    assert {job_id[:10] for job_id in minted} == {"01M7H3RREP"}
    assert {len(job_id) for job_id in minted} == {26}


def test_every_letter_comes_up_in_every_random_place() -> None:
    places = zip(*(job_id[10:] for job_id in new_job_ids(5_000, 0)), strict=True)
    assert all(set(place) == set("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for place in places)


def test_randomness_is_read_once_and_spent_whole() -> None:
    asked: list[int] = []

    def entropy(count: int) -> bytes:
        asked.append(count)
        return bytes(range(count))

    assert new_job_ids(2, 0, entropy) == [
        "0000000000" + "0123456789ABCDEF",
        "0000000000" + "GHJKMNPQRSTVWXYZ",
    ]
    assert asked == [32]


def test_earlier_ids_sort_before_later_ones() -> None:
    moments = [0, 1, 31, 32, 1_700_000_000_000, LAST_MS]
    minted = [new_job_id(moment) for moment in moments]
    assert minted == sorted(minted)


@pytest.mark.parametrize(
    "job_id", ["", "order:1", "I" * 26, "0" * 25, "0" * 27, "01m7h3rrepj3e92eb8kbxc0ntg", "8" + "0" * 25]
)
def test_an_id_that_is_no_ulid_has_no_time(job_id: str) -> None:
    assert created_ms(job_id) is None


@pytest.mark.parametrize("now_ms", [-1, LAST_MS + 1])
def test_a_moment_that_does_not_fit_is_refused(now_ms: int) -> None:
    with pytest.raises(ArgumentError, match="does not fit the 48 bits"):
        new_job_id(now_ms)


@pytest.mark.parametrize("job_id", ["", " ", "\t\n"])
def test_an_id_of_nothing_is_refused(job_id: str) -> None:
    with pytest.raises(ArgumentError, match="job_id must be a non-empty, non-whitespace string"):
        check_job_id(job_id)


def test_an_id_is_taken_as_it_is_given() -> None:
    assert check_job_id(" a b ") == " a b "
