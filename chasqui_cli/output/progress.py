"""A progress bar on stderr, drawn on a terminal only."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from chasqui_cli.output.escape_text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator


class ProgressCallback(Protocol):
    """Called with the number done, and the total once it is known."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """So far it has come."""


@contextmanager
def progress_bar(title: str, total: int | None, *, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A bar for `total` things (None: unknown). Call what it yields with the number done."""
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
