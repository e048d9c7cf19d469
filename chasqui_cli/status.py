"""How something that runs for long is doing, on stderr: one line written over where somebody watches, else a line now and
then. What the engine logs goes the same way, so that the two never run into each other.
"""

from __future__ import annotations

import logging
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chasqui_cli.safe import safe
from chasqui_cli.streams import talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPARSE_S = 60.0
WATCHED_S = 0.5


class Status:
    """The line. `mono` is a clock that never runs backwards."""

    def __init__(self, mono: Callable[[], float], *, quiet: bool = False) -> None:
        self._mono = mono
        self._watched = not quiet and sys.stderr.isatty()
        self._quiet = quiet
        self._headline = ""
        self._told_at = float("-inf")
        self._is_open = False

    @property
    def pause_s(self) -> float:
        """How long to wait before the next look."""
        return WATCHED_S

    def show(self, headline: str, details: str) -> None:
        """How it is. Where nobody watches, only a new headline is news, or a minute that has passed."""
        if self._quiet:
            return
        now, text = self._mono(), f"{headline} · {details}" if details else headline
        if self._watched:
            width = max(20, shutil.get_terminal_size().columns - 1)
            self._write(f"\r{safe(text, width)}\x1b[K")
            self._is_open = True
        elif headline != self._headline or now - self._told_at >= SPARSE_S:
            talk(text)
            self._told_at = now
        self._headline = headline

    def note(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        talk(text)

    def end(self, text: str = "") -> None:
        """The line is done with."""
        self._clear()
        if text and not self._quiet:
            talk(text)

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


class _Notes(logging.Handler):
    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).splitlines():
            self._status.note(line)


@contextmanager
def logged(status: Status, *, level: int = logging.WARNING) -> Iterator[None]:
    """What the engine logs meanwhile is told too."""
    log, handler = logging.getLogger("chasqui"), _Notes(status)
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
