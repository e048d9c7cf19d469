from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.consume import attempts, backoff
from chasqui.defaults import RetryDefaults
from chasqui.errors import ArgumentError
from chasqui.wire import result_value
from chasqui.wire.retry_override import Backoff, RetryOverride
from tests.wire.expected import reference_runs

PLAIN = RetryDefaults(jitter_ms=0)


def wait(attempt: int, policy: Backoff | None) -> int:
    return backoff.retry_delay_ms(attempt, policy, PLAIN, lambda _: 0)


def growing(delay_ms: int, multiplier: float, longest: int | None = None) -> Backoff:
    return Backoff("exponential", delay_ms, longest, multiplier, 0)


def test_by_default_the_wait_doubles_from_a_tenth_of_a_second_to_half_a_minute() -> None:
    assert [wait(attempt, None) for attempt in range(10)] == [
        100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "attempt", "expected"),
    [
        (Backoff("fixed", 250), 7, 250),
        (Backoff("fixed", 99_999), 0, 30_000),
        (Backoff("linear", 10), 3, 80),
        (growing(100, -2.0), 1, 0),
        (growing(100, -2.0), 2, 400),
        (growing(7, math.nan), 0, 7),
        (growing(7, math.nan), 1, 30_000),
        (growing(1, 1e300), 2, 30_000),
        (growing(1, -1e300), 3, 0),
        (growing(0, 1e300), 2, 30_000),
        (growing(1, math.inf), 1, 30_000),
        (growing(3, 0.5), 1, 1),
        (growing(1, 0.0), 5, 0),
        (growing(1000, 0.3), 3, 27),
        (growing(250, 0.6), 3, 54),
        (growing(1, 3), 2**31, 30_000),
        (growing(1, 10.0, 2**64 - 1), 4_000_000_000, 2**64 - 1),
    ],
)
def test_odd_policies_come_out_as_the_reference_has_them(policy: Backoff, attempt: int, expected: int) -> None:
    assert wait(attempt, policy) == expected


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.floats(), st.integers(0, 2**64 - 1))
def test_a_wait_is_never_negative_nor_beyond_its_cap(attempt: int, delay: int, factor: float, longest: int) -> None:
    assert 0 <= wait(attempt, growing(delay, factor, longest)) <= max(longest, int(float(longest)))


def test_jitter_comes_on_top_and_is_only_asked_for_when_there_is_some() -> None:
    asked: list[int] = []

    def most(spread: int) -> int:
        asked.append(spread)
        return spread - 1

    assert backoff.retry_delay_ms(0, Backoff("fixed", 50, 50, None, 10), RetryDefaults(), most) == 59
    assert backoff.retry_delay_ms(0, Backoff("fixed", 50, 50, None, 0), RetryDefaults(), most) == 50
    assert backoff.retry_delay_ms(0, None, RetryDefaults(), most) == 199
    assert asked == [10, 100]


def test_one_run_has_one_number_wherever_it_is_reported() -> None:
    first, second = 0, attempts.attempt_after_failure(0)
    assert attempts.run_number(first) == 1
    assert attempts.next_run_number(first) == attempts.run_number(second) == 2


def test_a_job_may_set_how_often_it_runs() -> None:
    assert attempts.effective_max_attempts(None, RetryDefaults()) == 25
    assert attempts.effective_max_attempts(RetryOverride(None), RetryDefaults()) == 25
    assert attempts.effective_max_attempts(RetryOverride(0), RetryDefaults()) == 0
    assert [attempts.is_last(attempt, 3) for attempt in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("attempt", "starts", "most", "decision"),
    [
        (0, 0, 1, "run"),
        (0, 0, 0, "retries_exhausted"),
        (1, 0, 1, "retries_exhausted"),
        (24, 0, 25, "run"),
        (25, 0, 25, "retries_exhausted"),
        (0, 2, 1, "run"),
        (0, 3, 25, "crashed"),
        (25, 3, 25, "retries_exhausted"),
    ],
)
def test_on_arrival_failures_and_crashes_are_counted_apart(attempt: int, starts: int, most: int, decision: str) -> None:
    assert attempts.start_decision(attempt, starts, most, RetryDefaults().crash_limit) == decision


def test_a_job_that_kills_every_worker_ends_where_the_reference_lets_it_go_on() -> None:
    assert reference_runs(0, 24, 25)
    assert attempts.start_decision(0, 24, 25, 3) == "crashed"


def test_a_crash_costs_no_attempt_where_the_reference_would_give_the_job_up() -> None:
    assert not reference_runs(0, 2, 1)
    assert attempts.start_decision(0, 2, 1, 3) == "run"


def test_a_handler_that_returns_none_leaves_nothing() -> None:
    assert result_value.encode(None) is None
    for empty, stored in ((0, b"\x00"), ("", b"\xa0"), (False, b"\xc2")):
        assert result_value.encode(empty) == stored
    assert result_value.encode([]) == b"\x90"


def test_a_result_never_expires_early() -> None:
    assert [result_value.ttl_seconds(ms) for ms in (1, 1000, 1001, 3_600_000)] == [1, 1, 2, 3600]
    with pytest.raises(ArgumentError, match="result_ttl_ms must be positive; got 0"):
        result_value.ttl_seconds(0)


@pytest.mark.parametrize(
    ("starts", "deaths", "doubt"),
    [(3, 3, False), (3, 6, False), (3, 7, True), (4, 9, True), (5, 1000, False)],
)
def test_guilt_is_in_doubt_while_most_workers_die_without_the_job_but_not_for_ever(
    starts: int, deaths: int, doubt: bool
) -> None:
    assert attempts.deserves_extra_start(starts, deaths, RetryDefaults().crash_limit) is doubt
