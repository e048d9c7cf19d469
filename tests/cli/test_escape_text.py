from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui_cli.output.escape_text import safe
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
def test_hostile_text_comes_out_harmless_and_on_one_line(text: str) -> None:
    shown = safe(text)
    assert is_harmless(shown)
    assert "\n" not in shown


@given(st.text(st.characters(), max_size=200))
def test_any_text_comes_out_harmless(text: str) -> None:
    assert is_harmless(safe(text))
    assert "\n" not in safe(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Mn"]), max_size=50))
def test_readable_text_of_any_script_is_left_alone(text: str) -> None:
    assert safe(text) == text


def test_what_was_hidden_can_be_read() -> None:
    assert safe("a\x1b[2J\u202eb\U000e0041\r\n\t") == r"a\x1b[2J\u202eb\U000e0041\r\n\t"


def test_long_text_is_cut_and_marked() -> None:
    assert safe("abcdef", limit=4) == "abc…"
    assert safe("abcd", limit=4) == "abcd"
