"""Both links behind one face, so that every test of a link is a test of both; and a few flows to send through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import pytest

from chasqui.server.commands import parse_server_time
from chasqui.server.flow import Call
from chasqui.server.link import AsyncLink, Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.server.features import Features
    from chasqui.server.flow import Arg, Flow, Reply

T = TypeVar("T")


class AnyLink(Protocol):
    """An `AsyncLink`, or a `Link` that looks like one."""

    @property
    def round_trips(self) -> int: ...
    @property
    def commands(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    async def run(self, flow: Flow[T]) -> T: ...
    async def features(self) -> Features: ...
    async def nodes(self) -> Sequence[AnyLink]: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: Any) -> None: ...


class Opener(Protocol):
    def __call__(self, url: Any, **options: Any) -> AnyLink: ...


class BlockingLink:
    """A `Link` whose methods can be awaited; they block all the same."""

    def __init__(self, link: Link) -> None:
        self.link = link

    @property
    def round_trips(self) -> int:
        return self.link.round_trips

    @property
    def commands(self) -> int:
        return self.link.commands

    @property
    def bytes_in(self) -> int:
        return self.link.bytes_in

    @property
    def bytes_out(self) -> int:
        return self.link.bytes_out

    async def run(self, flow: Flow[T]) -> T:
        return self.link.run(flow)

    async def features(self) -> Features:
        return self.link.features()

    async def nodes(self) -> Sequence[BlockingLink]:
        return [BlockingLink(link) for link in self.link.nodes()]

    async def close(self) -> None:
        self.link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.link.close()


def awaiting(url: Any, **options: Any) -> AnyLink:
    return AsyncLink.open(url, **options)


def blocking(url: Any, **options: Any) -> AnyLink:
    return BlockingLink(Link.open(url, **options))


both_links = pytest.mark.parametrize("open_link", [blocking, awaiting], ids=["Link", "AsyncLink"])


def command(*words: Arg, keys: tuple[str, ...] = (), **options: Any) -> Flow[Reply]:
    """One call, one reply."""
    [reply] = yield [Call(words, keys=keys, **options)]
    return reply


class PlainCommands:
    """Plain commands over the `link` of a subclass, to prepare keys and to look at them."""

    __slots__ = ()
    link: Link

    def run(self, flow: Flow[T]) -> T:
        return self.link.run(flow)

    def command(self, *words: Any) -> Any:
        return self.link.run(command(*words))

    def now_ms(self) -> int:
        """The server's time."""
        return parse_server_time(self.command("TIME"))


def command_batch(*calls: Call) -> Flow[list[Reply]]:
    """One batch."""
    return (yield calls)
