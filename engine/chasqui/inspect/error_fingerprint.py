"""Makes errors comparable: what differs from one failure to the next (numbers, ids, addresses, quoted texts) is replaced
by a placeholder, so that failures of one cause have one text.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_CHARS = 200
_MAX_READ_CHARS = 600
"""Of a long text only its beginning is read: stack traces differ in their depths, not in their first line."""

# Each with a character that must be there, because most lines have few of them. A placeholder is taken for no other
# thing, so no rule finds anything inside one that another rule made.
_RULES = tuple(
    (sign, re.compile(pattern, re.IGNORECASE), name)
    for sign, pattern, name in (
        ("://", r"\b[a-z][a-z0-9+.-]{1,15}://[^\s<>\"'`,;)\]}]+", "<url>"),
        ("@", r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+", "<email>"),
        ("", r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", "<uuid>"),
        ("", r"\b[0-7][0-9a-hjkmnp-tv-z]{25}\b", "<ulid>"),
        (".", r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.])", "<ip>"),
        (":", r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{0,4}(?![\w:])", "<ip>"),
        ("-", r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?", "<time>"),
        ("", r"\b0x[0-9a-f]+\b", "<hex>"),
        ("", r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b", "<hex>"),
        ('"', r"(?<!\w)\"[^\"\n]{1,300}\"", "<text>"),
        ("'", r"(?<!\w)'[^'\n]{1,300}'(?!\w)", "<text>"),
        ("`", r"(?<!\w)`[^`\n]{1,300}`", "<text>"),
    )
)
_NUMBERS = (re.compile(r"(?<!\w)[-+]?\d+(?:[.,]\d+)*"), re.compile(r"\d+"))
_COMPOUND = re.compile(r"(?<![a-z0-9])[a-z0-9]+(?:[-_][a-z0-9]+)+", re.IGNORECASE)


@lru_cache(maxsize=10_000)
def fingerprint(text: str) -> str:
    """The text's first line with everything that varies replaced; at most 200 characters, and stable under itself."""
    lines = text[:_MAX_READ_CHARS].strip().splitlines()
    line, previous = (" ".join(lines[0].split()) if lines else ""), None
    # It ends: every replacement leaves fewer digits, quotes and signs to be replaced.
    while line != previous:
        previous = line
        line = _shorten(_replace_variable_parts(line))
    return line


def _replace_variable_parts(line: str) -> str:
    for sign, pattern, name in _RULES:
        if sign in line:
            line = pattern.sub(name, line)
    line = _COMPOUND.sub(_id_placeholder, line)
    for pattern in _NUMBERS:
        line = pattern.sub("<n>", line)
    return line


def _id_placeholder(found: re.Match[str]) -> str:
    """Compound words with digits (order_12ab9) are ids."""
    word = found.group()
    return "<id>" if len(word) > 5 and any(map(str.isdigit, word)) else word


def _shorten(line: str) -> str:
    """Never through a placeholder, half of which would be text of its own."""
    if len(line) <= MAX_CHARS:
        return line
    cut = line[: MAX_CHARS - 1]
    if "<" in cut[-8:] and ">" not in cut[cut.rindex("<") :]:
        cut = cut[: cut.rindex("<")]
    return cut.rstrip() + "…"
