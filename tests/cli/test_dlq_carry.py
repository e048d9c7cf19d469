"""`chasqui dlq export`, `import` and `purge` on real servers."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui_cli.commands.dlq.carrying import EXPORTED, IMPORTED
from chasqui_cli.commands.dlq.letters import LETTER, OUTCOME
from tests.cli.seed_dead import Yard, seed
from tests.cli.shell import assert_complains
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside
from tests.cli.yard import yard as yard

CLOCK = SystemClock()
PEEK_KEYS = (
    "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"
)


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_what_is_exported_comes_back_byte_for_byte_and_once(
    inside: Inside, yard: Yard, tmp_path: Path
) -> None:
    seed(yard)
    before = yard.dead()
    file = tmp_path / "letters.jsonl"
    ended = inside("dlq", "export", yard.queue, "--file", file, "--show-secrets")
    assert (ended.code, ended.out) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(list(line) == [*LETTER, "raw"] for line in lines)
    there = inside("dlq", "import", yard.queue, file, "--yes", "-o", "json")
    assert {one["outcome"] for one in there.json} == {"there already"}
    assert "nothing to do" in there.err
    assert inside("dlq", "purge", yard.queue, "--yes").code == 0
    assert yard.dead() == []
    done = inside("dlq", "import", yard.queue, file, "--yes", "-o", "json")
    assert done.code == 0
    assert all(list(one) == list(IMPORTED) for one in done.json)
    assert [fields for _, fields in yard.dead()] == [fields for _, fields in before]
    again = inside("dlq", "import", yard.queue, "-", "--yes", "-o", "json", stdin=file.read_text())
    assert {one["outcome"] for one in again.json} == {"imported before"}
    assert len(yard.dead()) == len(before)
    inside("dlq", "purge", yard.queue, "--yes")
    assert {
        one["outcome"] for one in inside("dlq", "import", yard.queue, file, "--yes", "-o", "json").json
    } == {"imported before"}
    inside("dlq", "import", yard.queue, file, "--yes", "--again")
    assert [fields for _, fields in yard.dead()] == [fields for _, fields in before]


def test_an_export_covers_secrets_and_an_import_refuses_what_was_covered(
    inside: Inside, yard: Yard, queue: str
) -> None:
    ids = seed(yard)
    ended = inside("dlq", "export", yard.queue)
    assert "hunter2" not in ended.out
    assert b"hunter2".hex() not in ended.out
    covered = [line for line in ended.lines if "redacted" in line]
    assert [(line["dlq_id"], "raw" in line, line["redacted"]) for line in covered] == [
        (ids["secret"], False, True)
    ]
    assert "1 of them hold secrets" in ended.err
    assert "--show-secrets" in ended.err
    assert set(EXPORTED) >= set(ended.lines[0])
    text = ended.out + "no json\n" + '{"dlq_id": "1-1", "raw": ["00"]}\n' + "[]\n"
    done = inside("dlq", "import", f"{queue}-copy", "-", "--yes", "-o", "json", stdin=text)
    assert done.code == 3
    outcomes = [one["outcome"] for one in done.json]
    assert outcomes.count("imported") == 5
    assert outcomes.count("redacted") == 1
    assert outcomes[-3:] == ["unreadable"] * 3
    assert "skipped, redacted: 1" in done.err


@one_server
def test_an_export_overwrites_nothing_and_is_json_lines_only(
    inside: Inside, yard: Yard, tmp_path: Path
) -> None:
    seed(yard)
    file = tmp_path / "mine"
    file.write_text("precious")
    assert_complains(inside("dlq", "export", yard.queue, "--file", file), 5, "there already")
    assert file.read_text() == "precious"
    assert_complains(inside("dlq", "export", yard.queue, "-o", "csv"), 2, "JSON lines")
    assert (
        len(inside("dlq", "export", yard.queue, "--limit", "2", "--reason", "retries_exhausted").lines) == 2
    )
    assert_complains(inside("dlq", "import", yard.queue, tmp_path / "nowhere", "--yes"), 4, "No such file")


def test_purging_takes_exactly_what_was_chosen(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    ended = inside("dlq", "purge", yard.queue, "--reason", "decode_failed", "--yes", "-o", "json")
    assert [list(one) for one in ended.json] == [list(OUTCOME)]
    assert [(one["dlq_id"], one["outcome"]) for one in ended.json] == [(ids["garbage"], "purged")]
    assert set(yard.dead_ids()) == set(ids.values()) - {ids["garbage"]}
    assert inside("dlq", "purge", yard.queue, ids["late"], "nobody", "--yes").code == 3
    assert inside("dlq", "purge", yard.queue, "--yes", "--limit", "3").code == 0
    assert yard.dead_ids() == [ids["inner"]]
