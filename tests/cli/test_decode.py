"""`chasqui decode`, driven as a user drives it: in a process of its own, through its standard streams."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import golden
from tests.support.cli.subprocess_cli import CommandResult, SubprocessCli, assert_error
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless, text_bytes

Record = Callable[[str, object], None]

ENVELOPE = "94a161c40481a16101cf000001a1e23c61d600"
FORMS = {"u32le": "u32le", "u8": "u8", "raw": "none"}


def test_an_envelope_is_one_json_object(cli_process: SubprocessCli) -> None:
    ended = cli_process("decode", "--kind", "envelope", "--hex", ENVELOPE)
    assert ended.code == 0
    assert ended.json == {
        "kind": "envelope",
        "id": "a",
        "created_at_ms": 1794796970454,
        "attempt": 0,
        "retry": None,
        "payload": {"form": "bin", "hex": "81a16101", "data": {"a": 1}},
        "elements": 4,
    }


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("envelope", ENVELOPE),
        ("delayed", "02000000" + b"hi".hex() + ENVELOPE),
        ("delayed", "02" + b"hi".hex() + ENVELOPE),
        ("spec", "98a16ba16e81a5457665727991cd03e8c406c40481a16101c0c0c000"),
        ("result", "81a16101"),
    ],
)
def test_auto_finds_out_what_bytes_are(cli_process: SubprocessCli, kind: str, data: str) -> None:
    assert cli_process("decode", "--hex", data).json["kind"] == kind


def test_the_three_ways_to_give_bytes_agree(cli_process: SubprocessCli) -> None:
    raw = bytes.fromhex(ENVELOPE)
    by_hex = cli_process("decode", "--hex", "0x" + ENVELOPE.upper())
    assert by_hex.code == 0
    assert by_hex.out == cli_process("decode", "--base64", base64.b64encode(raw).decode()).out
    assert by_hex.out == cli_process("decode", "-", stdin=raw).out


@pytest.mark.parametrize("how", ["table", "wide", "json", "jsonl", "yaml", "csv", "name"])
def test_every_output_format_is_written(cli_process: SubprocessCli, how: str) -> None:
    ended = cli_process("decode", "--hex", ENVELOPE, "-o", how)
    assert ended.code == 0
    assert ended.err == ""
    assert "1794796970454" in ended.out or (how, ended.out) == ("name", "envelope\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hex", "xyz"), "not hexadecimal"),
        (("--hex", "abc"), "not hexadecimal"),
        (("--base64", "a"), "not base64"),
        ((), "exactly one way"),
        (("--hex", "00", "-"), "exactly one way"),
        (("--kind", "nonsense", "--hex", "00"), "nonsense"),
        (("--nonsense",), "nonsense"),
    ],
)
def test_bad_input_is_a_usage_error(cli_process: SubprocessCli, words: tuple[str, ...], message: str) -> None:
    assert_error(cli_process("decode", *words), 2, message)


def test_bytes_that_are_nothing_fail_with_the_reason(cli_process: SubprocessCli) -> None:
    assert_error(cli_process("decode", "--hex", "c1"), 1, "--kind")
    ended = cli_process("decode", "--kind", "envelope", "--hex", "92a16101")
    assert ended.code == 1
    assert "2 elements" in ended.err


def test_more_bytes_than_allowed_are_refused_before_they_are_decoded(cli_process: SubprocessCli) -> None:
    ended = cli_process("decode", "--max-bytes", "8", "--kind", "result", "-", stdin=b"\x01" * 9)
    assert ended.code == 1
    assert "over the limit of 8" in ended.err


def test_the_limit_is_the_reason_also_when_the_kind_is_to_be_found_out(cli_process: SubprocessCli) -> None:
    assert_error(
        cli_process("decode", "--max-bytes", "8", "-", stdin=b"\x01" * 9),
        1,
        "over the limit of 8",
        "--max-bytes",
    )


@pytest.mark.parametrize("limit", [str(2**40), str(2**63 - 1), "9" * 30])
def test_a_limit_beyond_what_a_server_can_hold_is_a_usage_error(cli_process: SubprocessCli, limit: str) -> None:
    assert_error(cli_process("decode", "--max-bytes", limit, "-", stdin=b"\x01"), 2, "--max-bytes")


def test_every_way_to_fail_has_a_hint(cli_process: SubprocessCli) -> None:
    assert_error(cli_process("decode", "--kind", "envelope", "--hex", "92a16101"), 1, "2 elements", "--kind auto")


def test_a_reader_that_has_enough_ends_it_quietly(cli_process: SubprocessCli) -> None:
    import subprocess
    import sys

    question = json.dumps({"kind": "envelope", "hex": ENVELOPE}).encode() + b"\n"
    program = subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", "decode", "--stdin-jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli_process.environment(),
    )
    assert program.stdout
    program.stdout.close()
    _, err = program.communicate(question * 5000) if program.stdin else (b"", b"")
    assert (program.returncode, err) == (0, b"")


def test_a_batch_answers_every_line_in_order_and_errors_in_their_place(cli_process: SubprocessCli) -> None:
    lines = [
        json.dumps({"kind": "envelope", "hex": ENVELOPE}),
        "not json",
        json.dumps({"kind": "envelope"}),
        json.dumps({"kind": "nonsense", "hex": "00"}),
        json.dumps({"kind": "envelope", "hex": "zz"}),
        json.dumps({"kind": "envelope", "hex": 5}),
        "[" * 100_000,
        json.dumps(["envelope"]),
        json.dumps({"kind": ["envelope"], "hex": "00"}),
        json.dumps({"kind": "delayed_member", "hex": "00000000" + ENVELOPE}),
    ]
    ended = _ask(cli_process, lines)
    assert [line.get("kind", "error") for line in ended.lines] == ["envelope", *["error"] * 8, "delayed"]
    assert all(list(line) == ["error"] for line in ended.lines[1:-1])


def test_envelope_vectors_are_answered_with_the_expected_values(
    cli_process: SubprocessCli, record_property: Record
) -> None:
    _walk(cli_process, "envelope", "d", _check_envelope, record_property)


def test_delayed_member_vectors_are_answered_with_the_expected_values(
    cli_process: SubprocessCli, record_property: Record
) -> None:
    _walk(cli_process, "delayed_member", "member", _check_delayed, record_property)


def test_repeat_spec_vectors_are_answered_with_the_expected_values(
    cli_process: SubprocessCli, record_property: Record
) -> None:
    _walk(cli_process, "repeat_spec", "spec", _check_spec, record_property)


def test_ten_thousand_random_and_mutated_inputs_never_break_the_stream(cli_process: SubprocessCli) -> None:
    """One process answers them all: a crash would end it, a lost answer would shorten it."""
    chance = random.Random(20260101)
    kinds = ("envelope", "delayed", "spec", "result", "auto")
    inputs = [(chance.choice(kinds), data) for data in _hostile_bytes(chance, 10_000)]
    ended = _ask(cli_process, [json.dumps({"kind": kind, "hex": data.hex()}) for kind, data in inputs])
    assert len(ended.lines) == len(inputs)
    assert all("error" in line or "kind" in line for line in ended.lines)
    assert is_harmless(ended.out)


@pytest.mark.parametrize("how", ["table", "wide", "json", "jsonl", "yaml", "csv", "name"])
def test_hostile_text_in_name_id_and_data_is_shown_harmlessly(cli_process: SubprocessCli, how: str) -> None:
    from chasqui.wire.msgpack_codec import pack

    texts = [text_bytes(text) for text in HOSTILE_TEXTS.values()]
    broken_strings = b"".join(b"\xda" + len(text).to_bytes(2, "big") + text for text in texts)
    payload = b"\xdc" + len(texts).to_bytes(2, "big") + broken_strings
    name = b"".join(texts)
    job_id = name.decode(errors="replace")
    member = len(name).to_bytes(4, "little") + name + pack([job_id, payload, 1, 0])
    ended = cli_process("decode", "--kind", "delayed", "--hex", member.hex(), "-o", how)
    assert ended.code == 0, ended
    assert ended.err == ""
    assert is_harmless(ended.out)


def _ask(shell: SubprocessCli, lines: list[str]) -> CommandResult:
    ended = shell("decode", "--stdin-jsonl", stdin="\n".join(lines))
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return ended


def _walk(
    shell: SubprocessCli,
    kind: str,
    field: str,
    check: Callable[[dict[str, Any], dict[str, Any]], None],
    record: Record,
) -> None:
    items = golden.items(kind)
    ended = _ask(shell, [json.dumps({"kind": kind, "hex": item["hex"][field]}) for item in items])
    answers = {item["id"]: answer for item, answer in zip(items, ended.lines, strict=True)}
    golden.walk(kind, lambda item: check(item["expect"], answers[item["id"]]), lambda *_: None)
    record(f"vectors decode {kind}", len(items))


def _check_envelope(expect: dict[str, Any], answer: dict[str, Any]) -> None:
    if "id" not in expect and "handler" not in expect:
        assert list(answer) == ["error"]
        return
    assert answer["kind"] == "envelope"
    _check_job(expect if "id" in expect else expect["handler"], answer)


def _check_job(expect: dict[str, Any], answer: dict[str, Any]) -> None:
    for name in ("id", "created_at_ms", "attempt", "elements"):
        if name in expect:
            assert answer[name] == golden.value(expect[name]), name
    if "retry" in expect:
        assert answer["retry"] == _plain(expect["retry"])
    if "payload_is_bin" in expect:
        assert answer["payload"]["form"] == ("bin" if expect["payload_is_bin"] else "inline")
        _check_payload(expect, answer["payload"])
    else:
        assert answer["payload"]["hex"] == expect["payload"]
    if "data" in expect:
        assert answer["payload"]["data"] == _plain(expect["data"])


def _check_payload(expect: dict[str, Any], payload: dict[str, Any]) -> None:
    if expect["payload_is_bin"]:
        assert payload["hex"] == expect["payload"]["$bin"]
    else:
        assert payload["data"] == _plain(expect["payload"])


def _check_delayed(expect: dict[str, Any], answer: dict[str, Any]) -> None:
    if expect["form"] == "corrupt":
        assert list(answer) == ["error"]
        return
    assert answer["kind"] == "delayed"
    assert answer["prefix"] == FORMS[expect["form"]]
    assert answer["name"] == expect["name"]
    if "name_hex" in answer:
        assert answer["name_hex"] == expect["name_hex"]
    _check_job(expect["envelope"], answer)


def _check_spec(expect: dict[str, Any], answer: dict[str, Any]) -> None:
    if "key" not in expect:
        # What the reference lists we read; it cannot list specs of newer engines, which we read as well.
        assert "error" not in answer or not expect["listed"]
        return
    assert answer["kind"] == "spec"
    assert answer["name"] == expect["job_name"]
    for name in ("key", "limit", "start_after_ms", "end_before_ms", "fired"):
        assert answer[name] == golden.value(expect[name]), name
    assert _pattern(answer["pattern"]) == golden.value(expect["pattern"])
    assert _policy(answer["missed_fires"]) == golden.value(expect["missed_fires"])
    assert answer["payload"]["data"] == _plain(expect["data"])


def _pattern(shown: dict[str, Any]) -> dict[str, Any]:
    if shown["kind"] == "every":
        return {"Every": [shown["interval_ms"]]}
    return {"Cron": [shown["expression"], shown["tz"]]}


def _policy(shown: dict[str, Any]) -> Any:
    names = {"skip": "Skip", "fire-once": "FireOnce"}
    return names.get(shown["kind"]) or {"FireAll": [shown["max_catchup"]]}


def _plain(expected: Any) -> Any:
    """The vectors' tags as the program's: numbers stay numbers there, unless JSON has none for them."""
    if isinstance(expected, list):
        return [_plain(child) for child in expected]
    if not isinstance(expected, dict):
        return expected
    if len(expected) == 1 and (tag := next(iter(expected))) in {
        "$int",
        "$float",
        "$bin",
        "$ext",
        "$timestamp",
        "$map",
    }:
        return _untagged(tag, expected[tag])
    return {key: _plain(child) for key, child in expected.items()}


def _untagged(tag: str, content: Any) -> Any:
    if tag == "$int":
        return int(content)
    if tag == "$float":
        number = float(content)
        return number if number - number == 0 else {"$float": repr(number)}
    return {tag: _plain(content)}


def _hostile_bytes(chance: random.Random, count: int) -> Iterator[bytes]:
    seeds = [
        bytes.fromhex(item["hex"][field])
        for kind, field in (("envelope", "d"), ("delayed_member", "member"), ("repeat_spec", "spec"))
        for item in golden.items(kind)
    ]
    for number in range(count):
        if number % 4 == 0:
            yield chance.randbytes(chance.randrange(64))
            continue
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        yield bytes(data[: chance.randrange(len(data) + 1)] if number % 7 == 0 else data)
