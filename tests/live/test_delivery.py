"""Batches that are made while they travel: sent in order, made once, and treated like any other when something happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui.errors import ChangeRefused, ConfigError, ServerError
from chasqui.server.commands import Commands
from chasqui.server.flow import Call, LazyBatch
from chasqui.wire.keys import Keys
from tests.support.links import Opener, both_links, command
from tests.support.servers.clusters import cluster_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chasqui.server.flow import Flow, Reply
    from tests.support.servers.pool import ServerPool
    from tests.support.servers.server import Server


def ride(train: Sequence[Call]) -> Flow[list[Reply]]:
    return (yield train)


def pushes(key: str, count: int, before: Callable[[int], None] = lambda _: None) -> Iterator[Call]:
    for number in range(count):
        before(number)
        yield Call(("RPUSH", key, f"{number}".rjust(20_000, "0")), keys=(key,))


@both_links
async def test_a_train_arrives_in_order_and_is_one_round_trip(server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(server.url) as link:
        await link.run(command("PING"))
        before = link.round_trips, link.commands, link.bytes_out
        assert await link.run(ride(LazyBatch(pushes(queue, 200), 200))) == list(range(1, 201))
        assert (link.round_trips - before[0], link.commands - before[1]) == (1, 200)
        assert link.bytes_out - before[2] > 200 * 20_000
        stored = await link.run(command("LRANGE", queue, 0, -1))
    assert [int(text[-5:]) for text in stored] == list(range(200))


@both_links
async def test_the_server_works_on_the_first_calls_before_the_last_are_made(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    seen: list[str] = []

    def look(number: int) -> None:
        if number == 199:
            seen.append(any_server.run_command("LLEN", queue))

    async with open_link(any_server.url) as link:
        await link.run(ride(LazyBatch(pushes(queue, 200, look), 200)))
    assert seen != [":0"]


@both_links
async def test_a_fault_of_who_makes_the_calls_is_his_and_spoils_no_connection(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    def stumble(number: int) -> None:
        if number == 3:
            raise ConfigError("no fourth call")

    async with open_link(any_server.url) as link:
        with pytest.raises(ConfigError, match="no fourth call"):
            await link.run(ride(LazyBatch(pushes(queue, 5, stumble), 5)))
        assert await link.run(command("ECHO", "clean")) == b"clean"


@both_links
async def test_a_train_may_be_sent_again(any_server: Server, open_link: Opener, queue: str) -> None:
    train = LazyBatch(pushes(queue, 5), 5)
    assert len(train) == 5
    assert train[4] is train[4:][0] is list(train)[4]
    with pytest.raises(IndexError):
        train[5]
    async with open_link(any_server.url) as link:
        assert await link.run(ride(train)) == [1, 2, 3, 4, 5]
        assert await link.run(ride(train)) == [6, 7, 8, 9, 10]


@both_links
async def test_errors_are_raised_after_all_replies_or_handed_over(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    def calls(*, tolerant: bool) -> Iterator[Call]:
        for words in (("SET", queue, "text"), ("RPUSH", queue, "x"), ("STRLEN", queue)):
            yield Call(words, keys=(queue,), tolerant=tolerant)

    async with open_link(any_server.url) as link:
        with pytest.raises(ServerError, match="WRONGTYPE"):
            await link.run(ride(LazyBatch(calls(tolerant=False), 3)))
        done, refused, length = await link.run(ride(LazyBatch(calls(tolerant=True), 3)))
    assert (done, refused.code, length) == (b"OK", "WRONGTYPE", 4)


@both_links
async def test_a_read_only_link_lets_no_train_out(any_server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(any_server.url, read_only=True) as link:
        with pytest.raises(ChangeRefused, match="RPUSH may change data"):
            await link.run(ride(LazyBatch(pushes(queue, 5), 5)))
        reads = (Call(("LLEN", queue), keys=(queue,)) for _ in range(3))
        assert await link.run(ride(LazyBatch(reads, 3))) == [0, 0, 0]


@both_links
async def test_scripts_unknown_to_the_server_are_loaded_in_order(server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(server.url) as link:
        commands, keys = Commands(await link.features()), Keys(queue)

        def calls() -> Iterator[Call]:
            for number in range(8):
                if number == 4:
                    server.run_command("SCRIPT", "FLUSH")
                yield commands.add_batch(keys, "p", f"{number}", [b"%d" % number, b""])

        await link.run(command("SCRIPT", "FLUSH"))
        await link.run(ride(LazyBatch(calls(), 8)))
        entries = await link.run(command("XRANGE", keys.stream, "-", "+"))
    assert [fields[1] for _, fields in entries] == [b"%d" % number for number in range(8)]


@both_links
async def test_a_train_goes_to_the_master_of_its_keys_and_follows_them(
    servers: ServerPool, open_link: Opener, queue: str
) -> None:
    servers.get("valkey-9.1")
    with cluster_servers("valkey-9.1") as trio:
        async with open_link(trio.url) as link:
            for number in range(6):
                key = Keys(f"{queue}-{number}").stream
                assert await link.run(ride(LazyBatch(pushes(key, 5), 5))) == [1, 2, 3, 4, 5]
                assert trio.owner(key).send("LLEN", key) == 5
