"""Which arguments queues take, and the errors for others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from chasqui.errors import ArgumentError
from chasqui.models import BackoffSpec, MissedFiresPolicy, RepeatPattern
from chasqui.produce import arguments
from chasqui.produce.batch import JobOptions
from chasqui.schedule.repeatable import ListedSpec
from chasqui.server.commands import DelayFromNow
from chasqui.wire.msgpack_codec import Undecodable
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Cron, Every, FireAll, FireOnce, RepeatSpec, Skip
from chasqui.wire.retry_override import Backoff, RetryOverride

ANY: Any = arguments  # as callers without a type checker use it
POLICY: Any = MissedFiresPolicy
MOMENT = datetime(2026, 11, 16, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("delay_ms", "delay", "due"),
    [
        (None, None, None),
        (0, None, None),
        (0.9, None, None),
        (1500, None, DelayFromNow(1500)),
        (1500.9, None, DelayFromNow(1500)),
        (timedelta(seconds=1.5), None, DelayFromNow(1500)),
        (None, timedelta(microseconds=2999), DelayFromNow(2)),
        (None, timedelta(0), None),
        (MOMENT, None, 1_794_830_400_250),
        (MOMENT.replace(tzinfo=None), None, 1_794_830_400_250),
        (MOMENT.astimezone(timezone(timedelta(hours=-5))), None, 1_794_830_400_250),
    ],
)
def test_a_delay_is_counted_by_the_server_and_a_moment_is_absolute(delay_ms: Any, delay: Any, due: Any) -> None:
    assert arguments.parse_due(delay_ms, delay) == due


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ANY.parse_due(-1, None), ArgumentError, "delay_ms must be non-negative, got -1"),
        (lambda: ANY.parse_due(None, timedelta(-1)), ArgumentError, "must be non-negative, got -86400000"),
        (lambda: ANY.parse_due(float("nan"), None), ArgumentError, "must be non-negative, got nan"),
        (lambda: ANY.parse_due(float("inf"), None), ArgumentError, "must be non-negative, got inf"),
        (lambda: ANY.parse_due(1, timedelta(1)), ArgumentError, "give one of them"),
        (lambda: ANY.parse_due(True, None), TypeError, "got bool"),
        (lambda: ANY.parse_due("1", None), TypeError, "got str"),
        (lambda: ANY.parse_due(None, 5), TypeError, "delay must be a datetime.timedelta; got int"),
        (
            lambda: ANY.parse_retry(-1, None),
            ArgumentError,
            "retry.max_attempts must be a non-negative int",
        ),
        (lambda: ANY.parse_retry(2**32, None), ArgumentError, "retry.max_attempts must be a non-negative"),
        (lambda: ANY.parse_retry("x", None), ArgumentError, "retry.max_attempts must be a non-negative"),
        (lambda: ANY.parse_backoff({}), ArgumentError, "backoff.kind is required"),
        (lambda: ANY.parse_backoff({"kind": "fixed"}), ArgumentError, "backoff.delay_ms is required"),
        (lambda: ANY.parse_backoff(-5), ArgumentError, "backoff.delay_ms must be a non-negative int"),
        (
            lambda: ANY.parse_backoff({"kind": "x", "delay_ms": 1}),
            ArgumentError,
            "unknown backoff kind \"x\"; expected 'fixed' or 'exponential'",
        ),
        (
            lambda: ANY.parse_backoff({"kind": "fixed", "delay_ms": 1, "multiplier": "2"}),
            ArgumentError,
            "backoff.multiplier must be a number",
        ),
        (lambda: ANY.parse_backoff(True), TypeError, "got bool"),
        (lambda: ANY.parse_pattern({"kind": "never"}), ArgumentError, "'cron' or 'every', not 'never'"),
        (lambda: ANY.parse_pattern("0 9 * * *"), TypeError, "RepeatPattern or a dict; got str"),
        (
            lambda: ANY.parse_missed_fires({"kind": "fire-all"}),
            ArgumentError,
            "missed_fires.max_catchup is required when kind is 'fire-all'",
        ),
        (
            lambda: ANY.parse_missed_fires({"kind": "k"}),
            ArgumentError,
            "unknown missed-fires kind \"k\"; expected 'skip' / 'fire-once' / 'fire-all'",
        ),
        (lambda: ANY.parse_missed_fires("skip"), TypeError, "MissedFiresPolicy or a dict; got str"),
        (lambda: ANY.check_no_missed_fires(MissedFiresPolicy.skip()), ArgumentError, "without repeat"),
        (
            lambda: ANY.check_job_id(" ", "add"),
            ArgumentError,
            "Queue.add: job_id must be a non-empty, non-whitespace string",
        ),
        (lambda: ANY.check_job_id(5, "add_unique"), ArgumentError, "Queue.add_unique: job_id must be"),
        (
            lambda: ANY.parse_repeat_spec("n", 1, RepeatPattern.every(1), limit=-1),
            ArgumentError,
            "limit must be a non-negative int",
        ),
        (lambda: ANY.parse_repeat_spec(5, 1, RepeatPattern.every(1)), ArgumentError, "must be a string"),
        (
            lambda: POLICY.fire_all(0),
            ArgumentError,
            "must be a positive integer \\(>= 1\\), got 0",
        ),
        (lambda: POLICY.fire_all("2"), TypeError, "must be an int, got str"),
    ],
)
def test_wrong_arguments_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_every_wrong_value_is_a_value_error_and_a_runtime_error_too() -> None:
    with pytest.raises(ValueError):
        arguments.parse_due(-1, None)
    with pytest.raises(RuntimeError):
        arguments.parse_due(-1, None)


@pytest.mark.parametrize(
    ("given", "backoff"),
    [
        (250, Backoff("fixed", 250)),
        (BackoffSpec.fixed(250, jitter_ms=5), Backoff("fixed", 250, jitter_ms=5)),
        (BackoffSpec.exponential(10), Backoff("exponential", 10, multiplier=2.0)),
        (
            BackoffSpec.exponential(10, multiplier=3, max_ms=99, jitter_ms=0),
            Backoff("exponential", 10, 99, 3, 0),
        ),
        ({"kind": "fixed", "delay_ms": 0}, Backoff("fixed", 0)),
    ],
)
def test_a_backoff_is_a_number_a_spec_or_a_dict(given: Any, backoff: Backoff) -> None:
    assert arguments.parse_backoff(given) == backoff


def test_terms_are_only_what_was_asked_for() -> None:
    plain = arguments.job_request("n", {"a": 1})
    assert plain == ("n", {"a": 1}, None, None)
    asked = arguments.job_request("n", 1, delay_ms=5, attempts=3, backoff=7, job_id="x")
    retry = RetryOverride(3, Backoff("fixed", 7))
    assert asked.options == JobOptions(has_own_id=True, retry=retry, due=DelayFromNow(5))
    assert asked.as_unique().options == JobOptions(has_own_id=True, unique=True, retry=retry, due=DelayFromNow(5))
    assert arguments.job_request_from_mapping(
        {"name": "n", "data": 1, "attempts": 0, "more": "is ignored"}
    ).options == JobOptions(retry=RetryOverride(0, None))


PATTERNS = [
    (RepeatPattern.every(5), Every(5)),
    (RepeatPattern.cron("0 9 * * *", tz="UTC"), Cron("0 9 * * *", "UTC")),
    (RepeatPattern.cron("@daily"), Cron("@daily", None)),
]
POLICIES = [
    (None, Skip()),
    (MissedFiresPolicy.fire_once(), FireOnce()),
    (MissedFiresPolicy.fire_all(3), FireAll(3)),
]


@pytest.mark.parametrize(("pattern", "stored_pattern"), PATTERNS)
@pytest.mark.parametrize(("policy", "stored_policy"), POLICIES)
def test_a_schedule_comes_back_as_it_was_given(
    pattern: Any, stored_pattern: Any, policy: Any, stored_policy: Any
) -> None:
    spec = arguments.parse_repeat_spec("n", {"a": 1}, pattern, policy, limit=9, start_after_ms=1, end_before_ms=10)
    assert spec == RepeatSpec("", "n", stored_pattern, from_data({"a": 1}), 9, 1, 10, stored_policy)
    assert (
        arguments.parse_repeat_spec("n", {"a": 1}, pattern.to_dict(), policy and policy.to_dict()).pattern
        == spec.pattern
    )
    meta = arguments.to_repeatable_meta(ListedSpec("k", 77, 3, spec))
    assert meta
    assert (meta.key, meta.job_name, meta.next_fire_ms) == ("k", "n", 77)
    assert (meta.pattern, meta.missed_fires) == (pattern, policy)
    assert (meta.limit, meta.start_after_ms, meta.end_before_ms) == (9, 1, 10)


def test_a_schedule_that_cannot_be_read_is_left_out_as_the_reference_does() -> None:
    assert arguments.to_repeatable_meta(ListedSpec("k", 1, 0, Undecodable(b"", "why"))) is None


def test_rules_list_what_is_set_by_name() -> None:
    assert RepeatPattern.every(5).to_dict() == {"kind": "every", "interval_ms": 5}
    assert RepeatPattern.cron("@daily").to_dict() == {"kind": "cron", "expression": "@daily"}
    assert BackoffSpec.fixed(1).to_dict() == {"kind": "fixed", "delay_ms": 1}
    assert MissedFiresPolicy.fire_all(2).to_dict() == {"kind": "fire-all", "max_catchup": 2}
    assert MissedFiresPolicy.skip().to_dict() == {"kind": "skip"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "cron"}, "pattern.expression is required"),
        ({"kind": "every"}, "pattern.interval_ms is required"),
        ({"kind": "every", "interval_ms": "soon"}, "pattern.interval_ms must be an int; got 'soon'"),
    ],
)
def test_an_incomplete_pattern_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        arguments.parse_pattern(given)
    assert str(refused.value) == message


def test_a_catch_up_that_is_not_a_number_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match=r"missed_fires\.max_catchup must be an int; got 'all'"):
        arguments.parse_missed_fires({"kind": "fire-all", "max_catchup": "all"})
