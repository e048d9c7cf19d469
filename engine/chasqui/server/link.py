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
from chasqui.errors import ChangeRefused, ConfigError
from chasqui.server import features, pubsub
from chasqui.server.address import Address, Node, parse_address
from chasqui.server.cluster import ClusterRoute
from chasqui.server.cluster_routing import DirectRoute, SentinelRoute
from chasqui.server.connection_setup import PoolFactory
from chasqui.server.executor import FlowExecutor
from chasqui.server.flow import Call
from chasqui.server.pipelined_connection import PipelinedConnection
from chasqui.server.request import DropConnections, Pause, TrafficCounters
from chasqui.server.round_trip import AsyncRoundTrip, RoundTrip
from chasqui.server.secret import Secret

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from chasqui.server.cluster_routing import Route
    from chasqui.server.connection_setup import Credentials
    from chasqui.server.features import Features
    from chasqui.server.flow import Flow
    from chasqui.server.request import NodeRequest, RequestResult, Step, Steps

T = TypeVar("T")

CONNECT_TIMEOUT = 3.0
READ_TIMEOUT = 10.0


class _BaseLink:
    """What both links are made of. Opening one sends nothing; the first flow connects."""

    def __init__(
        self, setup: PoolFactory, pilot: FlowExecutor, traffic: TrafficCounters, pools: dict[Node, Any]
    ) -> None:
        self._setup = setup
        self._pilot = pilot
        self._traffic = traffic
        self._pools = pools
        self._features: Features | None = None
        self._is_node_link = False

    @classmethod
    def open(
        cls,
        address: Address | Secret | str,
        *,
        read_only: bool = False,
        connect_timeout: float = CONNECT_TIMEOUT,
        timeout: float = READ_TIMEOUT,
        data_dir: Path | None = None,
        clock: Clock | None = None,
        credentials: Credentials | None = None,
    ) -> Self:
        """A link to what the URL names.

        connect_timeout: seconds a connection may take to be made. timeout: seconds of silence, beyond what a call
        is allowed to block, after which a connection counts as broken. data_dir: where embedded servers live; an
        `embedded://` URL starts its server here and now, in this thread. credentials: asked before each login,
        instead of those in the URL.
        """
        address = address if isinstance(address, Address) else Secret.wrap(address) or Secret("")
        target = parse_address(address) if isinstance(address, Secret) else address
        target = _start_embedded(target, data_dir) if target.kind == "embedded" else target
        pilot = FlowExecutor(_route_for(target, connect_timeout), read_only=read_only, silence=timeout)
        setup = PoolFactory.create(target, connect_timeout, clock or SystemClock(), credentials)
        return cls(setup, pilot, TrafficCounters(), {})

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

    def _node_link(self, node: Node) -> Self:
        """A link to one node only, through the same connections."""
        pilot = FlowExecutor(DirectRoute(node), read_only=self.read_only, silence=self._pilot.silence)
        part = type(self)(self._setup, pilot, self._traffic, self._pools)
        part._is_node_link = True
        return part


