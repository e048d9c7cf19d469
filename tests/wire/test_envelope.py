from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ArgumentError, WireError
from chasqui.wire import envelope, msgpack_codec
from chasqui.wire.envelope import Backoff, Envelope, Payload, RetryOverride
from chasqui.wire.payload import from_data, from_element
from chasqui.wire.retry_override import check_backoff
from tests.wire.values import VALUES

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
BACKOFFS = st.builds(
    Backoff,
    st.sampled_from(["fixed", "exponential", "linear", ""]) | st.text(),
    U64,
    st.none() | U64,
    st.none() | st.floats(allow_nan=False),
    st.none() | U64,
)
RETRIES = st.builds(RetryOverride, st.none() | U32, st.none() | BACKOFFS)
PAYLOADS = st.builds(Payload, st.just("bin"), st.binary()) | st.builds(
    lambda value: from_element(msgpack_codec.pack(value)), VALUES
)
JOBS = st.tuples(st.text(), PAYLOADS, U64, U32).map(lambda fields: Envelope(*fields))
HEAD = [b"\xa2id", b"\xc4\x01\x07", b"\x05", b"\x02"]


def joined(*elements: bytes) -> bytes:
    return bytes([0x90 + len(elements)]) + b"".join(elements)


def named(**fields: bytes) -> bytes:
    return bytes([0x80 + len(fields)]) + b"".join(msgpack_codec.pack(name) + value for name, value in fields.items())


@given(JOBS, st.none() | RETRIES)
def test_what_is_encoded_exactly_comes_back_as_it_was(job: Envelope, retry: RetryOverride | None) -> None:
    job = job._replace(retry=retry, elements=5 if retry else 4)
    assert envelope.decode(envelope.encode(job, exact_payload=True)) == job


@given(VALUES)
def test_the_producers_data_comes_back(value: Any) -> None:
    job = envelope.decode(envelope.encode(Envelope("i", from_data(value), 1)))
    assert job.payload.data() == job.payload.handler_value() == value


@given(VALUES)
def test_an_inline_payload_keeps_its_exact_bytes(value: Any) -> None:
    element = msgpack_codec.pack(value)
    job = envelope.decode(joined(b"\xa1i", element, b"\x05", b"\x00"))
    assert job.payload.to_element() == element
    if job.payload.form == "inline":
        assert (job.payload.raw, job.payload.data()) == (element, value)


def test_an_inline_payload_of_wasteful_bytes_is_not_tidied() -> None:
    wasteful = b"\xdd\x00\x00\x00\x02\xd3\x00\x00\x00\x00\x00\x00\x00\x01\xca\x3f\x80\x00\x00"
    data = joined(b"\xa1i", wasteful, b"\x05", b"\x00")
    job = envelope.decode(data)
    assert job.payload == Payload("inline", wasteful)
    assert envelope.encode(job) == data


def test_numbers_that_spell_msgpack_reach_handlers_as_what_they_spell() -> None:
    job = envelope.decode(joined(b"\xa1i", msgpack_codec.pack([0x81, 0xA1, 0x61, 0x05]), b"\x05", b"\x00"))
    assert job.payload.data() == [0x81, 0xA1, 0x61, 0x05]
    assert job.payload.octets == b"\x81\xa1a\x05"
    assert job.payload.handler_value() == {"a": 5}
    assert envelope.encode(job) == joined(b"\xa1i", b"\xc4\x04\x81\xa1a\x05", b"\x05", b"\x00")


def test_numbers_that_spell_nothing_reach_handlers_as_numbers() -> None:
    job = envelope.decode(joined(b"\xa1i", msgpack_codec.pack([6, 7, 7]), b"\x05", b"\x00"))
    assert job.payload.handler_value() == [6, 7, 7]
    assert envelope.encode(job, exact_payload=True) == joined(b"\xa1i", b"\x93\x06\x07\x07", b"\x05", b"\x00")


@pytest.mark.parametrize(
    "element", [b"\x90", b"\x91\xcd\x01\x00", b"\x91\xff", b"\x91\xc3", b"\x80", b"\x05", b"\xa1a"]
)
def test_other_inline_values_spell_no_bytes(element: bytes) -> None:
    job = envelope.decode(joined(b"\xa1i", element, b"\x05", b"\x00"))
    assert job.payload.octets is None
    assert envelope.encode(job) == joined(b"\xa1i", element, b"\x05", b"\x00")


