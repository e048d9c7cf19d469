"""What the dashboard costs the server, counted on the wire."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import AsyncLink, Keys, Link
from chasqui.server.call import Call
from chasqui_cli.tui.feed import Feed
from chasqui_cli.tui.messages import Arrived, FleetView
from tests.proxy import proxied
from tests.servers import Server, spawn
from tests.tui import seed

if TYPE_CHECKING:
    from collections.abc import Iterator

PAYLOAD = "x" * 50_000


@pytest.fixture
def server() -> Iterator[Server]:
    with spawn("valkey-9.1") as server:
        yield server


@pytest.mark.parametrize("queues", [1, 42, 500])
async def test_a_tick_of_the_fleet_is_one_round_trip_and_carries_no_payload(
    server: Server, queues: int
) -> None:
    with Link.open(server.url) as link:
        calls = [
            call
            for keys in (Keys(f"q{nth}") for nth in range(queues))
            for call in (
                Call(
                    ("XADD", keys.dlq, "1-0", "d", PAYLOAD if queues < 50 else "x", "reason", "x"),
                    keys=(keys.dlq,),
                ),
                Call(("ZADD", keys.delayed, 9e15, PAYLOAD if queues < 50 else "x"), keys=(keys.delayed,)),
            )
        ]
        seed.do(link, *calls)
    with proxied(server.socket) as proxy:
        ticks: list[Arrived] = []
        turns: list[int] = []
        enough = asyncio.Event()

        def hear(message: Any) -> None:
            if isinstance(message, Arrived):
                ticks.append(message)
                turns.append(proxy.turns)
                if len(ticks) >= 6:
                    enough.set()

        feed = Feed(lambda: AsyncLink.open(proxy.url), interval_s=0.05)
        feed.begin(hear)
        running = asyncio.create_task(feed.run())
        async with asyncio.timeout(60):
            await enough.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    last = ticks[-1]
    assert isinstance(last.view, FleetView)
    assert len(last.view.rows) == queues
    assert [tick.cost.round_trips for tick in ticks[3:]] == [1, 1, 1]
    # A long batch is answered while it is still being sent, so beyond some dozens of queues turns are no trips.
    if queues < 50:
        assert [after - before for before, after in pairwise(turns[3:])] == [1, 1]
    assert last.cost.bytes_moved < 1200 * (queues + 1), "no payload is moved"
    assert last.cost.commands <= queues + 4


@pytest.mark.parametrize(
    ("tab", "trips"),
    [("queue", 1), ("jobs", 1), ("dlq", 1), ("events", 1), ("workers", 2), ("delayed", 2), ("cron", 2)],
)
async def test_a_tick_of_a_queue_is_as_many_round_trips_as_promised(
    server: Server, tab: str, trips: int
) -> None:
    from chasqui_cli.tui.messages import Target

    with Link.open(server.url) as link:
        seed.everything(link, "q", 1_794_000_000_000)
    costs: list[int] = []
    enough = asyncio.Event()

    def hear(message: Any) -> None:
        if isinstance(message, Arrived):
            costs.append(message.cost.round_trips)
            if len(costs) >= 4:
                enough.set()

    feed = Feed(lambda: AsyncLink.open(server.url), interval_s=0.05)
    feed.begin(hear)
    feed.look_at(Target(tab, "q"))
    running = asyncio.create_task(feed.run())
    async with asyncio.timeout(60):
        await enough.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert costs[-1] == trips
