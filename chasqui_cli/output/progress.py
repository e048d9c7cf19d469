"""How far long work has come, on stderr, where somebody watches it; elsewhere nothing is drawn."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from chasqui_cli.output.escape_text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator


class ProgressCallback(Protocol):
    """Told how many are done in all, and how many there are, once that is known."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """So far it has come."""


@contextmanager
def progress_bar(title: str, total: int | None, *, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A bar for so many things (None: nobody knows how many). Call what it gives with how many are done in all."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(safe(title), total=total)

        def advance(done: int, total: int | None = None) -> None:
            bars.update(task, completed=done, total=total)

        yield advance
