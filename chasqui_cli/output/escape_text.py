r"""The one gate for text that comes from Redis, a file or a user, on its way to a terminal, a page or a CSV.

Escapes, bidi overrides and zero-width characters come out as visible `\x1b`, `\u202e`; nothing is interpreted
and nothing disappears. Markup is not this file's business: callers hand the result to `rich.text.Text`, never
to a markup parser.
"""

from __future__ import annotations

# Unlike the other characters that `str.isprintable` refuses, these two are plain blanks in people's own writing.
_ALLOWED_SPACES = "\u00a0\u3000"


def _visible(char: str) -> str:
    if char.isprintable() or char in _ALLOWED_SPACES:
        return char
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def safe(text: object, limit: int | None = None) -> str:
    """The text with every character that could do something made visible, cut to `limit` characters.

    Python calls exactly the control, format, surrogate, private and unassigned characters unprintable: the
    set a terminal may act upon or hide, and it follows Unicode without a table of ours.
    """
    whole = text if isinstance(text, str) else str(text)
    if limit is not None and len(whole) > limit:
        whole, cut = whole[: max(limit - 1, 0)], "…"
    else:
        cut = ""
    if whole.isprintable():
        return whole + cut
    return "".join(map(_visible, whole)) + cut
