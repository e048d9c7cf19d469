"""What the reference takes for white space, and how it quotes a text it refuses. Nothing that cron means."""

from __future__ import annotations

import unicodedata

# Python's own idea of white space also takes four separators that the reference does not.
WHITESPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def quote(text: str) -> str:
    """The text between double quotes, with everything that does not print on its own made visible."""
    return '"' + "".join(map(_visible, text)) + '"'


def _visible(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable() and unicodedata.category(char) not in ("Mn", "Me"):
        return char
    return f"\\u{{{ord(char):x}}}"
