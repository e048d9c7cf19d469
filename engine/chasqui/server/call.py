"""What a flow says to a link: calls, in batches. Pure values; nothing here knows redis-py.

A flow is a generator that yields a batch of calls (one round trip) and is sent their replies in order:

    def length(key: str) -> Flow[int]:
        [count] = yield [Call(("XLEN", key), keys=(key,))]
        return count
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Word = bytes | str | int | float
Reply = Any
T = TypeVar("T")

Flow = Generator[Sequence["Call"], list[Reply], T]


@dataclass(frozen=True, slots=True)
class Call:
    """One Redis command.

    words: the command as sent. keys: the keys among them, for cluster routing (all of one slot).
    script: the name of the Lua file behind an EVALSHA, so that the link can reload it on NOSCRIPT.
    block_ms: how long the server may hold the reply back; the link waits that long and a margin.
    tolerant: an error reply is handed to the flow as a `ServerError` value instead of being raised.
    """

    words: tuple[Word, ...]
    keys: tuple[str | bytes, ...] = ()
    script: str | None = None
    block_ms: int | None = None
    tolerant: bool = False