def test_trailing_bytes_are_shown_and_not_rewritten() -> None:
    job = envelope.decode(joined(*HEAD) + b"tail")
    assert (job.trailing, job.elements) == (b"tail", 4)
    assert envelope.encode(job) == joined(*HEAD)


def test_a_map_is_read_by_names_by_byte_names_and_by_numbers() -> None:
    by_name = named(attempt=b"\x02", payload=b"\xc4\x01\x07", id=b"\xa2id", created_at_ms=b"\x05", later=b"\x01")
    by_bytes = b"\x83\xc4\x02id\xa2id\xc4\x07payload\xc4\x01\x07\xc4\x0dcreated_at_ms\x05"
    by_number = b"\x84\x00\xa2id\x01\xc4\x01\x07\x02\x05\x03\x02"
    for data, attempt in ((by_name, 2), (by_bytes, 0), (by_number, 2)):
        assert envelope.decode(data) == Envelope("id", Payload("bin", b"\x07"), 5, attempt, elements=0)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (b"\xa5fixed", "fixed"),
        (b"\xc4\x05fixed", "fixed"),
        (b"\x00", "fixed"),
        (b"\x01", "exponential"),
        (b"\x02", "unknown"),
        (b"\x63", "unknown"),
        (b"\x81\xa5fixed\xc0", "fixed"),
        (b"\x81\xa6linear\xc0", "linear"),
        (b"\x81\x01\xc0", "exponential"),
        (b"\xa6linear", "linear"),
        (b"\xa2\xff\xfe", "unknown"),
        (b"\xc4\x01\xff", "unknown"),
        (b"\x81\xa1\xff\xc0", "unknown"),
    ],
)
def test_a_backoff_kind_is_read_in_every_form(kind: bytes, text: str) -> None:
    backoff = joined(kind, b"\x0a", b"\xc0", b"\x03", b"\xc0")
    retry = envelope.decode(joined(*HEAD, joined(b"\xc0", backoff))).retry
    assert retry == RetryOverride(None, Backoff(text, 10, None, 3.0, None))


def test_retry_and_backoff_are_read_as_maps_with_parts_missing() -> None:
    backoff = named(delay_ms=b"\x0a", kind=b"\xa5fixed", colour=b"\xc0")
    assert envelope.decode(joined(*HEAD, named(backoff=backoff))).retry == RetryOverride(None, Backoff("fixed", 10))
    assert envelope.decode(joined(*HEAD, b"\x80")).retry == RetryOverride()


RESERVED_EXT, BROKEN_TIMESTAMP = b"\xd4\xfe\x07", b"\xd4\xff\x07"


@pytest.mark.parametrize("value", [RESERVED_EXT, BROKEN_TIMESTAMP, b"\x91" * 2000 + b"\xc0"])
def test_unknown_fields_are_skipped_unread(value: bytes) -> None:
    backoff = named(kind=b"\xa5fixed", colour=value, delay_ms=b"\x0a")
    retry = named(max_attempts=b"\x03", later=value, backoff=backoff)
    job = envelope.decode(named(id=b"\xa1i", payload=b"\xc4\x00", created_at_ms=b"\x05", more=value, retry=retry))
    assert job.retry == RetryOverride(3, Backoff("fixed", 10))


def test_text_that_is_not_utf8_is_bytes_to_the_reference_and_is_rewritten_as_such() -> None:
    data = joined(b"\xa1i", b"\xa2\xc4\x00", b"\x05", b"\x00")
    job = envelope.decode(data)
    assert (job.payload.form, job.payload.octets, job.payload.handler_value()) == ("inline", b"\xc4\x00", b"")
    assert envelope.encode(job) == joined(b"\xa1i", b"\xc4\x02\xc4\x00", b"\x05", b"\x00")
    assert envelope.encode(job, exact_payload=True) == data


def test_an_unknown_kind_keeps_its_text_when_rewritten() -> None:
    job = Envelope("i", from_data(1), 1, 0, RetryOverride(3, Backoff("decorrelated", 5)), 5)
    again = envelope.decode(envelope.encode(job.with_attempt(1)))
    assert again == job.with_attempt(1)


