"""The standard streams, in whatever state the shell left them: closed, full, gone, or short of our characters.

What is written to them is decided elsewhere; here is only that writing it never crashes and never falsifies it.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import IO

_ENCODE_ERRORS = "chasqui.lacking"
_COLOR_CODES = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


def prepare_stdio() -> None:
    """Make the three streams usable, once, before anything else happens.

    A closed one would hand its number to the next file opened, and what is meant for people would land in there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    codecs.register_error(_ENCODE_ERRORS, _escape_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ENCODE_ERRORS)


def print_stderr(text: str, *, color: str | None = None) -> None:
    """One line on stderr, perhaps in a colour. A closed stderr is ignored."""
    from chasqui_cli.output.escape_text import safe

    before, after = (f"\x1b[1;{_COLOR_CODES[color]}m", "\x1b[0m") if color in _COLOR_CODES else ("", "")
    try:
        sys.stderr.write(f"{before}{safe(text)}{after}\n")
        sys.stderr.flush()
    except OSError:
        redirect_to_devnull(sys.stderr)


def redirect_to_devnull(stream: IO[str]) -> None:
    """Write no more to this stream: what is still buffered, and all that comes, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Characters that the encoding lacks, as JSON writes them, so that JSON stays JSON."""
    from chasqui_cli.output.tagged_json import json_escape

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(json_escape, error.object[error.start : error.end])), error.end
