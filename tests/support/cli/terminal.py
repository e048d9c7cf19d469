"""Terminals: one for a command in its own process, and one for commands in the test's process."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.cli.subprocess_cli import SubprocessCli


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


@contextmanager
def fake_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Stdout and stderr are a terminal meanwhile; what was written to it stands in the list afterwards."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:
                return
            if not read:
                return
            seen.append(read)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "stderr", screen)
        yield seen
        screen.flush()
    listener.join(5)
    os.close(ours)
