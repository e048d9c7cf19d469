"""`chasqui dlq export`, `import` and `purge` on real servers."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui_cli.commands.dlq._record import DEAD_LETTER_SCHEMA, OUTCOME_SCHEMA
from chasqui_cli.commands.dlq.export import EXPORT_SCHEMA
from chasqui_cli.commands.dlq.import_ import IMPORT_SCHEMA
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.dead_letters import DeadLetterSeeder, seed_every_kind

CLOCK = SystemClock()
PEEK_KEYS = "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_what_is_exported_comes_back_byte_for_byte_and_once(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, tmp_path: Path
) -> None:
    seed_every_kind(dead_letter_seeder)
    before = dead_letter_seeder.dead_letters()
    file = tmp_path / "letters.jsonl"
    ended = cli("dlq", "export", dead_letter_seeder.queue, "--file", file, "--show-secrets")
    assert (ended.code, ended.out) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(list(line) == [*DEAD_LETTER_SCHEMA, "raw"] for line in lines)
    there = cli("dlq", "import", dead_letter_seeder.queue, file, "--yes", "-o", "json")
    assert {one["outcome"] for one in there.json} == {"there already"}
    assert "nothing to do" in there.err
    assert cli("dlq", "purge", dead_letter_seeder.queue, "--yes").code == 0
    assert dead_letter_seeder.dead_letters() == []
    done = cli("dlq", "import", dead_letter_seeder.queue, file, "--yes", "-o", "json")
    assert done.code == 0
    assert all(list(one) == list(IMPORT_SCHEMA) for one in done.json)
    assert [fields for _, fields in dead_letter_seeder.dead_letters()] == [fields for _, fields in before]
    again = cli("dlq", "import", dead_letter_seeder.queue, "-", "--yes", "-o", "json", stdin=file.read_text())
    assert {one["outcome"] for one in again.json} == {"imported before"}
    assert len(dead_letter_seeder.dead_letters()) == len(before)
    cli("dlq", "purge", dead_letter_seeder.queue, "--yes")
    assert {
        one["outcome"] for one in cli("dlq", "import", dead_letter_seeder.queue, file, "--yes", "-o", "json").json
    } == {"imported before"}
    cli("dlq", "import", dead_letter_seeder.queue, file, "--yes", "--again")
    assert [fields for _, fields in dead_letter_seeder.dead_letters()] == [fields for _, fields in before]


def test_an_export_covers_secrets_and_an_import_refuses_what_was_covered(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, queue: str
) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    ended = cli("dlq", "export", dead_letter_seeder.queue)
    assert "hunter2" not in ended.out
    assert b"hunter2".hex() not in ended.out
    covered = [line for line in ended.lines if "redacted" in line]
    assert [(line["dlq_id"], "raw" in line, line["redacted"]) for line in covered] == [(ids["secret"], False, True)]
    assert "1 of them hold secrets" in ended.err
    assert "--show-secrets" in ended.err
    assert set(EXPORT_SCHEMA) >= set(ended.lines[0])
    text = ended.out + "no json\n" + '{"dlq_id": "1-1", "raw": ["00"]}\n' + "[]\n"
    done = cli("dlq", "import", f"{queue}-copy", "-", "--yes", "-o", "json", stdin=text)
    assert done.code == 3
    outcomes = [one["outcome"] for one in done.json]
    assert outcomes.count("imported") == 5
    assert outcomes.count("redacted") == 1
    assert outcomes[-3:] == ["unreadable"] * 3
    assert "skipped, redacted: 1" in done.err


@one_server
def test_an_export_overwrites_nothing_and_is_json_lines_only(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, tmp_path: Path
) -> None:
    seed_every_kind(dead_letter_seeder)
    file = tmp_path / "mine"
    file.write_text("precious")
    assert_error(cli("dlq", "export", dead_letter_seeder.queue, "--file", file), 5, "there already")
    assert file.read_text() == "precious"
    assert_error(cli("dlq", "export", dead_letter_seeder.queue, "-o", "csv"), 2, "JSON lines")
    assert (
        len(cli("dlq", "export", dead_letter_seeder.queue, "--limit", "2", "--reason", "retries_exhausted").lines) == 2
    )
    assert_error(cli("dlq", "import", dead_letter_seeder.queue, tmp_path / "nowhere", "--yes"), 4, "No such file")


def test_purging_takes_exactly_what_was_chosen(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    ended = cli("dlq", "purge", dead_letter_seeder.queue, "--reason", "decode_failed", "--yes", "-o", "json")
    assert [list(one) for one in ended.json] == [list(OUTCOME_SCHEMA)]
    assert [(one["dlq_id"], one["outcome"]) for one in ended.json] == [(ids["garbage"], "purged")]
    assert set(dead_letter_seeder.dead_ids()) == set(ids.values()) - {ids["garbage"]}
    assert cli("dlq", "purge", dead_letter_seeder.queue, ids["late"], "nobody", "--yes").code == 3
    assert cli("dlq", "purge", dead_letter_seeder.queue, "--yes", "--limit", "3").code == 0
    assert dead_letter_seeder.dead_ids() == [ids["inner"]]
