from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ArgumentError, WireError
from chasqui.wire import delayed_member, envelope
from chasqui.wire.envelope import Backoff, Envelope, RetryOverride
from chasqui.wire.payload import Payload, from_data
from tests.wire.values import VALUES

NAMES = st.text(max_size=60)
JOBS = st.tuples(st.text(min_size=1), VALUES.map(from_data), st.integers(0, 2**48), st.integers(0, 9)).map(
    lambda fields: Envelope(*fields)
)


@given(JOBS, NAMES)
def test_both_prefixes_are_read_back_as_what_they_are(job: Envelope, name: str) -> None:
    data = envelope.encode(job)
    for form in ("u32le", "u8"):
        found = delayed_member.decode(delayed_member.encode(data, name, form))
        assert (found.prefix, found.name, found.envelope_bytes, found.envelope) == (form, name, data, job)


@given(JOBS)
def test_a_bare_envelope_is_read_without_a_name(job: Envelope) -> None:
    found = delayed_member.decode(envelope.encode(job))
    assert (found.prefix, found.name, found.envelope) == ("none", "", job)


def test_a_four_byte_length_is_little_endian() -> None:
    assert delayed_member.encode(b"E", "ab") == b"\x02\x00\x00\x00abE"
    assert delayed_member.encode(b"E", b"\xff" * 256)[:5] == b"\x00\x01\x00\x00\xff"
    assert delayed_member.encode(b"E") == b"\x00\x00\x00\x00E"


def test_a_one_byte_length_holds_255_bytes_of_name() -> None:
    assert delayed_member.encode(b"E", "n" * 255, "u8")[:2] == b"\xffn"
    with pytest.raises(ArgumentError, match=r"names to 255 bytes \(got 256 bytes\)"):
        delayed_member.encode(b"E", "n" * 256, "u8")


def test_a_name_beyond_the_cap_as_specs_may_have_is_read_too() -> None:
    data = envelope.encode(Envelope("i", from_data(1), 1, 1, RetryOverride(3, Backoff("fixed", 5)), 5))
    found = delayed_member.decode(delayed_member.encode(data, "ñ" * 300))
    assert (found.prefix, found.name, found.envelope_bytes) == ("u32le", "ñ" * 300, data)


def test_a_name_that_is_not_utf8_keeps_its_bytes() -> None:
    data = envelope.encode(Envelope("i", from_data(1), 1))
    found = delayed_member.decode(delayed_member.encode(data, b"a\xff"))
    assert (found.name, found.name_bytes) == ("a�", b"a\xff")


def test_a_payload_that_holds_an_envelope_does_not_make_the_job_around_it_a_name() -> None:
    inner = envelope.encode(Envelope("inner", from_data(1), 1))
    filler = b"f" * (1 + 0x94 - len(b"\x94\xa1i\xc4\xff"))
    job = Envelope("i", Payload("bin", filler + inner), 1)
    data = envelope.encode(job)
    assert data[1 + data[0] :].startswith(inner)
    found = delayed_member.decode(data)
    assert (found.prefix, found.name_bytes, found.envelope) == ("none", b"", job)


def test_bytes_may_follow_the_envelope_whatever_stands_before_it() -> None:
    data = envelope.encode(Envelope("i", from_data(1), 1)) + b"more"
    for form in ("u32le", "u8"):
        found = delayed_member.decode(delayed_member.encode(data, "nm", form))
        assert (found.prefix, found.name, found.envelope.trailing) == (form, "nm", b"more")
    assert delayed_member.decode(data).prefix == "none"


@pytest.mark.parametrize("member", [b"", b"\x00", b"\x01\x00\x00", b"\x02\x00\x00\x00nm", b"\xf4\x01\x00\x00abc"])
def test_a_corrupt_member_is_an_error_with_its_bytes(member: bytes) -> None:
    with pytest.raises(WireError, match="delayed member has no readable form") as refused:
        delayed_member.decode(member)
    assert refused.value.data == member


def test_a_delay_is_bounded_in_whole_seconds() -> None:
    month_ms = 2_592_000_000
    assert delayed_member.check_delay(month_ms + 999) == month_ms + 999
    with pytest.raises(ArgumentError, match="delay 2592001s exceeds max_delay_secs 2592000s"):
        delayed_member.check_delay(month_ms + 1000)
    assert delayed_member.check_delay(month_ms * 99, max_delay_s=0) == month_ms * 99
    with pytest.raises(ArgumentError, match="delay_ms must be non-negative; got -1"):
        delayed_member.check_delay(-1)
