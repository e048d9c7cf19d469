"""Stream entries, events and dead letters: what was written is read, and what is unknown is preserved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ArgumentError, WireError
from chasqui.wire import dead_letter_entry, event_entry, stream_entry
from chasqui.wire.dead_letter_entry import DeadLetterEntry, DeadLetterReason
from chasqui.wire.event_entry import Event
from chasqui.wire.stream_entry import StreamEntry

U64 = st.integers(0, 2**64 - 1)
MAYBE = st.none() | U64
OTHER_FIELDS = st.lists(st.tuples(st.binary(min_size=1).map(lambda name: b"x-" + name), st.binary())).map(tuple)
EVENTS = st.builds(
    Event,
    st.text(),
    st.none() | st.text(min_size=1),
    U64,
    st.text(),
    MAYBE,
    st.none() | st.text(),
    MAYBE,
    MAYBE,
    MAYBE,
    OTHER_FIELDS,
)
LETTERS = st.builds(
    lambda d, source, reason, detail, name, original, extra: DeadLetterEntry(
        d, source, reason, detail, name, name.encode(), original, extra
    ),
    st.binary(),
    st.text(),
    st.text(),
    st.none() | st.text(),
    st.text(),
    st.lists(st.tuples(st.binary(), st.binary())).map(tuple),
    OTHER_FIELDS,
)


@given(st.binary(), st.text())
def test_an_entry_is_read_as_it_was_written(d: bytes, name: str) -> None:
    assert stream_entry.decode(stream_entry.encode(d, name)) == StreamEntry(d, name, name.encode())


def test_the_first_of_a_field_wins_and_the_others_are_preserved() -> None:
    found = stream_entry.decode([b"x", b"1", b"n", b"one", b"d", b"D", b"n", b"two", b"d", b"E"])
    assert found == StreamEntry(b"D", "one", b"one", ((b"x", b"1"), (b"n", b"two"), (b"d", b"E")))


def test_a_missing_payload_is_not_an_empty_one() -> None:
    assert stream_entry.decode([b"n", b"x"]).d is None
    assert stream_entry.decode([b"d", b""]).d == b""
    assert stream_entry.decode([]) == StreamEntry(None)


def test_a_name_that_is_not_utf8_is_no_name_but_keeps_its_bytes() -> None:
    found = stream_entry.decode([b"d", b"D", b"n", b"\xff"])
    assert (found.name, found.name_bytes) == ("", b"\xff")
    assert stream_entry.encode(b"D", found.name_bytes) == [b"d", b"D", b"n", b"\xff"]


def test_a_field_without_a_value_is_refused_with_its_bytes() -> None:
    with pytest.raises(WireError, match="a field has no value") as refused:
        stream_entry.decode([b"n", b"x", b"odd"])
    assert refused.value.data == b"nxodd"


def test_a_name_is_bounded_in_bytes_not_letters() -> None:
    assert stream_entry.encode_name("ñ" * 128) == ("ñ" * 128).encode()
    with pytest.raises(ArgumentError, match=r"job name exceeds 256-byte cap \(got 258 bytes\)"):
        stream_entry.encode_name("ñ" * 129)
    with pytest.raises(ArgumentError, match="job name is not valid Unicode"):
        stream_entry.encode_name("\ud800")


@given(EVENTS)
def test_an_event_is_read_as_it_was_written(event: Event) -> None:
    assert event_entry.decode(event_entry.encode(event)) == event


def test_an_unknown_event_is_read_with_all_its_fields() -> None:
    found = event_entry.decode([b"e", b"progress", b"id", b"j", b"ts", b"5", b"pct", b"40"])
    assert found == Event("progress", "j", 5, extra=((b"pct", b"40"),))


@pytest.mark.parametrize("garbled", [b"", b"-1", b"+1", b"1.5", b"007", b"1_0", "٣".encode(), b" 1", b"9" * 5000])
def test_an_invalid_number_is_preserved(garbled: bytes) -> None:
    flat = [b"e", b"active", b"id", b"j", b"ts", b"5", b"attempt", garbled]
    found = event_entry.decode(flat)
    assert (found.attempt, found.extra) == (None, ((b"attempt", garbled),))
    assert event_entry.encode(found) == flat


def test_an_error_text_that_is_not_utf8_does_not_stop_the_event() -> None:
    fields = event_entry.encode(Event("failed", "j", 5, attempt=1, reason="bad \ud800", duration_us=3))
    assert fields[fields.index(b"reason") + 1] == b"bad ?"


@given(LETTERS)
def test_a_dead_letter_is_read_as_it_was_written(letter: DeadLetterEntry) -> None:
    assert dead_letter_entry.decode(dead_letter_entry.encode(letter)) == letter


def test_a_malformed_entry_becomes_a_dead_letter_with_all_its_fields_apart() -> None:
    source = stream_entry.decode([b"reason", b"forged", b"n", b"mail", b"source_id", b"0-1"])
    letter = DeadLetterEntry(
        b"",
        "7-0",
        DeadLetterReason.MALFORMED,
        dead_letter_entry.NO_PAYLOAD_DETAIL,
        source.name,
        source.name_bytes,
        source.extra,
    )
    flat = dead_letter_entry.encode(letter)
    assert flat[:8] == [b"d", b"", b"n", b"mail", b"source_id", b"7-0", b"reason", b"malformed"]
    assert flat[8:] == [
        b"detail",
        b"missing or non-bytes payload field",
        b"orig:reason",
        b"forged",
        b"orig:source_id",
        b"0-1",
    ]
    assert dead_letter_entry.decode(flat).original == ((b"reason", b"forged"), (b"source_id", b"0-1"))


def test_a_letter_with_fields_missing_is_read_as_empty() -> None:
    assert dead_letter_entry.decode([b"reason", b"stalled"]) == DeadLetterEntry(b"", "", "stalled")


def test_an_unknown_reason_is_preserved() -> None:
    assert dead_letter_entry.decode([b"d", b"", b"source_id", b"1-0", b"reason", b"struck by lightning"]).reason == (
        "struck by lightning"
    )
