"""What the dashboard costs the server, counted on the wire."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import AsyncLink, Keys, Link
from chasqui.foreign import JobListKeys, RsmqKeys, joblist, rsmq
from chasqui.server.flow import Call
from chasqui_cli.tui.feed import Feed
from chasqui_cli.tui.feed_messages import FleetView, ReadTarget, ViewReady
from tests.support.faults.proxy import proxy_to
from tests.support.links import command_batch
from tests.support.seeds import dashboard_queues
from tests.support.servers.server import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.faults.proxy import Proxy

PAYLOAD = "x" * 5_000


@pytest.fixture
def server() -> Iterator[Server]:
    with start_server("valkey-9.1") as server:
        yield server


@pytest.mark.parametrize("queues", [1, 42, 500])
async def test_a_tick_of_the_fleet_is_one_round_trip_and_carries_no_payload(server: Server, queues: int) -> None:
    with Link.open(server.url) as link:
        calls = [
            call
            for keys in (Keys(f"q{nth}") for nth in range(queues))
            for call in (
                Call(("XADD", keys.dlq, "1-0", "d", PAYLOAD, "reason", "x"), keys=(keys.dlq,)),
                Call(("ZADD", keys.delayed, 9e15, PAYLOAD), keys=(keys.delayed,)),
            )
        ]
        link.run(command_batch(*calls))
    with proxy_to(server.socket) as proxy:
        feed = Feed(lambda: AsyncLink.open(proxy.url), interval_s=0.05)
        async with Listener(feed, proxy) as recorder:
            await recorder.until(lambda tick: len(tick.view.rows) == queues)
            await recorder.next(3, "fleet")
            ticks, turns = await recorder.next(3, "fleet")
    last = ticks[-1]
    assert isinstance(last.view, FleetView)
    assert len(last.view.rows) == queues
    assert [tick.cost.round_trips for tick in ticks] == [1, 1, 1]
    # A long batch is answered while it is still being sent, so beyond some dozens of queues turns are not round trips.
    if queues < 50:
        assert [after - before for before, after in pairwise(turns)] == [1, 1]
    assert last.cost.bytes_moved < 1200 * (queues + 1), "no payload is moved"
    assert last.cost.commands <= queues + 8, "one look each, the clock, and pages of keys"


async def test_a_tick_of_every_tab_of_a_queue_is_one_round_trip(server: Server) -> None:
    """Only the doctor's takes more: a close look is several. What a tab did not know the first time it knows then."""
    with Link.open(server.url) as link:
        dashboard_queues.add_every_state(link, "q", 1_794_000_000_000)
        dashboard_queues.command(link, "XGROUP", "CREATE", Keys("q").stream, "second", "0")
    with proxy_to(server.socket) as proxy:
        feed = Feed(lambda: AsyncLink.open(proxy.url), interval_s=0.05)
        async with Listener(feed, proxy) as recorder:
            for tab in ("queue", "jobs", "dlq", "delayed", "cron", "workers", "events"):
                feed.set_target(ReadTarget(tab, "q"))
                ticks, turns = await recorder.next(6, tab)
                assert [tick.cost.round_trips for tick in ticks[2:]] == [1] * 4, tab
                assert [after - before for before, after in pairwise(turns[2:])] == [1] * 3, tab


async def test_what_comes_and_goes_between_ticks_is_seen_though_it_was_known_before(server: Server) -> None:
    keys = Keys("q")
    with Link.open(server.url) as link:
        dashboard_queues.add_every_state(link, "q", 1_794_000_000_000)
        with proxy_to(server.socket) as proxy:
            feed = Feed(lambda: AsyncLink.open(proxy.url), interval_s=0.05)
            async with Listener(feed, proxy) as recorder:
                feed.set_target(ReadTarget("cron", "q"))
                [*_, last], _ = await recorder.next(3, "cron")
                assert len(last.view.specs) == 2
                gone = dashboard_queues.command(link, "ZRANGE", keys.repeat, 0, 0)[0]
                dashboard_queues.command(link, "ZREM", keys.repeat, gone)
                dashboard_queues.command(link, "ZADD", keys.repeat, 5, "another")
                [*_, last], _ = await recorder.next(3, "cron")
                assert last.view.specs[0].key == "another"
                feed.set_target(ReadTarget("workers", "q"))
                [*_, last], _ = await recorder.next(3, "workers")
                assert [one.name for one in last.view.workers] == ["worker-1"]
                dashboard_queues.command(link, "XGROUP", "CREATE", keys.stream, "second", "0")
                dashboard_queues.command(link, "XGROUP", "CREATECONSUMER", keys.stream, "second", "worker-2")
                [*_, last], _ = await recorder.next(4, "workers")
                assert {one.name for one in last.view.workers} == {"worker-1", "worker-2"}
                dashboard_queues.command(link, "XGROUP", "DESTROY", keys.stream, "second")
                [*_, last], _ = await recorder.next(4, "workers")
                assert {one.name for one in last.view.workers} == {"worker-1"}
                feed.set_target(ReadTarget("delayed", "q"))
                [*_, last], _ = await recorder.next(3, "delayed")
                assert sum(count for *_, count in last.view.buckets) == 6
                dashboard_queues.add_delayed(link, "q", 3, step_ms=86_400_000, name="far")
                [*_, last], _ = await recorder.next(4, "delayed")
                assert sum(count for *_, count in last.view.buckets) == 9
                dashboard_queues.command(link, "DEL", keys.delayed)
                [*_, last], _ = await recorder.next(4, "delayed")
                assert not sum(count for *_, count in last.view.buckets)


