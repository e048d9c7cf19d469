"""Strings that must be shown harmlessly everywhere; the rule is `safe()`'s, this list only tries it."""

from __future__ import annotations

import json
from pathlib import Path

_MORE = Path(__file__).parents[3] / "shared" / "design" / "hostile.json"

STRINGS = {
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "clear screen": "\x1b[2J",
    "one-byte CSI": "\x9b2J",
    "hyperlink": "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "device control": "\x1bP1$r\x1b\\",
    "carriage return": "good\rEVIL",
    "new line": "one\ntwo",
    "backspaces": "rm\b\bls",
    "NUL": "a\x00b",
    "delete": "a\x7fb",
    "right to left": "abc\u202egnp.exe",
    "isolates": "\u2066a\u2069",
    "zero width": "a\u200bb\ufeff",
    "tag letters": "\U000e0041",
    "line separator": "a\u2028b",
    "lone surrogate": "\ud800",
    "private use": "\ue000",
    "markup": "[red]x[/red] [/ [link=http://evil]click[/link] [@click=app.quit]go[/]",
    "formula": "=1+1",
}
if _MORE.exists():
    STRINGS |= json.loads(_MORE.read_text())["strings"]


def is_harmless(text: str) -> bool:
    """Nothing a terminal would act upon or hide; lines may end."""
    return all(char.isprintable() or char in "\n\u00a0\u3000" for char in text)
