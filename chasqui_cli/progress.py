"""How far long work has come, on stderr, where somebody watches it; elsewhere nothing is drawn."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chasqui_cli.safe import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(title: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar for so many things (None: nobody knows how many). Call what it gives with how many are done in all."""
    if quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(safe(title), total=total)
        yield lambda done: bars.update(task, completed=done)
