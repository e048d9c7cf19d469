"""The report when the dashboard itself fails: where, and what kind of error; never the values it held.

Textual's own screen prints local variables: a URL with its password, a payload.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from chasqui_cli.output.escape_text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator

LAST_FRAMES = 12


def crash_report(error: BaseException) -> str:
    """The error in plain lines: its kind, and the places it came through. Its text may hold anything, so it is left out."""
    return "\n".join(_lines(error))


def _lines(error: BaseException) -> Iterator[str]:
    yield f"error: the dashboard failed: {safe(type(error).__name__)}"
    for place in traceback.extract_tb(error.__traceback__)[-LAST_FRAMES:]:
        yield f"  {Path(place.filename).name}:{place.lineno} in {place.name}"
    yield "hint: this is a bug; nothing was changed by it. `chasqui watch -o jsonl` reads the same numbers"
