"""Both links on a cluster of three masters: who is asked, and what happens when slots move or masters die."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import ConfigError, ServerError, Unreachable
from chasqui.server import scripts
from chasqui.server.cluster import slot_of
from chasqui.server.flow import Call
from chasqui.wire.keys import Keys
from tests.support.links import Opener, both_links, command, command_batch
from tests.support.servers.clusters import ClusterNode, ClusterServers, cluster_servers, move_slot, replica, wait
from tests.support.servers.server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers.pool import ServerPool


@pytest.fixture(scope="module", params=["redis-8.6", "valkey-9.1"])
def trio(request: pytest.FixtureRequest, servers: ServerPool) -> Iterator[ClusterServers]:
    servers.get(request.param)  # which decides what a missing server means
    with cluster_servers(request.param) as made:
        yield made


def streams(queue: str, count: int) -> list[str]:
    return [Keys(f"{queue}-{n}").stream for n in range(count)]


def get(key: str) -> Call:
    return Call(("GET", key), keys=(key,))


@both_links
async def test_each_call_goes_to_the_master_of_its_key(trio: ClusterServers, open_link: Opener, queue: str) -> None:
    keys = streams(queue, 60)
    async with open_link(trio.url) as link:
        replies = await link.run(command_batch(*(Call(("SET", key, key), keys=(key,)) for key in keys)))
        assert replies == [b"OK"] * 60
        assert link.round_trips == 1 + 3
        assert await link.run(command_batch(*map(get, keys))) == [key.encode() for key in keys]
        assert link.round_trips == 1 + 3 + 3
    assert {key for key in keys if trio.owner(key).send("GET", key)} == set(keys)


@both_links
async def test_calls_without_keys_go_along_with_the_others(trio: ClusterServers, open_link: Opener, queue: str) -> None:
    key = Keys(queue).stream
    async with open_link(trio.url) as link:
        await link.run(command_batch(get(key)))
        before = link.round_trips
        time, _ = await link.run(command_batch(Call(("TIME",)), get(key)))
        assert len(time) == 2
        assert link.round_trips == before + 1
        assert await link.run(command("PING")) == b"PONG"


@both_links
async def test_every_node_can_be_asked_on_its_own(trio: ClusterServers, open_link: Opener, queue: str) -> None:
    keys = streams(queue, 30)
    async with open_link(trio.url) as link:
        await link.run(command_batch(*(Call(("SET", key, 1), keys=(key,)) for key in keys)))
        nodes = await link.nodes()
        assert len(nodes) == 3
        found = [await node.run(command("SCAN", 0, "MATCH", f"*{queue}*", "COUNT", 100_000)) for node in nodes]
        names = [name.decode() for _, page in found for name in page]
        assert sorted(names) == sorted(keys)
        for node in nodes:
            await node.close()
        assert await link.run(command("PING")) == b"PONG"


@both_links
async def test_scripts_are_loaded_where_they_are_missing(trio: ClusterServers, open_link: Opener, queue: str) -> None:
    for member in trio.masters:
        member.send("SCRIPT", "FLUSH")
    locks = [Keys(f"{queue}-{n}").promoter_lock for n in range(12)]
    async with open_link(trio.url) as link:
        takes = [scripts.script_call("acquire_lock", lock=lock, holder="me", ttl_s=5) for lock in locks]
        assert [reply[0] for reply in await link.run(command_batch(*takes))] == [1] * 12
        assert link.round_trips == 1 + 3
        for member in trio.masters:
            member.send("SCRIPT", "FLUSH")
        assert [reply[0] for reply in await link.run(command_batch(*takes))] == [1] * 12
        assert link.round_trips == 1 + 3 + 3 + 3


@both_links
async def test_a_moved_slot_is_followed_and_remembered(trio: ClusterServers, open_link: Opener, queue: str) -> None:
    key = Keys(queue).stream
    home, target = trio.owner(key), trio.others(trio.owner(key))[0]
    home.send("SET", Keys(queue).dlq, "another key of the slot, as an earlier test may have left one")
    async with open_link(trio.url) as link:
        await link.run(command_batch(get(key)))
        move_slot(trio, slot_of(key), home, target)
        assert await link.run(command("SET", key, "there", keys=(key,))) == b"OK"
        assert target.send("GET", key) == b"there"
        await link.run(command_batch(get(key)))
        before = link.round_trips
        assert await link.run(command_batch(get(key))) == [b"there"]
        assert link.round_trips == before + 1
        await link.run(command("DEL", key, keys=(key,)))
        move_slot(trio, slot_of(key), target, home)


@contextmanager
def moving(trio: ClusterServers, key: str) -> Iterator[tuple[ClusterNode, ClusterNode]]:
    """The key's slot is on its way from one master to another; at the end it is back where it was."""
    source = trio.owner(key)
    target = trio.others(source)[0]
    slot = slot_of(key)
    target.send("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.send("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    try:
        yield source, target
    finally:
        for member in (source, target):
            member.send("CLUSTER", "SETSLOT", slot, "STABLE")


@both_links
async def test_a_key_that_went_ahead_is_asked_for_there(trio: ClusterServers, open_link: Opener, queue: str) -> None:
    key = Keys(queue).stream
    async with open_link(trio.url) as link:
        await link.run(command_batch(get(key)))
        with moving(trio, key) as (_, target):
            assert await link.run(command("INCR", key, keys=(key,))) == 1
            assert await link.run(command_batch(get(key), Call(("STRLEN", key), keys=(key,)))) == [b"1", 1]
            asked = target.link.run(command_batch(Call(("ASKING",)), Call(("GETDEL", key))))
            assert asked == [b"OK", b"1"]


class HelpingClock(SystemClock):
    """Calls a function after each sleep."""

    def __init__(self, help_out: Callable[[], object]) -> None:
        self.waits = 0
        self._help_out = help_out

    def sleep_sync(self, seconds: float) -> None:
        super().sleep_sync(seconds)
        self._wait()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._wait()

    def _wait(self) -> None:
        self.waits += 1
        self._help_out()


@both_links
async def test_keys_on_both_sides_of_a_move_are_waited_for(trio: ClusterServers, open_link: Opener, queue: str) -> None:
    here, there = Keys(queue).result("here"), Keys(queue).result("there")
    both_keys = Call(("MGET", here, there), keys=(here, there))
    trio.owner(here).send("SET", here, "h")
    with moving(trio, here) as (source, target):
        target.link.run(command_batch(Call(("ASKING",)), Call(("SET", there, "t"))))
        async with open_link(trio.url) as link:
            with pytest.raises(ServerError, match="TRYAGAIN") as caught:
                await link.run(command_batch(both_keys))
            assert caught.value.transient
        clock = HelpingClock(lambda: source.send("MIGRATE", "127.0.0.1", target.server.port or 0, here, 0, 1000))
        async with open_link(trio.url, clock=clock) as link:
            assert await link.run(command_batch(both_keys)) == [[b"h", b"t"]]
            assert clock.waits == 1
        target.link.run(command_batch(Call(("ASKING",)), Call(("DEL", here, there))))


@both_links
async def test_one_dead_contact_does_not_matter(trio: ClusterServers, open_link: Opener) -> None:
    async with open_link(f"redis+cluster://127.0.0.1:1,{trio.masters[1].url}", connect_timeout=0.2) as link:
        assert await link.run(command("PING")) == b"PONG"


@both_links
async def test_a_plain_url_to_the_wrong_node_reports_which_url_to_use(
    trio: ClusterServers, open_link: Opener, queue: str
) -> None:
    key = Keys(queue).stream
    wrong = trio.others(trio.owner(key))[0]
    async with open_link(f"redis://{wrong.url}") as link:
        with pytest.raises(ServerError, match="MOVED") as caught:
            await link.run(command_batch(get(key)))
    assert "redis+cluster://" in str(caught.value.hint)


@both_links
async def test_a_cluster_url_to_a_single_server_reports_which_url_to_use(
    open_link: Opener,
) -> None:
    with start_server("valkey-9.1", tcp=True) as single:
        async with open_link(f"redis+cluster://127.0.0.1:{single.port}") as link:
            with pytest.raises(ConfigError, match="no cluster node") as caught:
                await link.run(command("PING"))
    assert "redis://" in str(caught.value.hint)


@both_links
async def test_keys_of_two_slots_in_one_call_are_refused_by_name(
    trio: ClusterServers, open_link: Opener, queue: str
) -> None:
    one, two = streams(queue, 2)
    async with open_link(trio.url) as link:
        with pytest.raises(ServerError, match="CROSSSLOT") as caught:
            await link.run(command("MGET", one, two, keys=(one, two)))
    assert "one hash slot" in str(caught.value.hint)


@both_links
async def test_a_dead_master_is_a_transient_error_until_its_replica_takes_over(open_link: Opener, queue: str) -> None:
    with cluster_servers("valkey-9.1") as trio, replica("valkey-9.1", trio.masters[0]) as heir:
        keys = streams(queue, 30)
        lost = next(key for key in keys if trio.owner(key) is trio.masters[0])
        reachable = next(key for key in keys if trio.owner(key) is trio.masters[1])
        async with open_link(trio.url, connect_timeout=0.3) as link:
            await link.run(command_batch(*(Call(("SET", key, "v"), keys=(key,)) for key in keys)))
            trio.masters[0].send("WAIT", 1, 1000)
            trio.masters[0].server.kill()
            with pytest.raises(Unreachable, match=trio.masters[0].url):
                await link.run(command("APPEND", lost, "w", keys=(lost,)))
            assert await link.run(command_batch(get(reachable))) == [b"v"]
            heir.send("CLUSTER", "FAILOVER", "TAKEOVER")
            for member in trio.masters[1:]:
                wait(member, partial(_calls_it_master, member, heir))
            assert await link.run(command("APPEND", lost, "w", keys=(lost,))) == 2
            assert heir.send("GET", lost) == b"vw"


def _calls_it_master(member: ClusterNode, heir: ClusterNode) -> bool:
    lines = member.send("CLUSTER", "NODES").decode().splitlines()
    return any(line.startswith(heir.id) and " master " in line for line in lines)
