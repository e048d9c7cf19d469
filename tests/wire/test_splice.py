"""Splicing: a changed value's bytes, with the very bytes of everything that did not change."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui.wire.msgpack_codec import ExtType, MsgpackMap, Timestamp, pack, unpack
from chasqui.wire.msgpack_splice import is_same_value, splice

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary()
    | st.builds(ExtType, st.integers(0, 127), st.binary())
    | st.builds(Timestamp, st.integers(0, 2**33), st.integers(0, 999_999_999))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES, VALUES)
def test_the_bytes_are_those_of_the_new_value(before: Any, after: Any) -> None:
    found = unpack(splice(pack(before), before, after), 1 << 30)
    assert is_same_value(found, after)


@given(VALUES)
def test_what_did_not_change_keeps_its_bytes(value: Any) -> None:
    raw = b"\xcf" + struct.pack(">Q", 5)  # a small number in a long form
    data = b"\x82\xa1a" + raw + b"\xa1b" + pack(value)
    before = unpack(data, 1 << 30)
    after = {"a": 5, "b": "other", "c": [1]}
    assert splice(data, before, after) == b"\x83\xa1a" + raw + b"\xa1b\xa5other\xa1c\x91\x01"


def test_odd_forms_survive_beside_a_change() -> None:
    float32 = b"\xca" + struct.pack(">f", 0.5)
    broken_text = b"\xa2\xc3\x28"
    ext = b"\xd4\x07\xaa"
    data = b"\x94" + float32 + broken_text + ext + b"\x01"
    before = unpack(data)
    assert splice(data, before, [*before[:3], 2]) == data[:-1] + b"\x02"


def test_maps_that_no_dict_can_hold_can_still_be_changed() -> None:
    data = b"\x83\x01\xa1x\x01\xa1y\x91\x02\xa1z"
    before = unpack(data)
    assert isinstance(before, MsgpackMap)
    after = MsgpackMap((*before.pairs[:2], (before.pairs[2][0], "w")))
    assert splice(data, before, after) == data[:-1] + b"w"


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0.0, -0.0), ("a", b"a"), ([], {}), ({"a": 1}, {"a": 2})]
)
def test_values_of_different_kinds_are_different(one: Any, other: Any) -> None:
    assert not is_same_value(one, other)
    assert splice(pack(one), one, other) == pack(other)


@pytest.mark.parametrize("length", [15, 16, 70_000])
def test_headers_are_the_shortest_there_are(length: int) -> None:
    before: list[int] = [0]
    after = [0] * length
    assert splice(pack(before), before, after) == msgpack.packb(after)
    keys = {str(number): number for number in range(length)}
    assert splice(pack({}), {}, keys) == msgpack.packb(keys)
