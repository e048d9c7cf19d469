"""What both other systems need: the server's time, and publishing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.server.commands import parse_server_time
from chasqui.server.flow import Call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chasqui.server.flow import Arg, Flow

UNDO_MEMORY_S = 30 * 24 * 3600
"""How long an undo remembers what it has restored."""


def clock() -> Call:
    """The server's time; `parse_server_time` reads the reply."""
    return Call(("TIME",))


def read_time_ms() -> Flow[int]:
    """The server's time in ms."""
    [now] = yield [clock()]
    return parse_server_time(now)


def publish(channel: str, payload: Arg) -> Call:
    """Publish a message. What was done before stays done if this is refused."""
    return Call(("PUBLISH", channel, payload), keys=(channel,), tolerant=True)


def one_key_each(names: Mapping[str, str]) -> list[dict[str, Any]]:
    """For each key, keys by these names: itself, and keys of its slot that do not exist."""
    return [
        {name: key if key == alone else f"{{{alone}}}:no-{name}" for name, key in names.items()}
        for alone in names.values()
    ]
