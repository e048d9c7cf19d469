from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui import ArgumentError, ExtType, MsgpackMap, Timestamp
from chasqui.wire.msgpack_splice import is_same_value
from chasqui_cli.output.tagged_json import MAX_DEPTH, json_text, tagged, untagged
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: not key.startswith("$")), inner),
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\xc0\xff", {"$bin": "c0ff"}),
        (ExtType(5, b"\x01"), {"$ext": [5, "01"]}),
        (Timestamp(-3, 7), {"$timestamp": [-3, 7]}),
        (MsgpackMap(((7, "a"), ("b", 1))), {"$map": [[7, "a"], ["b", 1]]}),
        ({"$bin": "aa"}, {"$map": [["$bin", "aa"]]}),
        (math.inf, {"$float": "inf"}),
        ("\udcff", {"$str": "ff"}),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (1.5, 1.5),
        ((1, "a"), [1, "a"]),
    ],
)
def test_what_json_cannot_carry_is_tagged(value: object, expected: object) -> None:
    assert tagged(value) == expected
    assert json.loads(json_text(value)) == expected


def test_nan_is_tagged() -> None:
    assert tagged(math.nan) == {"$float": "nan"}


@given(JSON_VALUES)
def test_plain_json_values_survive_unchanged(value: object) -> None:
    assert json.loads(json_text(value)) == value


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
def test_json_is_harmless_on_a_terminal_and_still_means_the_same(text: str) -> None:
    written = json_text({text: text}, indent=2)
    assert is_harmless(written)
    assert json.loads(written) == tagged({text: text})


def test_a_value_too_deep_to_show_is_cut_where_display_ends() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert json_text(deep).count("[") == MAX_DEPTH
    assert f'{{"$deep": {MAX_DEPTH}}}' in json_text(deep)


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.builds(ExtType, st.integers(0, 127), st.binary())
    | st.builds(Timestamp, st.integers(0, 2**33), st.integers(0, 999_999_999))
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.just("$bin"), inner)
        | st.lists(st.tuples(st.integers(), inner), min_size=1).map(lambda pairs: MsgpackMap(tuple(pairs)))
    ),
    max_leaves=20,
)


@given(_VALUES)
def test_untagged_is_the_way_back(value: Any) -> None:
    assert is_same_value(untagged(json.loads(json_text(value))), value)


@pytest.mark.parametrize(
    "text",
    [
        '{"$bin": "xyz"}',
        '{"$bin": 7}',
        '{"$ext": [1]}',
        '{"$ext": [300, "00"]}',
        '{"$timestamp": [1, -1]}',
        '{"$map": [[1]]}',
        '{"$map": 7}',
        '{"$float": "wide"}',
        '{"$deep": 128}',
        '{"$nothing": 1}',
        '{"$bin": "00", "more": 1}',
    ],
)
def test_what_looks_like_a_tag_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        untagged({"deep": [json.loads(text)]})
    assert refused.value.hint