def test_a_multiplier_given_as_a_whole_number_is_written_as_a_float() -> None:
    job = Envelope("i", from_data(1), 1, 0, RetryOverride(None, Backoff("exponential", 5, None, 3)))
    assert envelope.encode(job).endswith(b"\xabexponential\x05\xc0\xcb\x40\x08" + bytes(6) + b"\xc0")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not msgpack: it ends too early"),
        (b"\x07", "envelope is neither an array nor a map"),
        (joined(*HEAD[:2]), "envelope has 2 elements, not 3 to 5"),
        (joined(*HEAD, b"\xc0", b"\xc0"), "envelope has 6 elements, not 3 to 5"),
        (joined(b"\x07", *HEAD[1:]), "envelope id: int where text belongs"),
        (joined(b"\xc0", *HEAD[1:]), "envelope id: nil where text belongs"),
        (joined(b"\xa1\xff", *HEAD[1:]), "envelope id: text is not UTF-8"),
        (joined(b"\xc4\x01\xff", *HEAD[1:]), "envelope id: text is not UTF-8"),
        (joined(*HEAD[:2], b"\xff", b"\x00"), "envelope created_at_ms: -1 is negative"),
        (
            joined(*HEAD[:3], b"\xcf\x00\x00\x00\x01" + bytes(4)),
            "envelope attempt: 4294967296 does not fit 32 bits",
        ),
        (joined(*HEAD[:3], b"\xc3"), "envelope attempt: bool where a whole number belongs"),
        (joined(*HEAD, b"\x07"), "retry is neither an array nor a map"),
        (joined(*HEAD, b"\x91\xc0"), "retry has 1 elements, not 2"),
        (joined(*HEAD, joined(b"\xc0", b"\x94\x00\x01\xc0\xc0")), "backoff has 4 elements, not 5"),
        (
            joined(*HEAD, joined(b"\xc0", b"\x95\xc3\x01\xc0\xc0\xc0")),
            "backoff kind: bool where text belongs",
        ),
        (joined(*HEAD, joined(b"\xc0", b"\x95\xff\x01\xc0\xc0\xc0")), "backoff kind: int where text belongs"),
        (
            joined(*HEAD, joined(b"\xc0", b"\x95\x00\x01\xc0\xa11\xc0")),
            "backoff multiplier: str where a number belongs",
        ),
        (named(id=b"\xa1i", payload=b"\xc4\x00"), "envelope lacks created_at_ms"),
        (b"\x84\xa2id\xa1i\x00\xa1j\x01\xc4\x00\x02\x05", "envelope names id twice"),
    ],
)
def test_an_invalid_envelope_is_refused_with_its_error(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as refused:
        envelope.decode(data)
    assert (str(refused.value), refused.value.data) == (reason, data)


def test_the_limit_is_counted_in_bytes_and_equality_passes() -> None:
    data = joined(*HEAD)
    assert envelope.decode(data, len(data)).id == "id"
    with pytest.raises(WireError, match="envelope of 9 bytes, over the limit of 8"):
        envelope.decode(data, len(data) - 1)


def test_an_attempt_never_outgrows_its_field() -> None:
    job = Envelope("i", from_data(1), 1)
    assert envelope.decode(envelope.encode(job.with_attempt(2**40))).attempt == 2**32 - 1


@pytest.mark.parametrize(
    ("retry", "reason"),
    [
        (RetryOverride(-1), "retry.max_attempts must be a non-negative int"),
        (RetryOverride(2**32), "retry.max_attempts must be a non-negative int"),
        (RetryOverride(True), "retry.max_attempts must be a non-negative int"),
        (RetryOverride(None, Backoff("fixed", -1)), "backoff.delay_ms must be a non-negative int"),
        (RetryOverride(None, Backoff("fixed", 2**64)), "backoff.delay_ms must be a non-negative int"),
        (RetryOverride(None, Backoff("fixed", 1, -1)), "backoff.max_delay_ms must be a non-negative int"),
        (RetryOverride(None, Backoff("fixed", 1, None, 10**400)), "backoff.multiplier must be a float"),
        (
            RetryOverride(None, Backoff("fixed", 1, None, None, -1)),
            "backoff.jitter_ms must be a non-negative int",
        ),
    ],
)
def test_an_override_that_could_not_be_read_again_is_not_written(retry: RetryOverride, reason: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        envelope.encode(Envelope("i", from_data(1), 1, 0, retry))
    assert str(refused.value) == reason


def test_a_producer_may_only_ask_for_kinds_that_consumers_know() -> None:
    assert check_backoff(Backoff("fixed", 1)) == Backoff("fixed", 1)
    with pytest.raises(ArgumentError, match="unknown backoff kind \"linear\"; expected 'fixed' or 'exponential'"):
        check_backoff(Backoff("linear", 1))
