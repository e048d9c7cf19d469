"""How much a stream holds and how long an added id is remembered, as builders say it.

Whether a stream should have a cap is the caller's decision: trimming does not spare unread jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chasqui.server.flow import Arg

NO_CAP = 2**62
"""For scripts, which always name a cap: more entries than any stream will have."""


ADDED_MEMORY_S = 100
"""How long an added id is remembered where the server has no such memory: the native default."""

UNDONE_MEMORY_S = 86_400
"""How long it is remembered that an operation was undone: a user who is interrupted will try again the same day."""


def maxlen_args(cap: int | None) -> tuple[Arg, ...]:
    """Let the server drop the oldest entries beyond about `cap`; no words for no cap."""
    return () if cap is None else ("MAXLEN", "~", cap)
