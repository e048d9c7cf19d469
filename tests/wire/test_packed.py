from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.errors import ArgumentError, WireError
from chasqui.wire import msgpack_codec, msgpack_scan
from chasqui.wire.msgpack_codec import MsgpackMap, Undecodable, pack, unpack
from tests.wire.values import VALUES


@given(VALUES)
def test_every_value_comes_back_as_it_was(value: Any) -> None:
    assert unpack(pack(value)) == value


@given(VALUES, st.binary())
def test_the_walk_ends_where_the_value_ends(value: Any, rest: bytes) -> None:
    data = pack(value)
    assert msgpack_scan.end_of(data + rest) == len(data)


@given(st.lists(VALUES, max_size=20), st.binary())
def test_a_list_taken_apart_is_its_elements_and_what_follows(values: list[Any], rest: bytes) -> None:
    found = msgpack_scan.split_value(pack(values) + rest)
    assert (found.kind, found.rest) == ("array", rest)
    assert found.children == tuple(pack(value) for value in values)


@given(st.dictionaries(st.text(), VALUES, max_size=20))
def test_a_map_taken_apart_is_its_keys_and_values_in_turn(values: dict[str, Any]) -> None:
    found = msgpack_scan.split_value(pack(values))
    assert found.kind == "map"
    assert found.children == tuple(pack(part) for pair in values.items() for part in pair)


@given(st.dictionaries(st.integers(-300, 300), st.integers(0, 9), min_size=1))
def test_a_map_with_other_than_text_keys_keeps_its_pairs_and_packs_again(numbers: dict[int, int]) -> None:
    data = pack(numbers)
    found = unpack(data)
    assert found == MsgpackMap(tuple(numbers.items()))
    assert [found[key] for key in numbers] == list(numbers.values())
    assert pack(found) == data


def test_repeated_keys_and_keys_without_a_hash_survive() -> None:
    assert unpack(b"\x82\xa1a\x01\xa1a\x02") == MsgpackMap((("a", 1), ("a", 2)))
    assert unpack(b"\x81\x91\x01\x02") == MsgpackMap((([1], 2),))
    assert unpack(b"\x82\x01\xa1x\xc3\xa1y") == MsgpackMap(((1, "x"), (True, "y")))


def test_extension_types_with_reserved_codes_survive() -> None:
    data = b"\x92\xd4\xfe\x07\xc7\x00\x80"
    found = unpack(data)
    assert [(value.code, value.data) for value in found] == [(-2, b"\x07"), (-128, b"")]
    assert pack(found) == data


def test_a_view_with_gaps_is_refused_like_any_other_value_that_cannot_be_stored() -> None:
    with pytest.raises(ArgumentError, match="cannot be stored"):
        pack(memoryview(b"abcd")[::2])


def test_a_key_is_found_by_value_and_kind() -> None:
    pairs = MsgpackMap(((1, "one"), (True, "yes"), (1, "uno")))
    assert (pairs[1], pairs[True], len(pairs)) == ("uno", "yes", 3)
    with pytest.raises(KeyError):
        pairs[1.0]


def test_text_that_is_not_utf8_keeps_its_bytes() -> None:
    found = unpack(b"\xa4ok\xff\xfe")
    assert found.encode("utf-8", "surrogateescape") == b"ok\xff\xfe"
    surrogate = unpack(b"\xa3\xed\xa0\x80")
    assert surrogate.encode("utf-8", "surrogateescape") == b"\xed\xa0\x80"


def test_depth_to_a_thousand_is_decoded() -> None:
    found = unpack(b"\x91" * 1000 + b"\xc0")
    depth = 0
    while isinstance(found, list):
        found, depth = found[0], depth + 1
    assert depth == 1000


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not msgpack: Unpack failed: incomplete input"),
        (b"\x01\x02\x03", "2 bytes follow the value"),
        (b"\x91" * 2000 + b"\xc0", "nested too deeply"),
        (b"\xc1", "not msgpack: byte 0xc1"),
        (b"\xc7\x05\xff12345", "not msgpack: invalid timestamp data (length 5)"),
    ],
)
def test_what_cannot_be_decoded_has_a_reason_and_the_bytes(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as refused:
        unpack(data)
    assert (str(refused.value), refused.value.data) == (reason, data)
    assert msgpack_codec.unpack_or_undecodable(data) == Undecodable(data, reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime cannot be stored"),
        ([date(2026, 1, 1)], "date cannot be stored"),
        ({"x": object()}, "object cannot be stored"),
        (2**64, "a number that does not fit 64 bits cannot be stored"),
        ("\ud800", "text that is not valid Unicode cannot be stored: surrogates not allowed"),
        ({"k": "\udcff"}, "text that is not valid Unicode cannot be stored: surrogates not allowed"),
        (MsgpackMap((("a", 1), ("a", 2))), "a map with repeated keys cannot be stored"),
        (MsgpackMap((([], 1),)), "a map whose keys are lists or maps cannot be stored"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_a_reason(value: Any, reason: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        pack(value)
    assert str(refused.value) == reason


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match="cannot be stored"):
        pack(endless)


def test_a_reused_packer_is_clean_after_a_refusal() -> None:
    keep = msgpack_codec.packer()
    with pytest.raises(ArgumentError):
        keep([1, 2, object()])
    assert keep([3]) == b"\x91\x03"


def test_floats_are_always_written_in_64_bits() -> None:
    assert pack(1.5) == b"\xcb\x3f\xf8" + bytes(6)
    assert math.isnan(unpack(pack(math.nan)))


@pytest.mark.parametrize("data", [b"", b"\x92\x01", b"\xc4\x05ab", b"\xcd\x01", b"\xd6\x01ab", b"\x81\xa1a", b"\xdc"])
def test_the_walk_refuses_what_ends_too_early(data: bytes) -> None:
    with pytest.raises(WireError, match="ends too early"):
        msgpack_scan.end_of(data)
