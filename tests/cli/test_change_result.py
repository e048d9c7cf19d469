from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.seeds.dead_letters import DeadLetterSeeder, seed_every_kind


def _sent(cli: InProcessCli, *words: str) -> dict[str, Any]:
    """What the program writes for the one that started it."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as lines:
        cli.set(CHASQUI_RESULT_FD=str(writer))
        try:
            cli(*words)
        finally:
            os.close(writer)
        [line] = lines
    record: dict[str, Any] = json.loads(line)
    return record


def test_the_result_of_a_change_goes_to_the_descriptor_that_was_named(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    count, queue = len(seed_every_kind(dead_letter_seeder)), dead_letter_seeder.queue
    planned = {"op": None, "planned": count, "done": 0, "queue": queue}
    assert _sent(cli, "dlq", "purge", queue, "--dry-run") == planned
    assert _sent(cli, "dlq", "purge", queue) == planned, "refused without a confirmation"
    done = _sent(cli, "dlq", "purge", queue, "--yes")
    [op] = cli.operations()
    assert done == planned | {"op": op, "done": count}
    assert _sent(cli, "dlq", "purge", queue, "--yes") == {"op": None, "planned": 0, "done": 0, "queue": queue}
    assert _sent(cli, "inspect", queue) == {"op": None, "planned": 0, "done": 0, "queue": None}


def test_a_descriptor_that_is_unread_or_invalid_changes_nothing(cli_process: SubprocessCli) -> None:
    for descriptor in ("77", "-1", "word"):
        ended = cli_process("context", "list", CHASQUI_RESULT_FD=descriptor)
        assert ended.code == 0, ended
        assert "Traceback" not in ended.err


def test_what_a_verb_starts_does_not_inherit_the_descriptor(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, tmp_path: Path
) -> None:
    seed_every_kind(dead_letter_seeder)
    queue, seen = dead_letter_seeder.queue, tmp_path / "seen"
    [dead, *_] = cli("dlq", "peek", queue, "--name", "charge", "-o", "json").json
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\necho "${{CHASQUI_RESULT_FD:-none}}" > {seen}\nexit 1\n')
    editor.chmod(0o755)
    cli.set(VISUAL=str(editor), CHASQUI_RESULT_FD="77")
    cli("dlq", "edit", queue, dead["dlq_id"], "--yes")
    assert seen.read_text() == "none\n"