async def test_other_systems_queues_cost_no_trip_of_their_own_and_no_hash_is_read_whole(
    server: Server,
) -> None:
    with Link.open(server.url) as link:
        for nth in range(20):
            dashboard_queues.add_waiting(link, f"ours-{nth}", 1)
            link.run(rsmq.create_queue(RsmqKeys(f"mail-{nth}")))
            link.run(rsmq.send_many(RsmqKeys(f"mail-{nth}"), [rsmq.Draft(PAYLOAD)]))
            link.run(joblist.enqueue(JobListKeys(f"jobs-{nth}"), {"x": PAYLOAD}, now_ms=1_794_000_000_000))
        dashboard_queues.add_waiting(link, "rsmq:mail-0", 1)
        dashboard_queues.command(link, "CONFIG", "RESETSTAT")
        with proxy_to(server.socket) as proxy:
            feed = Feed(lambda: AsyncLink.open(proxy.url), interval_s=0.05)
            async with Listener(feed, proxy) as recorder:
                await recorder.until(lambda tick: len(tick.view.rows) == 61)
                ticks, turns = await recorder.next(5, "fleet")
                assert [tick.cost.round_trips for tick in ticks] == [1] * 5
                assert [after - before for before, after in pairwise(turns)] == [1] * 4
                assert ticks[-1].cost.bytes_moved < 1200 * 62, "no payload is moved"
                kinds = Counter(row.snapshot.kind for row in ticks[-1].view.rows)
                assert kinds == {"chasquimq": 21, "rsmq": 20, "joblist": 20}
                assert "chasqui:rsmq:mail-0" in [row.queue for row in ticks[-1].view.rows]
                link.run(rsmq.create_queue(RsmqKeys("new", "acme")))
                await recorder.until(lambda tick: "rsmq:acme:new" in {row.queue for row in tick.view.rows})
                feed.set_target(ReadTarget("queue", "rsmq:mail-0"))
                ticks, _ = await recorder.next(3, "queue")
                assert ticks[-1].cost.round_trips == 1
                assert any(line == "chasqui rsmq peek mail-0" for line, _ in ticks[-1].view.lines)
        assert "cmdstat_hgetall" not in dashboard_queues.command(link, "INFO", "commandstats").decode()


class Listener:
    """Runs a feed, and records its messages."""

    def __init__(self, feed: Feed, proxy: Proxy) -> None:
        self._feed, self._proxy = feed, proxy
        self._messages: asyncio.Queue[tuple[Any, int]] = asyncio.Queue()

    async def __aenter__(self) -> Listener:
        self._feed.set_listener(self._record)
        self._running = asyncio.create_task(self._feed.run())
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    def _record(self, message: Any) -> None:
        if isinstance(message, ViewReady):
            self._messages.put_nowait((message, self._proxy.turns))

    async def next(self, count: int, tab: str) -> tuple[list[Any], list[int]]:
        """The next ticks of a tab, and the turns of the client by each."""
        while not self._messages.empty():
            self._messages.get_nowait()
        found: list[tuple[Any, int]] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                one = await self._messages.get()
                found += [one] * (one[0].target.tab == tab)
        return [tick for tick, _ in found], [turns for _, turns in found]

    async def until(self, wanted: Callable[[Any], bool]) -> None:
        """Wait for a tick that is so."""
        async with asyncio.timeout(60):
            while not wanted((await self._messages.get())[0]):
                pass
