"""A command that runs on: wait for its lines as they come, end it as a user does."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from tests.support.cli.subprocess_cli import SubprocessCli

PATIENCE_S = 20.0
PROD_S = 0.1


@dataclass(slots=True)
class LiveCommand:
    """A process and what it has printed so far."""

    process: subprocess.Popen[str]
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    _pumps: list[threading.Thread] = field(default_factory=list)
    _incoming: queue.Queue[tuple[list[str], str]] = field(default_factory=queue.Queue)

    def listen(self) -> None:
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            assert stream
            self._pumps.append(threading.Thread(target=self._pump, args=(stream, lines), daemon=True))
            self._pumps[-1].start()

    def _pump(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                self._incoming.put((lines, line.rstrip("\n")))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._pumps:
            thread.join()

    def wait_until(
        self, holds: Callable[[LiveCommand], bool], what: str, *, prod: Callable[[], object] | None = None
    ) -> None:
        """Take in lines until it holds. prod: called while waiting, for what the process may miss at first."""
        patience = round(PATIENCE_S / PROD_S)
        while not holds(self):
            if prod:
                prod()
            try:
                lines, line = self._incoming.get(timeout=PROD_S)
            except queue.Empty:
                patience -= 1
                assert patience, f"never: {what}; said {self.out} {self.err}"
                continue
            lines.append(line)

    def interrupt(self) -> int:
        """As Ctrl-C does it; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@contextmanager
def start_command(shell: SubprocessCli, *words: str) -> Iterator[LiveCommand]:
    process = subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shell.environment() | {"PYTHONUNBUFFERED": "1"},
    )
    found = LiveCommand(process)
    found.listen()
    try:
        yield found
    finally:
        found.close()
