"""The standard streams, in whatever state the shell left them: closed, full, gone, or short of our characters.

What is written to them is decided elsewhere; here is only that writing it never crashes and never falsifies it.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import IO

_LACKING = "chasqui.lacking"


def settle() -> None:
    """Make the three streams usable, once, before anything else happens.

    A closed one would hand its number to the next file opened, and what is meant for people would land in there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    codecs.register_error(_LACKING, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_LACKING)


def talk(text: str) -> None:
    """One line for the person, on stderr. That nobody can read it is no reason to stop."""
    from chasqui_cli.safe import safe

    try:
        sys.stderr.write(safe(text) + "\n")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: IO[str]) -> None:
    """Write no more to this stream: what is still buffered, and all that comes, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Characters that the encoding lacks, as JSON writes them, so that JSON stays JSON."""
    from chasqui_cli.tagged import escaped

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(escaped, error.object[error.start : error.end])), error.end
