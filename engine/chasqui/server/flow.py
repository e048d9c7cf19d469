"""What a flow yields to a link: calls, in batches. Pure values; nothing here knows redis-py.

A flow is a generator that yields a batch of calls (one round trip) and is sent their replies in order:

    def length(key: str) -> Flow[int]:
        [count] = yield [Call(("XLEN", key), keys=(key,))]
        return count
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from chasqui.errors import ServerError

Arg = bytes | str | int | float
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
    about_before: it asks about the calls before it in its batch, so it is sent again with those that are.
    """

    args: tuple[Arg, ...]
    keys: tuple[str | bytes, ...] = ()
    script: str | None = None
    block_ms: int | None = None
    tolerant: bool = False
    resend_with_batch: bool = False


class LazyBatch(Sequence[Call]):
    """A batch whose calls are made one by one, each while those before it are on their way to the server already.

    For long batches: sender and server then work at the same time. All calls go where the first one goes. Once made
    they are kept, so that a train can be sent again. ordered: they must also be carried out in this order by a server
    that does not know their scripts yet.
    """

    __slots__ = ("_coming", "_length", "_made", "ordered")

    def __init__(self, calls: Iterator[Call], length: int, *, ordered: bool = False) -> None:
        self.ordered = ordered
        self._coming = calls
        self._length = length
        self._made: list[Call] = []

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, place: slice) -> list[Call]: ...
    def __getitem__(self, place: int | slice) -> Call | list[Call]:
        if isinstance(place, slice):
            return list(self)[place]
        while len(self._made) <= place < self._length:
            self._made.append(next(self._coming))
        return self._made[place]


def run_together(*flows: Flow[Any]) -> Flow[tuple[Any, ...]]:
    """Carry the flows through side by side and return what each returns: as many round trips as the longest takes.

    A flow that the server refuses returns the `ServerError` instead; the others are not concerned. A broken
    connection ends them all.
    """
    results: list[Any] = [None] * len(flows)
    going: dict[int, Sequence[Call]] = {}
    try:
        for place, flow in enumerate(flows):
            _advance(flow, place, None, going, results)
        while going:
            asked = dict(going)
            replies = yield [replace(call, tolerant=True) for calls in asked.values() for call in calls]
            for place, calls in asked.items():
                own, replies = replies[: len(calls)], replies[len(calls) :]
                _advance(flows[place], place, own, going, results)
        return tuple(results)
    finally:
        for flow in flows:
            flow.close()


def _advance(
    flow: Flow[Any], place: int, replies: list[Reply] | None, going: dict[int, Sequence[Call]], results: list[Any]
) -> None:
    """Let one flow take its next step with what it was answered, or note down what it came to."""
    calls = going.pop(place, ())
    refused = (
        reply
        for call, reply in zip(calls, replies or (), strict=True)
        if isinstance(reply, ServerError) and not call.tolerant
    )
    try:
        problem = next(refused, None)
        if replies is None:
            going[place] = next(flow)
        else:
            going[place] = flow.throw(problem) if problem else flow.send(replies)
    except StopIteration as end:
        results[place] = end.value
    except ServerError as error:
        results[place] = error


def batches(items: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    """The items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def call_in_batches(items: Sequence[T], build: Callable[[T], Call], size: int = 500) -> Flow[list[Reply]]:
    """The reply to each item's call, in one round trip for every `size` items."""
    replies: list[Reply] = []
    for some in batches(items, size):
        replies += yield [build(item) for item in some]
    return replies


def as_flow(calls: Sequence[Call]) -> Flow[list[Reply]]:
    """A batch of another flow's, to be sent along; its replies are for the driver of that flow."""
    return (yield calls)
