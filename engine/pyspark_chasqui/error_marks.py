"""Errors on their way through Spark, which hides them in Java traces: marked here, so that they can be found again.

`chasqui.spark.error_decoding` reads the marks on the other side. No message of the engine holds a password.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKED = re.compile(r"\[chasqui (\w+)( may pass)?\] (.*?) \[hint\] (.*?) \[end\]", re.DOTALL)
"""A marked line: the error's class, whether waiting may help, its message, and its hint."""
OPEN, PASSING, HINT, CLOSE = "[chasqui ", " may pass", " [hint] ", " [end]"
TRANSIENT_CODES = frozenset({"EXECABORT", "MOVED", "ASK"})
"""Replies of a server that loads its data or hands its keys to another: transient, although they do not look it."""


class MarkedError(RuntimeError):
    """An error of the engine as one marked line."""


@contextmanager
def marked_errors() -> Iterator[None]:
    """Let errors of the engine leave as marked lines."""
    from chasqui.errors import ChasquiError

    try:
        yield
    except ChasquiError as error:
        passing = PASSING if is_transient(error) else ""
        found = MarkedError(f"{OPEN}{type(error).__name__}{passing}] {error}{HINT}{error.hint or ''}{CLOSE}")
    else:
        return
    raise found


def is_transient(error: Exception) -> bool:
    """Whether waiting may help."""
    return bool(getattr(error, "transient", False)) or getattr(error, "code", None) in TRANSIENT_CODES