class Link(_BaseLink):
    """Drives flows and blocks. Threads may share one: each running flow takes a connection of its own.

    After a fork the child makes new connections and leaves the parent's alone.
    """

    def run(self, flow: Flow[T]) -> T:
        """Carry the flow through and return what it returns."""
        return self._run_steps(self._pilot.execute(flow))

    def features(self) -> Features:
        """What the server can do; asked once per link."""
        if self._features is None:
            self._features = self.run(features.probe_features(read_only=self.read_only))
        return self._features

    def nodes(self) -> list[Link]:
        """A link per node that holds data, for what must be asked of each (SCAN, INFO). They close with this one."""
        return [self._node_link(node) for node in self._run_steps(self._pilot.route.all_nodes())]

    def subscribe(self, channel: str) -> Iterator[bytes]:
        """What is published on a channel from now on, by a connection of its own; a `ServerError` ends it."""
        [node] = self._run_steps(self._pilot.route.nodes_for([Call((), keys=(channel,))]))
        return pubsub.subscribe(self._setup, self._pool(node), node, channel)

    def close(self) -> None:
        """Close every connection."""
        for pool in [] if self._is_node_link else self._pools.values():
            pool.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_steps(self, steps: Steps[T]) -> T:
        """Do each step and send the pilot its outcome."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self._run_step(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    def _run_step(self, step: Step) -> Sequence[RequestResult]:
        if isinstance(step, Pause):
            self._setup.clock.sleep_sync(step.seconds)
        elif isinstance(step, DropConnections):
            self._pool(step.node).disconnect(inuse_connections=False)
        else:
            return self._exchange(step)
        return ()

    def _exchange(self, requests: Sequence[NodeRequest]) -> Sequence[RequestResult]:
        """Write to every node before reading from any, so that they work at the same time."""
        with ExitStack() as stack:
            lines = [stack.enter_context(self._open_exchange(request)) for request in requests]
            for line in lines:
                line.write()
            return [line.read() for line in lines]

    def _open_exchange(self, request: NodeRequest) -> RoundTrip:
        return RoundTrip(self._setup, self._pool(request.node), request, self._traffic)

    def _pool(self, node: Node) -> Any:
        if node not in self._pools:
            self._pools.setdefault(node, self._setup.pool(node))
        return self._pools[node]


class AsyncLink(_BaseLink):
    """Drives flows and awaits. Tasks of one event loop may share one: each running flow takes its own connection.

    Do not carry it over a fork or into another loop: open a new one there.
    """

    async def run(self, flow: Flow[T]) -> T:
        """Carry the flow through and return what it returns."""
        return await self._run_steps(self._pilot.execute(flow))

    async def features(self) -> Features:
        """What the server can do; asked once per link."""
        if self._features is None:
            self._features = await self.run(features.probe_features(read_only=self.read_only))
        return self._features

    async def nodes(self) -> list[AsyncLink]:
        """A link per node that holds data, for what must be asked of each (SCAN, INFO). They close with this one."""
        return [self._node_link(node) for node in await self._run_steps(self._pilot.route.all_nodes())]

    async def pipelined_connection(self, key: str, *, refresh_route: bool = False) -> PipelinedConnection:
        """A connection of the caller's own to the node that holds this key; it must be closed before the link.

        asked_anew: do not believe what is known about the way, nor in idle connections, because the last line broke.
        """
        if self.read_only:
            raise ChangeRefused("a line for writing is refused: this connection is read-only")
        if refresh_route:
            self._pilot.route.invalidate()
        [node] = await self._run_steps(self._pilot.route.nodes_for([Call((), keys=(key,))]))
        if refresh_route:
            await self._run_step(DropConnections(node))
        line = PipelinedConnection(self._setup, self._pool(node), node, self._traffic, self._pilot.silence)
        return await line.open()

    async def subscribe(self, channel: str) -> AsyncIterator[bytes]:
        """What is published on a channel from now on, by a connection of its own; a `ServerError` ends it."""
        [node] = await self._run_steps(self._pilot.route.nodes_for([Call((), keys=(channel,))]))
        async for payload in pubsub.subscribe_async(self._setup, self._pool(node), node, channel):
            yield payload

    def blocking_copy(self) -> Link:
        """A link of the other kind to the same place, for another thread; with connections of its own."""
        route = _route_for(self.address, self._setup.connect_timeout)
        return Link(
            self._setup,
            FlowExecutor(route, read_only=self.read_only, silence=self._pilot.silence),
            TrafficCounters(),
            {},
        )

    async def close(self) -> None:
        """Close every connection."""
        for pool in [] if self._is_node_link else list(self._pools.values()):
            await pool.disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run_steps(self, steps: Steps[T]) -> T:
        """Do each step and send the pilot its outcome."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._run_step(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    async def _run_step(self, step: Step) -> Sequence[RequestResult]:
        if isinstance(step, Pause):
            await self._setup.clock.sleep(step.seconds)
        elif isinstance(step, DropConnections):
            await self._pool(step.node).disconnect(inuse_connections=False)
        elif len(step) == 1:
            return [await self._exchange(step[0])]
        else:
            return await asyncio.gather(*map(self._exchange, step))
        return ()

    async def _exchange(self, request: NodeRequest) -> RequestResult:
        async with AsyncRoundTrip(self._setup, self._pool(request.node), request, self._traffic) as line:
            return await line.write_and_read()

    def _pool(self, node: Node) -> Any:
        if node not in self._pools:
            self._pools[node] = self._setup.async_pool(node)
        return self._pools[node]


def _route_for(address: Address, silence: float) -> Route:
    match address.kind:
        case "cluster":
            return ClusterRoute(address.nodes, silence)
        case "sentinel":
            return SentinelRoute(address.nodes, address.name, silence)
        case _:
            return DirectRoute(address.nodes[0])


def _start_embedded(address: Address, data_dir: Path | None) -> Address:
    """The address of an embedded server, once it runs."""
    if data_dir is None:
        raise ConfigError("an embedded server needs a directory for its data", hint="pass data_dir")
    from chasqui.server.embedded import embedded_server  # most links never need it

    socket = embedded_server.ensure_running(embedded_server.embedded_directory(data_dir, address.name or "default"))
    return replace(address, kind="unix", nodes=(Node(str(socket)),))
