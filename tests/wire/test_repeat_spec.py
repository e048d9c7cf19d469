from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ArgumentError, WireError
from chasqui.wire import msgpack_codec, repeat_spec
from chasqui.wire.payload import Payload, from_data, from_element
from chasqui.wire.repeat_spec import Cron, Every, FireAll, FireOnce, RepeatSpec, Skip
from chasqui.wire.retry_override import Backoff, RetryOverride
from tests.wire.values import VALUES

U64 = st.integers(0, 2**64 - 1)
SPECS = st.builds(
    RepeatSpec,
    key=st.text(),
    job_name=st.text(),
    pattern=st.builds(Every, U64) | st.builds(Cron, st.text(), st.none() | st.text()),
    payload=VALUES.map(from_data) | VALUES.map(lambda value: from_element(msgpack_codec.pack(value))),
    limit=st.none() | U64,
    start_after_ms=st.none() | U64,
    end_before_ms=st.none() | U64,
    missed_fires=st.just(Skip()) | st.just(FireOnce()) | st.builds(FireAll, U64),
    fired=U64,
    retry=st.none() | st.just(RetryOverride(3, Backoff("fixed", 5))),
)
EVERY = {"Every": [5]}
BARE = ["k", "n", EVERY, b"\xc4\x01\x07", None, None, None]


def plain(**changes: Any) -> RepeatSpec:
    return replace(RepeatSpec("k", "n", Every(5), Payload("bin", b"\x07")), **changes)


@given(SPECS)
def test_a_spec_is_read_as_it_was_written(spec: RepeatSpec) -> None:
    assert repeat_spec.decode(repeat_spec.encode(spec)) == spec


@pytest.mark.parametrize(
    ("spec", "elements"),
    [
        (plain(), 8),
        (plain(missed_fires=FireOnce()), 9),
        (plain(missed_fires=FireAll(3)), 9),
        (plain(retry=RetryOverride(3)), 10),
    ],
)
def test_a_spec_is_no_longer_than_it_must_be(spec: RepeatSpec, elements: int) -> None:
    assert len(msgpack_codec.unpack(repeat_spec.encode(spec))) == elements


@pytest.mark.parametrize(
    ("policy", "read"),
    [
        ("Skip", Skip()),
        ({"Skip": None}, Skip()),
        ({"Skip": []}, Skip()),
        ("FireOnce", FireOnce()),
        ({"FireOnce": None}, FireOnce()),
        ({"FireAll": [4]}, FireAll(4)),
        ({"FireAll": {"max_catchup": 4}}, FireAll(4)),
        (0, Skip()),
        (1, FireOnce()),
        ({1: None}, FireOnce()),
        ({2: [4]}, FireAll(4)),
        (b"FireOnce", FireOnce()),
    ],
)
def test_a_policy_is_read_in_every_form(policy: object, read: repeat_spec.MissedFires) -> None:
    assert repeat_spec.decode(msgpack_codec.pack([*BARE, 0, policy])) == plain(missed_fires=read)


@pytest.mark.parametrize(
    ("pattern", "read"),
    [
        ({"Every": {"interval_ms": 5}}, Every(5)),
        ({"Cron": ["* * * * *", None]}, Cron("* * * * *")),
        ({"Cron": {"expression": "@daily", "tz": "Asia/Tokyo"}}, Cron("@daily", "Asia/Tokyo")),
        ({"Cron": {"expression": "@daily"}}, Cron("@daily")),
        ({0: [5]}, Every(5)),
        ({1: ["@daily", None]}, Cron("@daily")),
    ],
)
def test_a_pattern_is_read_in_every_form(pattern: object, read: repeat_spec.Pattern) -> None:
    assert repeat_spec.decode(msgpack_codec.pack(["k", "n", pattern, *BARE[3:]])) == plain(pattern=read)


def test_unknown_fields_are_skipped_unread() -> None:
    broken_timestamp = b"\xa1?\xd4\xff\x07"
    every = b"\x81\xa5Every\x82" + broken_timestamp + b"\xabinterval_ms\x05"
    policy = b"\x81\xa7FireAll\x82\xabmax_catchup\x04" + broken_timestamp
    data = b"\x99\xa1k\xa1n" + every + b"\xc4\x03\xc4\x01\x07\xc0\xc0\xc0\x00" + policy
    assert repeat_spec.decode(data) == plain(missed_fires=FireAll(4))


