from __future__ import annotations

import pytest

from chasqui.errors import ArgumentError
from chasqui_cli.choosing import Choice

NOW = 1_794_962_085_399
RECORD = {
    "name": "mail",
    "reason": "crashed",
    "attempt": 3,
    "data": {"to": "ada", "raw": b"\x01"},
    "at_ms": NOW - 60_000,
}


def keeps(**asked: str) -> bool:
    return Choice(**asked).judge(NOW, "at_ms")(RECORD)  # type: ignore[arg-type]  # all that is asked here is text


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
def test_what_matches_is_kept(asked: dict[str, str]) -> None:
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


def test_an_expression_that_is_none_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ArgumentError, match="--where") as refused:
        Choice(where="data.to = 'x'").judge(NOW, "at_ms")
    assert "JMESPath" in (refused.value.hint or "")


def test_a_choice_tells_itself_as_a_command_line() -> None:
    assert (
        str(Choice(where="data.to == 'x'", name="a b")) == """--where 'data.to == '"'"'x'"'"'' --name 'a b'"""
    )
    assert Choice().is_everything
