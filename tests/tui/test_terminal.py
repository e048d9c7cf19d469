"""The dashboard as a process on a real terminal: how it ends, what it leaves behind, and an editor it hands over to."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from chasqui import Keys
from tests.support.seeds import dashboard_queues
from tests.tui.test_error_cases import ROOT, _read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chasqui import Link
    from tests.support.servers.server import Server

PATIENCE_S = 60.0
FULL_SCREEN, GIVEN_BACK = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A terminal with the dashboard on it."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid, self.fd, self.seen = pid, fd, b""

    def until(self, text: bytes) -> None:
        """Wait until this is written, from now on."""
        came = _read(self.fd, PATIENCE_S, until=text)
        self.seen += came
        assert text in came, self.seen[-3000:]

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def end(self) -> int:
        """Read the rest of the output; return the exit code."""
        self.seen += _read(self.fd, PATIENCE_S)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _variables(url: str, home: Path) -> dict[str, str]:
    return {"HOME": str(home), "CHASQUI_REDIS_URL": url, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}", "PATH": os.environ["PATH"]}  # fmt: skip


@contextmanager
def terminal(url: str, home: Path, **variables: str) -> Iterator[Terminal]:
    pid, fd = pty.fork()
    if pid == 0:
        words = [sys.executable, "-m", "chasqui_cli", "top", "--interval", "500ms"]
        os.execve(sys.executable, words, _variables(url, home) | variables)
    try:
        yield Terminal(pid, fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_and_the_terminal_is_given_back(
    one_server: Server, home: Path, number: signal.Signals
) -> None:
    with terminal(one_server.url, home) as screen:
        screen.until(b"cmd")
        assert FULL_SCREEN in screen.seen
        os.kill(screen.pid, number)
        assert screen.end() == 128 + number
        assert screen.seen.rfind(GIVEN_BACK) > screen.seen.rfind(FULL_SCREEN)
        assert b"\x1b[?25h" in screen.seen[screen.seen.rfind(FULL_SCREEN) :], "the cursor is seen again"
        assert b"Traceback" not in screen.seen


def test_an_editor_gets_the_terminal_and_the_dashboard_gets_it_back(
    one_server: Server, link: Link, queue: str, home: Path
) -> None:
    dashboard_queues.add_dead_letters(link, queue, 1)
    editor = home / "editor"
    editor.write_text('#!/bin/sh\necho EDITING "$1"\nsed -i "s/\\"nth\\": 0/\\"nth\\": 777/" "$1"\n')
    editor.chmod(0o755)
    with terminal(one_server.url, home, EDITOR=str(editor)) as screen:
        screen.until(queue[:12].encode())
        screen.press("4")
        screen.until(b"card declined")
        screen.press("E")
        screen.until(b"EDITING")
        screen.until(b"777")
        screen.press("y\n")
        screen.until(b"press Enter to go back")
        screen.press("\n")
        screen.until(FULL_SCREEN)
        screen.press("q")
        assert screen.end() == 0
    [(_, fields)] = dashboard_queues.command(link, "XRANGE", Keys(queue).stream, "-", "+")
    assert b"\xcd\x03\x09" in b"".join(fields), "777, as msgpack writes it, was replayed"


def test_with_its_errors_in_a_file_the_reason_for_not_starting_is_there(one_server: Server, home: Path) -> None:
    """Textual draws on stderr: `top 2>file` would fill the file and show nothing."""
    ours, its = pty.openpty()
    stderr = home / "told"
    with stderr.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "chasqui_cli", "top"], stdin=its, stdout=its, stderr=file,
            env=_variables(one_server.url, home), check=False, timeout=PATIENCE_S,
        )  # fmt: skip
    os.close(its)
    os.close(ours)
    assert done.returncode == 2
    assert stderr.read_text().startswith("error: the dashboard needs a terminal\n")
