from __future__ import annotations

from typing import Any

import pytest

from chasqui.errors import ArgumentError
from chasqui_cli.input.filters import FilterOptions

NOW = 1_794_962_085_399
RECORD = {
    "name": "mail",
    "reason": "crashed",
    "attempt": 3,
    "data": {"to": "ada", "raw": b"\x01"},
    "at_ms": NOW - 60_000,
}


def keeps(**asked: Any) -> bool:
    return FilterOptions(**asked).compile(NOW, "at_ms")(RECORD)


@pytest.mark.parametrize(
    "asked",
    [
        {"where": "data.to == 'ada' && attempt > `2`"},
        {"where": "data.raw.\"$bin\" == '01'"},
        {"where": "contains(data.to, 'd')"},
        {"name": "ma*"},
        {"reason": "crashed"},
        {"since": "2m"},
        {"until": "now"},
        {"since": "2m", "until": "30s", "name": "mail", "reason": "crashed"},
    ],
)
def test_what_matches_is_selected(asked: dict[str, str]) -> None:
    assert keeps(**asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"where": "data.to == 'bob'"},
        {"where": "nothing.here"},
        {"where": "abs(data.to)"},
        {"name": "Mail"},
        {"name": "m"},
        {"reason": "crash"},
        {"since": "30s"},
        {"until": "2m"},
    ],
)
def test_what_does_not_match_is_left_out_also_where_the_expression_does_not_apply(
    asked: dict[str, str],
) -> None:
    assert not keeps(**asked)


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ("big == `18446744073709551615`", True),
        ("big == `18446744073709551614`", False),
        ("big > `18446744073709551614`", True),
        ("whole == `2`", True),
        ("whole == `2.0`", True),
        ("half > `0.49` && half < `0.51`", True),
        ("yes == `1`", False),
        ("yes", True),
        ("zero", True),
        ("nothing", False),
        ("odd.\"$float\" == 'nan'", True),
        ("raw == '01'", False),
        ("raw.\"$bin\" == '01'", True),
        ("deep[0].a[?b > `1`].b | [0] == `2`", True),
        ("length(keys(@)) == `10`", True),
        ("length(*) == `9`", True),
        ("[big, whole][1] == `2`", True),
        ("{a: whole}.a == `2`", True),
        ("broken.\"$str\" == 'ff'", True),
        ("not_null(missing, whole) == `2`", True),
    ],
)
def test_values_are_compared_as_they_are(where: str, matches: bool) -> None:
    record = {
        "big": 2**64 - 1,
        "whole": 2,
        "half": 0.5,
        "yes": True,
        "zero": 0,
        "nothing": None,
        "odd": float("nan"),
        "raw": b"\x01",
        "deep": [{"a": [{"b": 1}, {"b": 2}]}],
        "broken": "\udcff",
    }
    assert FilterOptions(where=where).compile(NOW, "at_ms")(record) is matches


def test_an_expression_that_is_none_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ArgumentError, match="--where") as refused:
        FilterOptions(where="data.to = 'x'").compile(NOW, "at_ms")
    assert "JMESPath" in (refused.value.hint or "")


def test_a_filter_is_printed_as_a_command_line() -> None:
    assert str(FilterOptions(where="data.to == 'x'", name="a b")) == """--where 'data.to == '"'"'x'"'"'' --name 'a b'"""
    assert FilterOptions().matches_everything
