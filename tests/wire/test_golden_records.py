"""Golden specs, events, dead letters and results: read as expected, and written to the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chasqui.errors import WireError
from chasqui.wire import dead_letter_entry, envelope, event_entry, repeat_spec, result_value, stream_entry
from chasqui.wire.keys import Keys
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Cron, Every, FireAll, FireOnce, RepeatSpec, Skip
from tests import golden
from tests.wire.expected import assert_matches_golden, field_words, unhex

Record = Callable[[str, object], None]
Item = golden.Item


def test_repeat_specs_decode_as_expected_and_encode_to_the_captured_bytes(record_property: Record) -> None:
    golden.walk("repeat_spec", _check_repeat_spec, record_property)


def test_events_decode_as_expected_and_encode_to_the_captured_fields(record_property: Record) -> None:
    golden.walk("event", _check_event, record_property)


def test_dead_letters_decode_as_expected_and_encode_to_the_captured_fields(record_property: Record) -> None:
    golden.walk("dlq_entry", _check_dead_entry, record_property)


def test_results_decode_as_expected_and_encode_to_the_captured_bytes(record_property: Record) -> None:
    golden.walk("result", _check_result, record_property)


def _check_repeat_spec(item: Item) -> None:
    data = unhex(item["hex"]["spec"])
    if item["origin"] == "captured":
        _check_captured_spec(item, data)
    else:
        _check_handmade_spec(item, data)


def _check_captured_spec(item: Item, data: bytes) -> None:
    expect, context = item["expect"], item["context"]
    spec = repeat_spec.decode(data)
    assert spec == _given_spec(context)
    assert repeat_spec.encode(repeat_spec.check(_given_spec(context))) == data
    assert (spec.key, spec.job_name, spec.fired) == (expect["key"], expect["job_name"], expect["fired"])
    assert [spec.limit, spec.start_after_ms, spec.end_before_ms] == [
        expect["limit"],
        expect["start_after_ms"],
        expect["end_before_ms"],
    ]
    assert spec.payload.to_element().hex() == expect["payload_bin"]
    assert spec.payload.raw.hex() == expect["payload_inner_bin"]
    assert golden.tag(spec.payload.data()) == expect["data"]
    keys = Keys(context["queue"])
    assert keys.repeat.encode() == unhex(item["hex"]["zset_key"])
    assert keys.repeat_spec(spec.key).encode() == unhex(item["hex"]["hash_key"])
    assert unhex(item["hex"]["argv"][-1]) == data


def _given_spec(context: dict[str, Any]) -> RepeatSpec:
    given, kwargs = context["pattern"], context["kwargs"]
    pattern: repeat_spec.Pattern
    pattern = Every(given["interval_ms"]) if given["kind"] == "every" else Cron(given["expression"], given.get("tz"))
    return RepeatSpec(
        key=kwargs.get("key") or repeat_spec.default_key(context["job_name"], pattern),
        job_name=context["job_name"],
        pattern=pattern,
        payload=from_data(golden.value(context["data"])),
        limit=kwargs.get("limit"),
        start_after_ms=kwargs.get("start_after_ms"),
        end_before_ms=kwargs.get("end_before_ms"),
        missed_fires=_given_policy(kwargs.get("missed_fires", {"kind": "skip"})),
    )


def _given_policy(given: dict[str, Any]) -> repeat_spec.MissedFires:
    if given["kind"] == "fire-all":
        return FireAll(given["max_catchup"])
    return FireOnce() if given["kind"] == "fire-once" else Skip()


# The reference takes these specs out of its schedule and leaves their hashes behind. We read them.
READ_BY_US_ALONE = ("hand_len9_skip_array", "hand_len10_newer_upstream_retry")


def _check_handmade_spec(item: Item, data: bytes) -> None:
    if not item["expect"]["listed"] and item["case"] not in READ_BY_US_ALONE:
        with pytest.raises(WireError) as refused:
            repeat_spec.decode(data)
        assert refused.value.data == data
        return
    spec = repeat_spec.decode(data)
    assert repeat_spec.decode(repeat_spec.encode(spec)) == spec
    if item["expect"]["fired"]:
        assert item["expect"]["stream_n"] == [spec.job_name]
        assert isinstance(spec.pattern, Every)
        assert spec.pattern.interval_ms == item["expect"]["next_minus_score"]
    # A payload that is not bin in bin stops the reference's scheduler; ours has it inline.
    assert (spec.payload.form == "inline") is item["expect"]["scheduler_died"]
    if item["case"] == "hand_len10_newer_upstream_retry":
        assert spec.retry is not None
        assert repeat_spec.encode(spec) == data


def _check_event(item: Item) -> None:
    flat, expect = field_words(item["hex"]["fields"]), item["expect"]
    event = event_entry.decode(flat)
    assert (event.kind, event.job_id, event.name) == (expect["event"], expect["job_id"], expect["name"])
    for name in ("ts", "attempt", "reason", "duration_us", "backoff_ms", "delay_ms"):
        assert getattr(event, name) == expect.get(name)
    assert event.extra == ()
    assert event_entry.encode(event) == flat
    assert [word.decode() for word in flat[::2]] == expect["order"]


def _check_dead_entry(item: Item) -> None:
    flat, expect = field_words(item["hex"]["fields"]), item["expect"]
    letter = dead_letter_entry.decode(flat)
    assert (letter.reason, letter.detail, letter.source_id, letter.name) == (
        expect["reason"],
        expect["detail"],
        expect["source_id"],
        expect["name"],
    )
    assert letter.reason in list(dead_letter_entry.DeadLetterReason)
    assert letter.d == golden.value(expect["peek"]["payload"])
    assert dead_letter_entry.encode(letter) == flat
    assert [word.decode() for word in flat[::2]] == expect["field_order"]
    if expect["envelope"]:
        assert_matches_golden(envelope.decode(letter.d), expect["envelope"])
    if expect["replayable"]:
        replayed = envelope.encode(envelope.decode(letter.d).with_attempt(0))
        assert replayed == unhex(item["hex"]["replayed_d"])
    _assert_ours_keeps_the_source(item, letter)


def _assert_ours_keeps_the_source(item: Item, letter: dead_letter_entry.DeadLetterEntry) -> None:
    """The reference drops names and fields of what it cannot read; our dead letters hold them all."""
    source = stream_entry.decode(field_words(item["hex"]["source_fields"]))
    ours = dead_letter_entry.DeadLetterEntry(
        source.d or b"",
        letter.source_id,
        letter.reason,
        letter.detail,
        source.name,
        source.name_bytes,
        source.extra,
    )
    flat = dead_letter_entry.encode(ours)
    assert dead_letter_entry.decode(flat) == ours
    known = [pair for pair in zip(flat[::2], flat[1::2], strict=True) if not pair[0].startswith(b"orig:")]
    assert [name for name, _ in known if name != b"n"] == [
        name.encode() for name in item["expect"]["field_order"] if name != "n"
    ]


def _check_result(item: Item) -> None:
    stored, expect = unhex(item["hex"]["value"]), item["expect"]
    assert golden.tag(result_value.decode(stored)) == expect["value"]
    assert result_value.encode(golden.value(expect["value"])) == stored
    assert result_value.ttl_seconds(item["context"]["result_ttl_ms"]) == expect["ex_seconds"]
    assert Keys(item["context"]["queue"]).result(item["context"]["job_id"]).encode() == unhex(item["hex"]["key"])
