"""The Lua files as texts: headers, names, digests. What they do to a server is tested in tests/live."""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from chasqui.server import commands, scripts

REPOSITORY = Path(__file__).parents[2]
EVERY = pytest.mark.parametrize("name", scripts.script_names())


def local_line(names: tuple[str, ...], table: str) -> str:
    values = ", ".join(f"{table}[{number}]" for number in range(1, len(names) + 1))
    return f"local {', '.join(names)} = {values}\n"


def body(name: str) -> str:
    return "".join(line for line in scripts.script_text(name).splitlines(True) if not line.startswith(("--", "#!")))


def test_there_are_scripts() -> None:
    assert {"add_once", "promote", "acquire_lock"} <= set(scripts.script_names())


@EVERY
def test_a_script_begins_by_giving_its_declared_names_to_its_keys_and_arguments(name: str) -> None:
    spec = scripts.load_script(name)
    opening = local_line(spec.keys, "KEYS") + (local_line(spec.args, "ARGV") if spec.args else "")
    assert body(name).startswith(opening)


@EVERY
def test_a_script_uses_every_key_it_declares_and_no_other(name: str) -> None:
    spec, used = scripts.load_script(name), body(name)
    numbers = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", used)}
    assert numbers == set(range(1, len(spec.keys) + 1))
    for key in spec.keys:
        assert len(re.findall(rf"\b{key}\b", used)) > 1, f"{key} is declared and never used"
    assert "{chasqui" not in used, "keys are passed, never built"


@EVERY
def test_a_script_takes_a_list_exactly_when_its_header_declares_it(name: str) -> None:
    spec, used = scripts.load_script(name), body(name)
    numbers = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", used)}
    assert numbers == set(range(1, len(spec.args) + 1))
    first = len(spec.args) + 1
    ways = (rf"unpack\(ARGV, {first}\)", rf"for i = {first}, #ARGV", r"ARGV\[\w+_at \+ n\]")
    takes_list = any(re.search(way, used) for way in ways)
    assert takes_list is (spec.list_arg is not None)


@EVERY
def test_a_script_is_called_by_a_builder(name: str) -> None:
    engine = Path(commands.__file__).parents[2]
    called = {
        call.args[0].value
        for file in [*engine.glob("server/commands/*.py"), *engine.glob("foreign/**/*.py")]
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "script_call"
        if isinstance(call.args[0], ast.Constant)
    }
    assert name in called


@EVERY
def test_a_script_documents_its_purpose_and_what_it_returns(name: str) -> None:
    spec = scripts.load_script(name)
    assert len(spec.purpose.split()) > 5
    assert spec.returns.endswith(".")


def test_the_reference_page_is_up_to_date() -> None:
    assert (REPOSITORY / "docs" / "lua.md").read_text() == scripts.lua_reference(), "run: make docs"


def test_the_digest_is_what_the_server_calls_the_text() -> None:
    assert scripts.script_sha("renew_leases") == hashlib.sha1(scripts.script_text("renew_leases").encode()).hexdigest()


def test_a_script_that_promises_to_write_nothing_is_read_only() -> None:
    header = "-- For a look.\n-- KEYS: stream\n-- ARGV:\n-- Returns: nothing.\n"
    assert scripts.parse_header("snapshot", f"#!lua flags=no-writes,allow-stale\n{header}").flags == (
        "no-writes",
        "allow-stale",
    )
    assert scripts.parse_header("snapshot", header).flags == ()
    assert not scripts.is_read_only_script("renew_leases")


@pytest.mark.parametrize(
    "text",
    [
        "return 1\n",
        "-- For nothing.\n-- KEYS: stream\n-- ARGV: group\nreturn 1\n",
        "-- KEYS: stream\n-- ARGV: group\n-- Returns: 1.\n",
        "-- For a while.\n\n-- KEYS: stream\n-- ARGV: group\n-- Returns: 1.\n",
    ],
)
def test_a_file_without_a_complete_header_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"x\.lua needs a header"):
        scripts.parse_header("x", text)


def test_a_call_puts_keys_before_arguments_and_the_list_last() -> None:
    call = scripts.script_call("renew_leases", consumer="c", stream="{q}s", group="g", rest=[b"1-0", b"2-0"])
    assert call.args == ("EVALSHA", scripts.script_sha("renew_leases"), 1, "{q}s", "g", "c", b"1-0", b"2-0")
    assert (call.keys, call.script) == (("{q}s",), "renew_leases")


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        ({"lock": "l"}, r"release_lock\.lua: missing \['holder'\], unexpected \[\]"),
        ({"lock": "l", "owner": "h"}, r"missing \['holder'\], unexpected \['owner'\]"),
        ({"lock": 7, "holder": "h"}, "a key is text, not 7"),
    ],
)
def test_a_wrong_name_or_key_fails_before_anything_is_sent(named: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        scripts.script_call("release_lock", rest=(), **named)


def test_a_list_for_a_script_that_takes_none_fails_before_anything_is_sent() -> None:
    with pytest.raises(TypeError, match="takes no list"):
        scripts.script_call("release_lock", lock="l", holder="h", rest=["x"])
