"""The command line run inside the test's own process: quick, for the bulk of tests; `shell.py` runs the real program."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from chasqui_cli.app import run
from tests.support.cli.subprocess_cli import CommandResult, SubprocessCli
from tests.support.seeds.dead_letters import DeadLetterSeeder
from tests.support.servers.server import Server

VARIABLES = (
    "CHASQUI_REDIS_URL",
    "REDIS_URL",
    "REDISCLI_AUTH",
    "CHASQUI_READONLY",
    "EDITOR",
    "VISUAL",
    "NO_COLOR",
)


@dataclass(frozen=True, slots=True)
class InProcessCli:
    """Runs `chasqui`; `url` is where it looks for the server. `home` holds its configuration and journal."""

    home: Path
    url: str
    patch: pytest.MonkeyPatch

    def __call__(self, *words: str | Path, stdin: str = "") -> CommandResult:
        out, err = io.StringIO(), io.StringIO()
        self.patch.setattr(sys, "stdin", io.StringIO(stdin))
        self.patch.setattr(sys, "argv", ["chasqui", *map(str, words)])
        with redirect_stdout(out), redirect_stderr(err):
            code = run([*map(str, words)])
        return CommandResult(int(code), out.getvalue(), err.getvalue())

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.patch.setenv(name, value)

    def operations(self) -> list[str]:
        """Ids of what was written down, newest first."""
        return self("log", "-o", "name").out.split()


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> InProcessCli:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CHASQUI_REDIS_URL", server.url)
    return InProcessCli(tmp_path, server.url, monkeypatch)


@pytest.fixture
def dead_letter_seeder(server: Server, queue: str) -> Iterator[DeadLetterSeeder]:
    with Link.open(server.url) as link:
        yield DeadLetterSeeder(link, Keys(queue))


def run_on_terminal(shell: SubprocessCli, *words: str, typed: str = "", **variables: str) -> tuple[int, str]:
    """The program on a real terminal: its exit code, and everything it showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=shell.environment() | {"TERM": "xterm-256color", "COLUMNS": "200"} | variables,
        start_new_session=True,
    )
    os.close(theirs)
    if typed:
        os.write(ours, typed.encode())
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:
        pass
    finally:
        os.close(ours)
    return process.wait(timeout=60), shown.decode(errors="replace")
