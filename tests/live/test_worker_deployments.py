"""A worker over TLS, in a cluster whose slots move, and under sentinels that change the master."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chasqui.errors import ServerError
from chasqui.server.address import Tls, parse_address
from chasqui.server.cluster import slot_of
from chasqui.server.commands import Commands
from chasqui.server.link import AsyncLink, Link
from chasqui.wire.keys import Keys
from chasqui.worker import Worker
from tests.support.queue_harness import QueueHarness
from tests.support.servers.clusters import (
    ClusterServers,
    SentinelServers,
    cluster_servers,
    move_slot,
    sentinel_servers,
)
from tests.support.servers.server import start_server
from tests.support.worker_harness import CLOCK, WorkerHarness, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.models import Job
    from tests.support.servers.binaries import Kind
    from tests.support.servers.pool import ServerPool


def shop_at(link: Link, url: str, queue: str) -> WorkerHarness:
    return WorkerHarness(QueueHarness(url, link, Commands(link.features()), queue), url)


async def test_a_worker_talks_tls(servers: ServerPool, queue: str) -> None:
    servers.get("redis-8.6")
    with start_server("redis-8.6", tls=True) as server:
        assert server.certificates
        address = parse_address(server.url, tls=Tls(ca=server.certificates.ca))
        with Link.open(address) as link:
            shop = shop_at(link, server.url, queue)
            for number in range(500):
                shop.add(f"job-{number}", "x" * 2000)
            seen: list[str] = []

            async def handler(job: Job) -> None:
                seen.append(job.id)

            async with AsyncLink.open(address) as own:
                await Worker(queue, handler, link=own, burst=True).run()
            assert len(set(seen)) == len(seen) == 500
            assert shop.is_empty()


@pytest.fixture(scope="module", params=["redis-8.6", "valkey-9.1"])
def trio(request: pytest.FixtureRequest, servers: ServerPool) -> Iterator[ClusterServers]:
    kind: Kind = request.param
    servers.get(kind)
    with cluster_servers(kind) as made:
        yield made


async def test_a_worker_follows_its_slot_to_another_node(trio: ClusterServers, queue: str) -> None:
    seen: list[str] = []

    async def handler(job: Job) -> None:
        seen.append(job.id)

    stream = Keys(queue).stream
    slot, home = slot_of(stream), trio.owner(stream)
    target = trio.others(home)[0]
    with Link.open(trio.url) as link:
        shop = shop_at(link, trio.url, queue)
        async with shop.running_worker(handler, shutdown_timeout=1):
            shop.add("before")
            await wait_until(lambda: seen == ["before"] and shop.is_empty(), "it works")
            move_slot(trio, slot, home, target)
            shop.add("after")
            await wait_until(lambda: seen == ["before", "after"], "it works where the slot is now")
            await wait_until(shop.is_empty, "and settles there")
        move_slot(trio, slot, target, home)


@pytest.fixture
def guards(servers: ServerPool) -> Iterator[SentinelServers]:
    servers.get("valkey-9.1")
    with sentinel_servers("valkey-9.1") as deployment:
        yield deployment


async def test_a_worker_goes_on_with_the_next_master(guards: SentinelServers, queue: str) -> None:
    seen: list[str] = []

    async def handler(job: Job) -> None:
        seen.append(job.id)

    with Link.open(guards.url) as link:
        shop = shop_at(link, guards.url, queue)
        async with shop.running_worker(handler, shutdown_timeout=1):
            shop.add("before")
            await wait_until(lambda: seen == ["before"], "it works")
            guards.master.kill()
            await asyncio.to_thread(_add_to_the_next, shop, "after")
            await wait_until(lambda: "after" in seen, "the job is run there")


def _add_to_the_next(shop: WorkerHarness, job_id: str) -> None:
    """Try until there is a master that takes it."""
    for _ in range(400):
        try:
            shop.add(job_id)
        except ServerError:
            CLOCK.sleep_sync(0.05)
        else:
            return
    raise AssertionError("there is no next master")
