"""The status of a long run, on stderr: one line rewritten on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import logging
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.stdio import print_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPEAT_INTERVAL_S = 60.0
REFRESH_INTERVAL_S = 0.5


class StatusLine:
    """The line. `mono` is a clock that never runs backwards."""

    def __init__(self, mono: Callable[[], float], *, quiet: bool = False) -> None:
        self._mono = mono
        self._watched = not quiet and sys.stderr.isatty()
        self._quiet = quiet
        self._headline = ""
        self._reported_at = float("-inf")
        self._is_open = False

    @property
    def refresh_interval_s(self) -> float:
        """How long to wait before the next look."""
        return REFRESH_INTERVAL_S

    def update(self, headline: str, details: str) -> None:
        """Show the status. Without a terminal only a new headline is printed, or one line a minute."""
        if self._quiet:
            return
        now, text = self._mono(), f"{headline} · {details}" if details else headline
        if self._watched:
            width = max(20, shutil.get_terminal_size().columns - 1)
            self._write(f"\r{safe(text, width)}\x1b[K")
            self._is_open = True
        elif headline != self._headline or now - self._reported_at >= REPEAT_INTERVAL_S:
            print_stderr(text)
            self._reported_at = now
        self._headline = headline

    def print_note(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        print_stderr(text)

    def close(self, text: str = "") -> None:
        """The line is done with."""
        self._clear()
        if text and not self._quiet:
            print_stderr(text)

    def _clear(self) -> None:
        if self._is_open:
            self._write("\r\x1b[K")
            self._is_open = False

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._watched = False


class _StatusLogHandler(logging.Handler):
    def __init__(self, status: StatusLine) -> None:
        super().__init__()
        self._status = status

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).splitlines():
            self._status.print_note(line)


@contextmanager
def logging_to(status: StatusLine, *, level: int = logging.WARNING) -> Iterator[None]:
    """Print what the engine logs meanwhile."""
    log, handler = logging.getLogger("chasqui"), _StatusLogHandler(status)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
