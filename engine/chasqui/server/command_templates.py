"""Commands that are said over and over, packed once: only what changes is filled in.

A template is a `%` pattern over bytes. What is filled in must be packed already, by `bulk`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.flow import Arg

PLACEHOLDER = b"\0 a place to be filled \0"


def pack_bulk_string(word: Arg) -> bytes:
    """One word as it stands in a command."""
    raw = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def command_template(words: Sequence[Arg]) -> bytes:
    """A command in which every `HOLE` is to be filled with a packed word."""
    parts = [b"%b" if word is PLACEHOLDER else pack_bulk_string(word).replace(b"%", b"%%") for word in words]
    return b"*%d\r\n" % len(words) + b"".join(parts)
