"""A user's shell: the installed program in a process of its own, with an empty home and no inherited settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How one command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class SubprocessCli:
    """Runs `chasqui`. `home` holds its configuration and data."""

    home: Path

    def __call__(self, *words: str | Path, stdin: str | bytes = b"", **variables: str) -> CommandResult:
        done = subprocess.run(
            [sys.executable, "-m", "chasqui_cli", *map(str, words)],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            env=self.environment() | variables,
            timeout=60,
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        root = Path(__file__).parents[3]
        return inherited | {
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join([str(root), str(root / "engine")]),
        }


def assert_error(ended: CommandResult, code: int, *texts: str) -> None:
    """The shape of every foreseen failure: the right code, one error line, one hint line, nothing else."""
    assert ended.code == code, ended
    assert ended.out == ""
    assert "Traceback" not in ended.err
    lines = [line for line in ended.err.splitlines() if not line.startswith("warning: ")]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], ended.err
    for text in texts:
        assert text in ended.err


@pytest.fixture
def cli_process(tmp_path: Path) -> SubprocessCli:
    return SubprocessCli(tmp_path)