@pytest.mark.parametrize(
    "stored",
    [
        b"\xc4\x03\xc4\x01\x07",
        b"\x93\xcc\xc4\x01\x07",
        b"\xa3\xc4\x01\x07",
        b"\xc4\x08\xc4\x01\x07trail",
        b"\xc4\x0a\xc6\x00\x00\x00\x01\x07tail",
    ],
    ids=["bin", "numbers", "text-not-utf8", "bytes-after-it", "wide"],
)
def test_a_payload_is_read_however_it_is_wrapped(stored: bytes) -> None:
    data = b"\x97\xa1k\xa1n" + msgpack_codec.pack(EVERY) + stored + b"\xc0\xc0\xc0"
    assert repeat_spec.decode(data) == plain()


def test_a_map_may_leave_out_what_is_optional() -> None:
    data = msgpack_codec.pack({"payload": b"\xc4\x01\x07", "pattern": EVERY, "job_name": "n", "key": "k", "colour": 1})
    assert repeat_spec.decode(data) == plain()


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ([*BARE[:6]], "spec has 6 elements, not 7 to 10"),
        ([*BARE, 0, "FireSometimes"], "spec missed_fires is none we know"),
        ([*BARE, 0, {"Skip": [1]}], "spec missed_fires is none we know"),
        ([*BARE, 0, 7], "spec missed_fires is int, not one named variant"),
        (["k", "n", {"Hourly": [1]}, *BARE[3:]], "spec pattern is none we know"),
        (["k", "n", {"Every": [1], "Cron": []}, *BARE[3:]], "spec pattern is dict, not one named variant"),
        (["k", "n", {"Every": [-1]}, *BARE[3:]], "every interval_ms: -1 is negative"),
        (["k", "n", {"Cron": ["* * * * *"]}, *BARE[3:]], "cron has 1 elements, not 2"),
        (["k", "n", EVERY, {"a": 1}, None, None, None], "spec payload is not wrapped in a bin"),
        (["k", "n", EVERY, b"\x01\x02", None, None, None], "spec payload: 1 bytes follow the payload"),
        (["k", "n", EVERY, b"\xc1", None, None, None], "spec payload: not msgpack: byte 0xc1"),
        ([7, *BARE[1:]], "spec key: int where text belongs"),
        ([*BARE[:4], 1.5, None, None], "spec limit: float where a whole number belongs"),
    ],
)
def test_an_invalid_spec_is_refused_with_its_error(stored: list[object], reason: str) -> None:
    data = msgpack_codec.pack(stored)
    with pytest.raises(WireError) as refused:
        repeat_spec.decode(data)
    assert (str(refused.value), refused.value.data) == (reason, data)


def test_a_key_is_derived_letter_for_letter_and_utc_is_the_zone_of_none() -> None:
    assert repeat_spec.default_key("roll up", Every(5)) == "roll up::every:5"
    assert repeat_spec.default_key("", Cron(" 0 9 * * MON ", None)) == "::cron: 0 9 * * MON :UTC"
    assert repeat_spec.default_key("n", Cron("@daily", "UTC")) == repeat_spec.default_key("n", Cron("@daily"))
    assert repeat_spec.default_key("n", Cron("@daily", "")) == "n::cron:@daily:"


def test_a_producer_may_not_fire_always_or_make_up_for_nothing() -> None:
    assert repeat_spec.check(plain(missed_fires=FireAll(1))) == plain(missed_fires=FireAll(1))
    with pytest.raises(ArgumentError, match=r"pattern\.interval_ms must be > 0"):
        repeat_spec.check(plain(pattern=Every(0)))
    with pytest.raises(ArgumentError, match=r"must be a positive integer \(>= 1\), got 0"):
        repeat_spec.check(plain(missed_fires=FireAll(0)))


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (plain(limit=-1), "spec.limit"),
        (plain(limit=2**64), "spec.limit"),
        (plain(start_after_ms=-1), "spec.start_after_ms"),
        (plain(end_before_ms=-1), "spec.end_before_ms"),
        (plain(pattern=Every(-5)), "pattern.interval_ms"),
        (plain(pattern=Every(2**64)), "pattern.interval_ms"),
        (plain(missed_fires=FireAll(2**32)), "missed_fires.max_catchup"),
    ],
)
def test_a_spec_that_could_not_be_read_again_is_refused(spec: RepeatSpec, name: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        repeat_spec.check(spec)
    assert str(refused.value) == f"{name} must be a non-negative int"
