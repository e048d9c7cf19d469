"""Golden behaviour: how long failed jobs wait, who may run, who is refused. Where our rule differs, it explains why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chasqui.consume import attempts, backoff
from chasqui.defaults import RetryDefaults
from chasqui.errors import ArgumentError
from chasqui.wire import delayed_member, envelope, event_entry, repeat_spec, stream_entry
from chasqui.wire.job_id import check_job_id
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Every, FireAll, RepeatSpec
from chasqui.wire.retry_override import Backoff, check_backoff
from tests import golden
from tests.wire.expected import field_words, reference_runs, unhex, with_kind_unknown

Record = Callable[[str, object], None]
Item = golden.Item


def test_failed_jobs_wait_as_long_and_are_parked_in_the_same_bytes(record_property: Record) -> None:
    golden.walk("retry", _check_retry, record_property)


def test_arrivals_follow_our_rule_and_differ_from_the_reference_only_by_the_crash(
    record_property: Record,
) -> None:
    golden.walk("claim", _check_claim, record_property)


def test_producers_are_refused_with_the_texts_of_the_reference(record_property: Record) -> None:
    elsewhere = ("end_before_first_fire",)  # with the other cron tests
    no_such_call = ("bulk_shared_id",)  # here every job of a bulk has an id of its own
    golden.walk("error", _check_error, record_property, but=(*elsewhere, *no_such_call))


def _check_retry(item: Item) -> None:
    context, expect = item["context"], item["expect"]
    job = envelope.decode(unhex(item["hex"]["source_d"]))
    assert job.attempt == context["attempt_before"]
    default = RetryDefaults()
    assert context["queue_default"] == {
        "initial_backoff_ms": default.delay_ms,
        "max_backoff_ms": default.max_delay_ms,
        "multiplier": default.multiplier,
        "jitter_ms": default.jitter_ms,
    }
    own = job.retry.backoff if job.retry else None
    shortest = backoff.retry_delay_ms(job.attempt, own, default, lambda _: 0)
    longest = backoff.retry_delay_ms(job.attempt, own, default, lambda spread: spread - 1)
    assert (shortest, longest) == (expect["backoff_min"], expect["backoff_max_inclusive"])
    _assert_parked_alike(item, job)


def _assert_parked_alike(item: Item, job: envelope.Envelope) -> None:
    expect = item["expect"]
    parked = job.with_attempt(attempts.attempt_after_failure(job.attempt))
    assert parked.attempt == expect["attempt_in_member"]
    assert attempts.next_run_number(job.attempt) == expect["attempt_in_event"]
    member = delayed_member.encode(with_kind_unknown(envelope.encode(parked), job), expect["name"])
    assert member == unhex(item["hex"]["member"])
    event = event_entry.decode(field_words(item["hex"]["event_fields"]))
    assert event == event_entry.Event(
        "retry-scheduled",
        job.id or None,
        event.ts,
        expect["name"],
        attempt=expect["attempt_in_event"],
        backoff_ms=expect["backoff_seen"],
    )


def _check_claim(item: Item) -> None:
    """Ours counts crashes apart from failures. The reference mixes them, and forgives one."""
    context, ran = item["context"], item["expect"]["handler_ran"]
    attempt, before, most = (context[name] for name in ("payload_attempt", "deliveries_before_claim", "max_attempts"))
    assert reference_runs(attempt, before, most) is ran
    decision = attempts.start_decision(attempt, before, most, RetryDefaults().crash_limit)
    if attempt + 1 > most:
        assert decision == "retries_exhausted"
    else:
        assert decision == ("crashed" if before >= 3 else "run")
    event = event_entry.decode(field_words(item["hex"]["dlq_event_fields"]))
    assert event.attempt == item["expect"]["dlq_event_attempt"]
    if ran:
        assert item["expect"]["handler_attempt"] == attempt
        assert event.attempt == attempts.run_number(attempt)


def _check_error(item: Item) -> None:
    with pytest.raises(ArgumentError) as refused:
        _REFUSED_CALLS[item["case"]](item["context"])
    if item["case"] == "empty_id_immediate":  # there Redis itself refuses; we do so before it is asked
        assert str(refused.value) == "job_id must be a non-empty, non-whitespace string"
    else:
        assert str(refused.value) == item["expect"]["error"].removeprefix("config: ")


def _refused_name(context: dict[str, Any]) -> None:
    stream_entry.encode_name("n" * context["name_bytes"])


def _refused_delay(context: dict[str, Any]) -> None:
    delayed_member.check_delay(context["delay_ms"])


def _refused_every(context: dict[str, Any]) -> None:
    repeat_spec.check(RepeatSpec("k", "n", Every(context["interval_ms"]), from_data(None)))


def _refused_catchup(context: dict[str, Any]) -> None:
    policy = FireAll(context["max_catchup"])
    repeat_spec.check(RepeatSpec("k", "n", Every(1), from_data(None), missed_fires=policy))


_REFUSED_CALLS: dict[str, Callable[[dict[str, Any]], object]] = {
    "name_too_long": _refused_name,
    "name_too_long_utf8": _refused_name,
    "name_too_long_delayed": _refused_name,
    "name_too_long_bulk": _refused_name,
    "max_delay": _refused_delay,
    "max_delay_id": _refused_delay,
    "empty_id_immediate": lambda context: check_job_id(context["id"]),
    "every_zero": _refused_every,
    "backoff_kind": lambda context: check_backoff(Backoff(context["kind"], 1)),
    "max_catchup_zero": _refused_catchup,
}
