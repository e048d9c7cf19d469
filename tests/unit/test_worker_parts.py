"""Parts of the worker on their own, without a server: what they leave behind, and how they report themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from chasqui.clock import SystemClock
from chasqui.consume.held_entries import HeldEntries
from chasqui.consume.identity import ConsumerIdentity
from chasqui.consume.lease_renewal import Heartbeat
from chasqui.consume.outbox import Outbox
from chasqui.errors import Unreachable
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.wire.keys import Keys
from tests.support.clocks import FakeClock, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from chasqui.server.link import Link

COMMANDS = Commands(Features(idmp=True, ackdel=True, claim=True, kind="any", version="any"))
IDENTITY = ConsumerIdentity(COMMANDS, Keys("mail"), "default", "c-1")


class FailingOnceLink:
    """A link on which every call takes a second of a fake clock, and the first one fails."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, flow: object) -> list[bytes]:
        self.clock.sleep_sync(1)
        self.calls += 1
        if self.calls == 1:
            raise Unreachable("gone")
        return []


async def test_a_heartbeat_that_works_again_does_so_since_then() -> None:
    clock = FakeClock()
    began, held, link = clock.now_ms(), HeldEntries(30), FailingOnceLink(clock)
    held.add([[b"1-0", [], 0, 0]], asked=0)
    heartbeat = Heartbeat(
        cast("Callable[[], Link]", lambda: link), IDENTITY, held, clock, 0.001, asyncio.get_running_loop()
    )
    heartbeat.start()
    try:
        await eventually(lambda: heartbeat.state.role == "running" and heartbeat.state.counts["beats"])
        state = heartbeat.state
    finally:
        heartbeat.stop()
        heartbeat.join()
    assert (state.role, state.last_error, state.last_error_ms) == ("running", "gone", began + 1000)
    assert state.since_ms == began + 2000
    assert state.counts["failures"] == 1


class SlowConnection:
    """A connection that takes a few steps of the event loop to close."""

    closed = False
    on_lost: Callable[[Unreachable], None]

    def send(self, *_: object) -> None:
        pass

    async def close(self) -> None:
        for _ in range(10):
            await SystemClock().sleep(0)
        self.closed = True


class ConnectingLink:
    def __init__(self) -> None:
        self.opened: list[SlowConnection] = []

    async def pipelined_connection(self, *_: object, **__: object) -> SlowConnection:
        self.opened.append(SlowConnection())
        return self.opened[-1]


async def test_an_outbox_that_ends_has_closed_the_connection_it_lost() -> None:
    link, stop = ConnectingLink(), asyncio.Event()
    unused: Any = None
    outbox = Outbox(cast("Any", link), IDENTITY, HeldEntries(30), unused, FakeClock(), unused)
    running = asyncio.ensure_future(outbox.run(stop))
    await eventually(lambda: link.opened)
    stop.set()
    link.opened[0].on_lost(Unreachable("gone"))
    await running
    assert [connection.closed for connection in link.opened] == [True]
