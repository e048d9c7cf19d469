"""The two links: `Link` blocks, `AsyncLink` awaits; both drive the same flows by the same pilot.

Here the pilot's steps are taken, one after the other; how a parcel travels is in `lines.py`, and what to send and
what replies mean is decided in `pilot.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from chasqui.clock import Clock, SystemClock
from chasqui.errors import ConfigError, Refused
from chasqui.server import features, listening
from chasqui.server.address import Address, Node, parse
from chasqui.server.call import Call
from chasqui.server.cluster import Cluster
from chasqui.server.lines import AsyncLine, Line
from chasqui.server.parcel import Forget, Pause, Traffic
from chasqui.server.pilot import Pilot
from chasqui.server.pools import Setup
from chasqui.server.routes import Direct, Sentinels
from chasqui.server.secret import Secret
from chasqui.server.stream_line import StreamLine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from chasqui.server.call import Flow
    from chasqui.server.features import Features
    from chasqui.server.parcel import Outcome, Parcel, Step, Steps
    from chasqui.server.pools import Credentials
    from chasqui.server.routes import Route

T = TypeVar("T")

CONNECT_TIMEOUT = 3.0
TIMEOUT = 10.0


class _Link:
    """What both links are made of. Opening one sends nothing; the first flow connects."""

    def __init__(self, setup: Setup, pilot: Pilot, traffic: Traffic, pools: dict[Node, Any]) -> None:
        self._setup = setup
        self._pilot = pilot
        self._traffic = traffic
        self._pools = pools
        self._features: Features | None = None
        self._is_part = False

    @classmethod
    def open(
        cls,
        address: Address | Secret | str,
        *,
        read_only: bool = False,
        connect_timeout: float = CONNECT_TIMEOUT,
        timeout: float = TIMEOUT,
        data_dir: Path | None = None,
        clock: Clock | None = None,
        credentials: Credentials | None = None,
    ) -> Self:
        """A link to what the URL names.

        connect_timeout: seconds a connection may take to be made. timeout: seconds of silence, beyond what a call
        is allowed to block, after which a connection counts as broken. data_dir: where embedded servers live; an
        `embedded://` URL starts its server here and now, in this thread. credentials: asked before each login,
        instead of what the URL says.
        """
        address = address if isinstance(address, Address) else Secret.of(address) or Secret("")
        target = parse(address) if isinstance(address, Secret) else address
        target = _started(target, data_dir) if target.kind == "embedded" else target
        pilot = Pilot(_route(target, connect_timeout), read_only=read_only, silence=timeout)
        setup = Setup.of(target, connect_timeout, clock or SystemClock(), credentials)
        return cls(setup, pilot, Traffic(), {})

    @property
    def address(self) -> Address:
        """Where this link leads."""
        return self._setup.address

    @property
    def read_only(self) -> bool:
        """Whether writes are refused before they leave."""
        return self._pilot.read_only

    @property
    def round_trips(self) -> int:
        """Parcels sent: one per batch, or one per node and batch in a cluster."""
        return self._traffic.round_trips

    @property
    def commands(self) -> int:
        """Commands sent."""
        return self._traffic.commands

    @property
    def bytes_out(self) -> int:
        """Bytes written, logins aside."""
        return self._traffic.bytes_out

    @property
    def bytes_in(self) -> int:
        """Bytes read, logins aside."""
        return self._traffic.bytes_in

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}{' read-only' if self.read_only else ''}>"

    def _part(self, node: Node) -> Self:
        """A link to one node only, through the same connections."""
        pilot = Pilot(Direct(node), read_only=self.read_only, silence=self._pilot.silence)
        part = type(self)(self._setup, pilot, self._traffic, self._pools)
        part._is_part = True
        return part


class Link(_Link):
    """Drives flows and blocks. Threads may share one: each running flow takes a connection of its own.

    After a fork the child makes new connections and leaves the parent's alone.
    """

    def run(self, flow: Flow[T]) -> T:
        """Carry the flow through and return what it returns."""
        return self._follow(self._pilot.fly(flow))

    def features(self) -> Features:
        """What the server can do; asked once per link."""
        if self._features is None:
            self._features = self.run(features.probe(read_only=self.read_only))
        return self._features

    def nodes(self) -> list[Link]:
        """A link per node that holds data, for what must be asked of each (SCAN, INFO). They close with this one."""
        return [self._part(node) for node in self._follow(self._pilot.route.everywhere())]

    def listen(self, channel: str) -> Iterator[bytes]:
        """What is published on a channel from now on, by a connection of its own; a `ServerError` ends it."""
        [node] = self._follow(self._pilot.route.place([Call((), keys=(channel,))]))
        return listening.listen(self._setup, self._pool(node), node, channel)

    def close(self) -> None:
        """Close every connection."""
        for pool in [] if self._is_part else self._pools.values():
            pool.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self, steps: Steps[T]) -> T:
        """Do each step and tell the pilot how it went."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    def _do(self, step: Step) -> Sequence[Outcome]:
        if isinstance(step, Pause):
            self._setup.clock.pause(step.seconds)
        elif isinstance(step, Forget):
            self._pool(step.node).disconnect(inuse_connections=False)
        else:
            return self._carry(step)
        return ()

    def _carry(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        """Write to every node before reading from any, so that they work at the same time."""
        with ExitStack() as stack:
            lines = [stack.enter_context(self._line(parcel)) for parcel in parcels]
            for line in lines:
                line.write()
            return [line.read() for line in lines]

    def _line(self, parcel: Parcel) -> Line:
        return Line(self._setup, self._pool(parcel.node), parcel, self._traffic)

    def _pool(self, node: Node) -> Any:
        if node not in self._pools:
            self._pools.setdefault(node, self._setup.pool(node))
        return self._pools[node]


class AsyncLink(_Link):
    """Drives flows and awaits. Tasks of one event loop may share one: each running flow takes its own connection.

    Do not carry it over a fork or into another loop: open a new one there.
    """

    async def run(self, flow: Flow[T]) -> T:
        """Carry the flow through and return what it returns."""
        return await self._follow(self._pilot.fly(flow))

    async def features(self) -> Features:
        """What the server can do; asked once per link."""
        if self._features is None:
            self._features = await self.run(features.probe(read_only=self.read_only))
        return self._features

    async def nodes(self) -> list[AsyncLink]:
        """A link per node that holds data, for what must be asked of each (SCAN, INFO). They close with this one."""
        return [self._part(node) for node in await self._follow(self._pilot.route.everywhere())]

    async def line_to(self, key: str, *, asked_anew: bool = False) -> StreamLine:
        """A connection of the caller's own to the node that holds this key; it must be closed before the link.

        asked_anew: do not believe what is known about the way, nor in idle connections, because the last line broke.
        """
        if self.read_only:
            raise Refused("a line for writing is refused: this connection is read-only")
        if asked_anew:
            self._pilot.route.doubt()
        [node] = await self._follow(self._pilot.route.place([Call((), keys=(key,))]))
        if asked_anew:
            await self._do(Forget(node))
        line = StreamLine(self._setup, self._pool(node), node, self._traffic, self._pilot.silence)
        return await line.open()

    async def listen(self, channel: str) -> AsyncIterator[bytes]:
        """What is published on a channel from now on, by a connection of its own; a `ServerError` ends it."""
        [node] = await self._follow(self._pilot.route.place([Call((), keys=(channel,))]))
        async for payload in listening.listen_async(self._setup, self._pool(node), node, channel):
            yield payload

    def blocking(self) -> Link:
        """A link of the other kind to the same place, for another thread; with connections of its own."""
        route = _route(self.address, self._setup.connect_timeout)
        return Link(
            self._setup, Pilot(route, read_only=self.read_only, silence=self._pilot.silence), Traffic(), {}
        )

    async def close(self) -> None:
        """Close every connection."""
        for pool in [] if self._is_part else list(self._pools.values()):
            await pool.disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _follow(self, steps: Steps[T]) -> T:
        """Do each step and tell the pilot how it went."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    async def _do(self, step: Step) -> Sequence[Outcome]:
        if isinstance(step, Pause):
            await self._setup.clock.sleep(step.seconds)
        elif isinstance(step, Forget):
            await self._pool(step.node).disconnect(inuse_connections=False)
        elif len(step) == 1:
            return [await self._carry(step[0])]
        else:
            return await asyncio.gather(*map(self._carry, step))
        return ()

    async def _carry(self, parcel: Parcel) -> Outcome:
        async with AsyncLine(self._setup, self._pool(parcel.node), parcel, self._traffic) as line:
            return await line.converse()

    def _pool(self, node: Node) -> Any:
        if node not in self._pools:
            self._pools[node] = self._setup.async_pool(node)
        return self._pools[node]


def _route(address: Address, silence: float) -> Route:
    match address.kind:
        case "cluster":
            return Cluster(address.nodes, silence)
        case "sentinel":
            return Sentinels(address.nodes, address.name, silence)
        case _:
            return Direct(address.nodes[0])


def _started(address: Address, data_dir: Path | None) -> Address:
    """The address of an embedded server, once it runs."""
    if data_dir is None:
        raise ConfigError("an embedded server needs a directory for its data", hint="pass data_dir")
    from chasqui.server import embedded  # most links never need it

    socket = embedded.ensure(embedded.default_directory(data_dir, address.name or "default"))
    return replace(address, kind="unix", nodes=(Node(str(socket)),))
