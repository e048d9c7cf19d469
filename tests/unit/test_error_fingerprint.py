"""Fingerprints of errors: one cause, one text; whatever the text, they are bounded and stable."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chasqui.inspect.error_fingerprint import MAX_CHARS, fingerprint


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("user 123 not found", "user <n> not found"),
        ("took -3.5s, limit 1,000", "took <n>s, limit <n>"),
        ("timeout on 10.0.0.1:6379", "timeout on <ip>"),
        ("no route to 2001:db8:85a3:0:0:8a2e:370:7334", "no route to <ip>"),
        ("KeyError: 'order-17'", "KeyError: <text>"),
        ('column "a" of table "b"', "column <text> of table <text>"),
        ("it doesn't work", "it doesn't work"),
        ("job 550e8400-e29b-41d4-a716-446655440000 is gone", "job <uuid> is gone"),
        ("job 01ARZ3NDEKTSV4RRFFQ69G5FAV is gone", "job <ulid> is gone"),
        ("GET https://api.example.org/v1/x?y=1 said 503", "GET <url> said <n>"),
        ("no mailbox ada.l@example.org", "no mailbox <email>"),
        ("at 0x7f3a, digest deadbeef0123", "at <hex>, digest <hex>"),
        ("order_12ab9 declined", "<id> declined"),
        ("since 2026-11-18T03:00:00Z", "since <time>"),
        ("first line\nTraceback 17", "first line"),
        ("  spaced \t out  ", "spaced out"),
        ("", ""),
    ],
)
def test_what_varies_is_replaced_by_what_it_is(error: str, expected: str) -> None:
    assert fingerprint(error) == expected


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_failures_of_one_cause_have_one_fingerprint(one: int, other: int) -> None:
    def error(number: int) -> str:
        return f"card {number} of 'customer {number}' declined after {number}.5 s at {number % 256}.1.2.3"

    assert fingerprint(error(one)) == fingerprint(error(other))


PIECES = st.sampled_from(
    [
        "0",
        "17",
        "-",
        "_",
        ".",
        ":",
        "/",
        "@",
        "'",
        '"',
        "`",
        "<",
        ">",
        "n",
        "a",
        "f",
        "Z",
        " ",
        "://",
        "0x",
        "<n>",
        "…",
        "é",
    ]
)


@settings(deadline=None)
@given(st.text() | st.lists(PIECES, max_size=400).map("".join))
@example("a" * 195 + " 'x y' 12345678")
@example("x" * 198 + "<n> 17")
@example("1" * 5000)
def test_it_is_bounded_and_its_own_fingerprint(text: str) -> None:
    once = fingerprint(text)
    assert len(once) <= MAX_CHARS
    assert "\n" not in once
    assert fingerprint(once) == once


@pytest.mark.parametrize("text", ["a_" * 1000 + "!", "1-" * 1000, "'" * 2000, "a.b@" * 500, "0:" * 1000, "ab-1_" * 400])
def test_hostile_text_costs_no_more_than_other_text(text: str) -> None:
    began = time.process_time()
    fingerprint(text)
    assert time.process_time() - began < 0.5
