"""What a server reports about itself, in one round trip: enough to judge whether jobs are safe on it.

What it *can* do is found by trying, in `features.py`; this is only what it reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import ServerError
from chasqui.server.commands.replies import parse_info, parse_server_time
from chasqui.server.flow import Call

if TYPE_CHECKING:
    from chasqui.server.flow import Flow, Reply


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """None where the server does not say, or not to us.

    eviction: what goes when memory is full; anything but `noeviction` may delete jobs. persistence: `aof`, `rdb`
    (may lose the last minutes), `none` (loses all).
    """

    server_time_ms: int
    role: str | None
    mode: str | None
    uptime_s: int | None
    clients: int | None
    memory_bytes: int | None
    max_memory_bytes: int | None
    eviction: str | None
    persistence: str | None
    keys: int | None


def server_info() -> Flow[ServerInfo]:
    """One round trip. A right that is missing costs its answers only, not the report."""
    clock, info, saving, keys = yield [
        Call(("TIME",)),
        Call(("INFO",), tolerant=True),
        Call(("CONFIG", "GET", "save"), tolerant=True),
        Call(("DBSIZE",), tolerant=True),
    ]
    lines = parse_info(info)
    return ServerInfo(
        server_time_ms=_server_time_ms(clock),
        role=lines.get("role"),
        mode=lines.get("redis_mode") or lines.get("server_mode"),
        uptime_s=_parse_int(lines.get("uptime_in_seconds")),
        clients=_parse_int(lines.get("connected_clients")),
        memory_bytes=_parse_int(lines.get("used_memory")),
        max_memory_bytes=_parse_int(lines.get("maxmemory")),
        eviction=lines.get("maxmemory_policy"),
        persistence=_persistence(lines, saving),
        keys=keys if isinstance(keys, int) else None,
    )


def eviction_policy() -> Flow[str | None]:
    """What goes when memory is full, and nothing else: for those who start and only want to know whether to warn."""
    [info] = yield [Call(("INFO", "memory"), tolerant=True)]
    return parse_info(info).get("maxmemory_policy")


def _persistence(lines: dict[str, str], saving: Reply) -> str | None:
    if lines.get("aof_enabled") == "1":
        return "aof"
    if not isinstance(saving, list) or not lines:
        return None
    return "rdb" if len(saving) > 1 and saving[1] else "none"


def _server_time_ms(reply: Reply) -> int:
    try:
        return parse_server_time(reply)
    except (TypeError, ValueError):
        raise ServerError(
            "the server answers TIME with something that is no time", hint="is it a Redis server?"
        ) from None


def _parse_int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,20}", text) else None
