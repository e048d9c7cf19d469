"""Both links behind a sentinel: they find the master, notice when it is none, and find the next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import NotFound, ServerError, Unreachable
from tests.support.links import AnyLink, Opener, both_links, command
from tests.support.servers.clusters import SentinelServers, sentinel_servers
from tests.support.servers.server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def guards() -> Iterator[SentinelServers]:
    with sentinel_servers("valkey-9.1") as deployment:
        yield deployment


@both_links
async def test_the_master_is_found_and_found_again_after_it_died(guards: SentinelServers, open_link: Opener) -> None:
    clock = SystemClock()
    async with open_link(guards.url, connect_timeout=0.5) as link:
        await link.run(command("SET", "k", "before"))
        assert f"tcp_port:{guards.master.port}".encode() in await link.run(command("INFO", "server"))
        await link.run(command("WAIT", 1, 1000))
        started = clock.monotonic()
        guards.master.kill()
        problems = await _until_written(link)
        assert clock.monotonic() - started < 15
        assert all(problem.transient for problem in problems)
        assert f"tcp_port:{guards.replica.port}".encode() in await link.run(command("INFO", "server"))
        assert await link.run(command("GET", "k")) == b"before"


async def _until_written(link: AnyLink) -> list[ServerError]:
    problems: list[ServerError] = []
    async with asyncio.timeout(20):
        while True:
            try:
                await link.run(command("SET", "after", 1))
            except ServerError as problem:
                problems.append(problem)
                await SystemClock().sleep(0.05)
            else:
                return problems


@both_links
async def test_a_demoted_master_is_left_at_once(guards: SentinelServers, open_link: Opener) -> None:
    async with open_link(guards.url) as link, open_link(f"unix://{guards.master.socket}") as direct:
        await link.run(command("SET", "k", 1))
        await direct.run(command("REPLICAOF", "127.0.0.1", guards.replica.port or 0))
        with pytest.raises(ServerError, match="READONLY") as caught:
            await link.run(command("SET", "k", 2))
        assert (caught.value.code, caught.value.transient) == ("READONLY", True)
        with pytest.raises(Unreachable, match="is not a master now"):
            await link.run(command("SET", "k", 3))
        await direct.run(command("REPLICAOF", "NO", "ONE"))
        assert await _until_written(link) is not None


@both_links
async def test_an_unknown_service_is_reported(guards: SentinelServers, open_link: Opener) -> None:
    async with open_link(guards.url.replace("/mail", "/post")) as link:
        with pytest.raises(NotFound, match="knows no service 'post'"):
            await link.run(command("PING"))


@both_links
async def test_without_a_sentinel_each_ones_reason_is_reported(open_link: Opener) -> None:
    async with open_link("redis+sentinel://127.0.0.1:1,127.0.0.1:2/mail", connect_timeout=0.2) as link:
        with pytest.raises(Unreachable, match=r"nothing listens at 127.0.0.1:1; nothing listens at 127.0.0.1:2"):
            await link.run(command("PING"))


@both_links
async def test_a_plain_link_leaves_a_demoted_server_too(open_link: Opener) -> None:
    with start_server("valkey-9.1") as server:
        async with open_link(server.url) as link:
            number = await link.run(command("CLIENT", "ID"))
            await link.run(command("REPLICAOF", "127.0.0.1", 1))
            with pytest.raises(ServerError, match="READONLY"):
                await link.run(command("SET", "k", 1))
            assert await link.run(command("CLIENT", "ID")) != number
