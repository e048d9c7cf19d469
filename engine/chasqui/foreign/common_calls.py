"""Builders that both other systems need: the server's clock, and telling those who listen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.server.flow import Call

if TYPE_CHECKING:
    from chasqui.server.flow import Arg

UNDO_MEMORY_S = 30 * 24 * 3600
"""For how long an undo knows what it has brought back."""


def clock() -> Call:
    """The server's time, in seconds and microseconds; `time_ms` reads it."""
    return Call(("TIME",))


def publish(channel: str, payload: Arg) -> Call:
    """Tell those who listen. What was done before stays done if this is refused."""
    return Call(("PUBLISH", channel, payload), keys=(channel,), tolerant=True)
