from __future__ import annotations

import pytest

from chasqui import MsgpackMap
from chasqui_cli.output.redaction import PLACEHOLDER, has_secrets, redacted


@pytest.mark.parametrize(
    "key",
    ["password", "PASSWORD", "userPassword", "db_password", "api_key", "apiKey", "API-KEY", "access_token", "Authorization",
     "card_number", "ssn", "client_secret", "X-Auth-Token", "privateKey", "cvv"],
)  # fmt: skip
def test_values_under_secret_names_are_covered_however_the_name_is_written(key: str) -> None:
    assert redacted({key: "hunter2"}) == {key: PLACEHOLDER}
    assert redacted({"deep": [{key: {"a": 1}}]}) == {"deep": [{key: PLACEHOLDER}]}


@pytest.mark.parametrize("key", ["to", "author", "passenger", "cardinal", "keynote", "monkey"])
def test_names_that_only_look_similar_are_not(key: str) -> None:
    assert redacted({key: "x"}) == {key: "x"}


def test_text_that_carries_its_own_secret_is_covered() -> None:
    assert redacted("redis://u:hunter2@db:6379/0") == f"redis://u:{PLACEHOLDER}@db:6379/0"
    assert redacted({"h": "Bearer abcdefgh.ijklmnop"}) == {"h": f"Bearer {PLACEHOLDER}"}
    assert redacted("see https://example.com/a:b@c") == "see https://example.com/a:b@c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "no address in {'to': 'x', 'password': 'hunter2'}",
            f"no address in {{'to': 'x', 'password': {PLACEHOLDER}}}",
        ),
        ('{"api_key":"a b","n":1}', f'{{"api_key":{PLACEHOLDER},"n":1}}'),
        ("GET /x?token=abc&y=1", f"GET /x?token={PLACEHOLDER}&y=1"),
        ("the token is gone", "the token is gone"),
    ],
)
def test_an_error_that_quotes_a_secret_is_covered(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_nothing_else_changes() -> None:
    whole = {"a": [1, None, True, b"\x00", 1.5], "b": {"c": "x"}, "empty": {"password": ""}}
    assert redacted(whole) == whole
    assert not has_secrets(whole)
    assert has_secrets({"x": [{"token": "t"}]})


def test_maps_with_odd_keys_are_covered_too() -> None:
    covered = redacted(MsgpackMap(((1, "x"), ("token", "t"))))
    assert covered.pairs == ((1, "x"), ("token", PLACEHOLDER))
