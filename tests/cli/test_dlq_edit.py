"""`chasqui dlq edit` on real servers: by paths, in an editor, and everything that can go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.wire import msgpack_codec
from chasqui_cli.commands.dlq.edit import EDIT_SCHEMA
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.dead_letters import DeadLetterSeeder, seed_every_kind

CLOCK = SystemClock()
PEEK_KEYS = "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_a_value_is_set_shown_as_a_difference_and_replayed(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    words = ("--set", "to=carol", "--set", "n=2", "--set", "deep.er=[1]", "--yes", "-o", "json")
    ended = cli("dlq", "edit", dead_letter_seeder.queue, "told", *words)
    assert ended.code == 0, ended.err
    assert list(ended.json) == list(EDIT_SCHEMA)
    assert ended.json["outcome"] == "replayed"
    assert '  -  "to": "ada@example.org",' in ended.err
    assert '  +  "to": "carol",' in ended.err
    [job] = dead_letter_seeder.jobs()
    assert (job.id, job.attempt, job.payload.data()) == (
        "told",
        0,
        {"to": "carol", "n": 2, "deep": {"er": [1]}},
    )
    assert ids["told"] not in dead_letter_seeder.dead_ids()


def test_an_edited_letter_may_stay_dead(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    ended = cli(
        "dlq",
        "edit",
        dead_letter_seeder.queue,
        ids["untold"],
        "--unset",
        "to",
        "--no-replay",
        "--yes",
        "-o",
        "json",
    )
    new_id = ended.json["new_dlq_id"]
    assert dead_letter_seeder.dead_ids()[-1] == new_id
    assert ids["untold"] not in dead_letter_seeder.dead_ids()
    assert dead_letter_seeder.jobs() == []
    [line] = cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json", "--where", "id == 'untold'").json
    assert line["data"] == {"blob": {"$bin": "c0ff"}}
    assert (line["attempt"], line["reason"]) == (24, "retries_exhausted")


def test_an_editor_is_given_the_payload_as_json(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, tmp_path: Path
) -> None:
    data = {"text": "old", "blob": b"\xc0\xff", "number": 2**63, "keys": [1.5, None, {"$odd": 1}]}
    dead_letter_seeder.add_dead_letter("edit-me", data)
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\ncp "$2" "$HOME/seen.json"\nsed -i s/old/new/ "$2"\n')
    script.chmod(0o755)
    cli.set(EDITOR=f"{script} --wait")
    assert cli("dlq", "edit", dead_letter_seeder.queue, "edit-me", "--yes").code == 0
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["keys"] == [1.5, None, {"$map": [["$odd", 1]]}]
    [job] = dead_letter_seeder.jobs()
    assert job.payload.raw == msgpack_codec.pack(data | {"text": "new"})


@pytest.mark.parametrize(
    ("variables", "words", "code", "message"),
    [
        ({}, (), 5, "--set PATH=VALUE"),
        ({"EDITOR": "false"}, (), 5, "ended with code 1"),
        ({"EDITOR": "/no/such/editor"}, (), 5, "No such file"),
        ({"EDITOR": "sh -c 'echo { > $0'"}, (), 2, "no JSON"),
        ({}, ("--set", "to"), 2, "there is no ="),
        ({}, ("--set", "to[0]=x"), 2, "to[0]"),
        ({}, ("--set", "a..b=1"), 2, "is no path"),
        ({}, ("--unset", "nothing"), 2, "no such thing"),
        ({}, ("--set", 'to={"$bin": "zz"}'), 2, "$bin"),
    ],
)
@one_server
def test_an_edit_that_goes_wrong_changes_nothing(
    cli: InProcessCli,
    dead_letter_seeder: DeadLetterSeeder,
    variables: dict[str, str],
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    seed_every_kind(dead_letter_seeder)
    before = dead_letter_seeder.dead_letters()
    cli.set(**variables)
    assert_error(cli("dlq", "edit", dead_letter_seeder.queue, "told", *words, "--yes"), code, message)
    assert dead_letter_seeder.dead_letters() == before


@one_server
def test_only_what_can_be_identified_and_decoded_can_be_edited(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    twins = [dead_letter_seeder.add_dead_letter("twin"), dead_letter_seeder.add_dead_letter("twin")]
    assert_error(cli("dlq", "edit", dead_letter_seeder.queue, "twin", "--set", "a=1", "--yes"), 2, *twins)
    for one in ("garbage", "inner"):
        ended = cli("dlq", "edit", dead_letter_seeder.queue, ids[one], "--set", "a=1", "--yes")
        assert_error(ended, 5, "cannot be decoded")
    assert_error(cli("dlq", "edit", dead_letter_seeder.queue, "nobody", "--set", "a=1"), 4)
    same = cli("dlq", "edit", dead_letter_seeder.queue, "told", "--set", "n=1", "--yes")
    assert (same.code, same.err) == (0, "nothing to do: the payload is as it was\n")


@one_server
def test_a_difference_covers_secrets(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed_every_kind(dead_letter_seeder)
    ended = cli("dlq", "edit", dead_letter_seeder.queue, "secret", "--set", "password=hunter3", "--dry-run")
    assert ended.code == 0
    assert "hunter" not in ended.err + ended.out
    assert "only covered values differ" in ended.err
    assert "hunter3" in cli(
        "dlq", "edit", dead_letter_seeder.queue, "secret", "--set", "password=hunter3", "--dry-run", "--show-secrets"
    ).err  # fmt: skip
