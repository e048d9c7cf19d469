"""Strings that must be shown harmlessly everywhere; the rule is `safe()`'s, this list only tries it."""

from __future__ import annotations

import json
from pathlib import Path

_MORE = Path(__file__).parents[4] / "shared" / "design" / "hostile.json"

HOSTILE_TEXTS = {
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
    "other formulas": "@SUM(A1)",
    "wide formula": "\uff1d1+1",
    "blank formula": "\u00a0=1+1",
    "one-byte OSC": "\x9d0;pwn\x9c",
    "one-byte DCS": "\x90q\x9c",
    "next line": "a\x85b",
    "colours": "\x1b[31;7mEVIL\x1b[0m",
    "reset": "\x1bc\x1b(0\x1b#8",
    "reports": "\x1b[6n\x1b[c\x1b[>q\x05",
    "application command": "\x1b_Gf=100;AAAA\x1b\\",
    "private message": "\x1b^pm\x1b\\\x1bXsos\x1b\\",
    "alternate screen": "\x1b[?1049h\x1b[?2004l",
    "cut off": "\x1b]8;;http://evil",
    "tabs": "a\tb\v\f",
    "line ends": "a\r\nb\n",
    "joined emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467\ufe0f",
    "stacked marks": "e" + "\u0301\u0489" * 40,
    "bidi of all sorts": "\u061c\u200e\u200f\u202a\u202d\u2067\u2068x\u202c",
    "hidden": "\u00ad\u180e\u2060\u2061\u3164\ufff9\U000e0001",
    "no characters": "\ufdd0\uffff\U0010ffff",
    "broken UTF-8": "\udcff\udcc3(\udced\udca0\udc80",
    "overlong escape": "\udce0\udc80\udc9b[2J",
    "very long": "long" * 300 + "\x1b[2J",
    "JSON": '"},{"id": "x"}]',
    "YAML": "- &a !!python/object:os.system [*a]",
    "YAML words": "null: ~",
    "CSV": 'a","b\n=1',
    "Prometheus": 'x"} 1\nevil{a="\\',
    "Nagios": "fine | evil=1",
    "format": "{0.__class__} %s %n $HOME `id`",
    "emoji name": ":bomb: [bold]\\[",
    "empty": "",
}
if _MORE.exists():
    HOSTILE_TEXTS |= json.loads(_MORE.read_text())["strings"]


def text_bytes(text: str) -> bytes:
    """The text's bytes; where it stands for bytes that are not UTF-8, those."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def is_harmless(text: str) -> bool:
    """Nothing a terminal would act upon or hide; lines may end."""
    return all(char.isprintable() or char in "\n\u00a0\u3000" for char in text)
