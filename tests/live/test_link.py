"""Both links against real servers: what a batch costs, what a flow sees, and what errors say."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
from typing import TYPE_CHECKING

import pytest

from chasqui.errors import AuthRefused, NoGroup, ServerError, WrongType
from chasqui.server import scripts
from chasqui.server.features import Features
from chasqui.server.flow import Call
from chasqui.server.link import AsyncLink, Link
from chasqui.wire.keys import Keys
from tests.support.faults.proxy import proxy_to
from tests.support.links import Opener, awaiting, both_links, command, command_batch
from tests.support.servers.server import NATIVE_WORDS, Server, start_server

if TYPE_CHECKING:
    from chasqui.server.flow import Flow, Reply


def lease(key: str, holder: str) -> Call:
    """A script that writes, by its name."""
    return scripts.script_call("acquire_lock", lock=key, holder=holder, ttl_s=5)


@both_links
async def test_a_batch_is_one_round_trip_on_the_wire(any_server: Server, open_link: Opener, queue: str) -> None:
    with proxy_to(any_server.socket) as proxy:
        async with open_link(proxy.url) as link:
            replies = await link.run(
                command_batch(*(Call(("XADD", queue, "*", "n", n), keys=(queue,)) for n in range(100)))
            )
            assert len(set(replies)) == 100
            assert (link.round_trips, link.commands, proxy.turns) == (1, 100, 1)
            assert link.bytes_out == len(proxy.requests)
            assert await link.run(command("XLEN", queue)) == 100
            assert (link.round_trips, proxy.turns, proxy.connections) == (2, 2, 1)


@both_links
async def test_replies_are_bytes_in_the_order_of_the_calls(any_server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(any_server.url) as link:
        calls = [
            Call(("SET", queue, b"\x00\xff")),
            Call(("GET", queue)),
            Call(("GET", queue + "-")),
            Call(("TIME",)),
        ]
        ok, value, nothing, time = await link.run(command_batch(*calls))
        assert (ok, value, nothing) == (b"OK", b"\x00\xff", None)
        assert [type(part) for part in time] == [bytes, bytes]


@both_links
async def test_an_empty_batch_costs_nothing(any_server: Server, open_link: Opener) -> None:
    async with open_link(any_server.url) as link:
        assert await link.run(command_batch()) == []
        assert link.round_trips == 0


@both_links
async def test_a_large_batch_passes_whole(any_server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(any_server.url) as link:
        big = b"x" * 5_000_000
        replies = await link.run(
            command_batch(*(Call(words) for n in range(3) for words in [("SET", queue, big), ("GET", queue)]))
        )
        assert [len(reply) for reply in replies] == [2, len(big)] * 3
        assert link.bytes_in > 3 * len(big)


@both_links
async def test_a_lost_script_is_loaded_again_and_only_it_is_repeated(
    server: Server, open_link: Opener, queue: str
) -> None:
    keys = Keys(queue)
    counter, lock = keys.result("counter"), keys.promoter_lock
    async with open_link(server.url) as link:
        await link.run(command_batch(lease(keys.scheduler_lock, "me")))
        await link.run(command("SCRIPT", "FLUSH"))
        before = link.round_trips
        calls = [
            Call(("INCR", counter), keys=(counter,)),
            lease(lock, "me"),
            Call(("INCR", counter), keys=(counter,)),
        ]
        first, taken, second = await link.run(command_batch(*calls))
        assert (first, second, link.round_trips - before) == (1, 2, 2)
        assert await link.run(command("GET", lock)) == b"me"
        before = link.round_trips
        assert (await link.run(command_batch(lease(lock, "me"))))[0][:2] == taken[:2] == [1, b"me"]
        assert link.round_trips - before == 1


@both_links
async def test_a_script_the_server_never_saw_costs_no_round_trip(server: Server, open_link: Opener, queue: str) -> None:
    keys = Keys(queue)
    async with open_link(server.url) as other, open_link(server.url) as link:
        await other.run(command("SCRIPT", "FLUSH"))
        taken = await link.run(command_batch(lease(keys.promoter_lock, "me"), lease(keys.scheduler_lock, "me")))
        assert [reply[0] for reply in taken] == [1, 1]
        assert (link.round_trips, link.commands) == (1, 3)


@both_links
async def test_an_error_is_raised_inside_the_flow_after_all_replies_were_read(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    def careful() -> Flow[str]:
        try:
            yield [
                Call(("SET", queue, "text")),
                Call(("LPUSH", queue, "x"), keys=(queue,)),
                Call(("INCR", queue + "n")),
            ]
        except WrongType as error:
            [count] = yield [Call(("GET", queue + "n"))]
            return f"{count} {error.code}"
        return "no error"

    async with open_link(any_server.url) as link:
        assert await link.run(careful()) == "b'1' WRONGTYPE"
        assert await link.run(command("PING")) == b"PONG"


@both_links
async def test_a_tolerant_call_hands_its_error_over_as_a_value(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    async with open_link(any_server.url) as link:
        create = Call(("XGROUP", "CREATE", queue, "g", "0", "MKSTREAM"), tolerant=True)
        made, again, pong = await link.run(command_batch(create, create, Call(("PING",))))
        assert (made, pong) == (b"OK", b"PONG")
        assert isinstance(again, ServerError)
        assert again.code == "BUSYGROUP"


@both_links
async def test_a_flow_that_raises_leaves_the_link_usable(any_server: Server, open_link: Opener) -> None:
    def failing() -> Flow[None]:
        yield [Call(("PING",))]
        raise LookupError("mine")

    async with open_link(any_server.url) as link:
        with pytest.raises(LookupError, match="mine"):
            await link.run(failing())
        assert await link.run(command("PING")) == b"PONG"


@both_links
async def test_a_flow_is_closed_when_its_link_breaks(open_link: Opener) -> None:
    seen: list[str] = []

    def watching() -> Flow[None]:
        try:
            yield [Call(("PING",))]
        finally:
            seen.append("closed")

    async with open_link("unix:///nowhere/at/all", connect_timeout=0.1) as link:
        with pytest.raises(ServerError, match="there is no socket /nowhere/at/all"):
            await link.run(watching())
    assert seen == ["closed"]


@both_links
async def test_features_are_found_by_trying_in_one_round_trip_and_nothing_is_written(
    server: Server, open_link: Opener
) -> None:
    native = NATIVE_WORDS[server.kind]
    kind, version = server.kind.split("-")[0], server.version
    async with open_link(server.url) as link, open_link(server.url, read_only=True) as reader:
        keys = await link.run(command("DBSIZE"))
        found = await link.features()
        assert found == Features(native, native, native, kind, version)
        assert await link.features() is found
        assert link.round_trips == 2
        assert await reader.features() == found
        assert await link.run(command("DBSIZE")) == keys


@both_links
async def test_features_are_found_without_the_right_to_try(server: Server, open_link: Opener, queue: str) -> None:
    native = NATIVE_WORDS[server.kind]
    async with open_link(server.url) as link:
        await link.run(command("ACL", "SETUSER", queue, "on", ">pw", "~mine:*", "+@all"))
        async with open_link(f"unix://{queue}:pw@{server.socket}") as narrow:
            found = await narrow.features()
            assert (found.idmp, found.ackdel, found.claim) == (native, native, native)
        await link.run(command("ACL", "DELUSER", queue))


@both_links
async def test_words_of_a_newer_server_are_refused_with_a_clear_hint(open_link: Opener) -> None:
    with start_server("valkey-9.1") as server:
        async with open_link(server.url) as link:
            with pytest.raises(ServerError, match="does not know XACKDEL") as unknown:
                await link.run(command("XACKDEL", "k", "g", "IDS", 1, "0-1"))
            with pytest.raises(ServerError) as unread:
                await link.run(command("XADD", "k", "IDMP", "p", "i", "*", "d", "v"))
    assert "another server may have taken over" in str(unknown.value.hint)
    assert "another server may have taken over" in str(unread.value.hint)


@both_links
async def test_each_kind_of_refusal_has_its_own_class(server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(server.url) as link:
        with pytest.raises(NoGroup) as caught:
            await link.run(command("XREADGROUP", "GROUP", "g", "c", "STREAMS", queue, ">"))
        assert (caught.value.code, caught.value.transient) == ("NOGROUP", False)
        await link.run(command("SET", queue, "text"))
        with pytest.raises(WrongType):
            await link.run(command("XLEN", queue))


@both_links
async def test_a_full_server_is_a_transient_error(open_link: Opener) -> None:
    with start_server("valkey-9.1") as server:
        async with open_link(server.url) as link:
            await link.run(command("CONFIG", "SET", "maxmemory", 1))
            with pytest.raises(ServerError, match="OOM") as caught:
                await link.run(command("SET", "k", "v"))
            assert caught.value.transient
            await link.run(command("CONFIG", "SET", "maxmemory", 0))
            assert await link.run(command("SET", "k", "v")) == b"OK"


@both_links
async def test_a_missing_right_is_named(server: Server, open_link: Opener, queue: str) -> None:
    async with open_link(server.url) as link:
        await link.run(command("ACL", "SETUSER", queue, "on", ">pw", "~mine:*", "-@all", "+get"))
        async with open_link(f"unix://{queue}:pw@{server.socket}") as narrow:
            with pytest.raises(AuthRefused) as forbidden_command:
                await narrow.run(command("XADD", "mine:s", "*", "d", "payload", keys=("mine:s",)))
            with pytest.raises(AuthRefused) as key:
                await narrow.run(command("GET", "yours:k", keys=("yours:k",)))
            assert await narrow.run(command("GET", "mine:k", keys=("mine:k",))) is None
        await link.run(command("ACL", "DELUSER", queue))
    assert forbidden_command.value.hint == "the user needs +xadd"
    assert key.value.hint == "the user needs GET on the keys ~yours:k"


@both_links
async def test_an_unknown_command_is_reported_without_its_arguments(any_server: Server, open_link: Opener) -> None:
    async with open_link(any_server.url) as link:
        with pytest.raises(ServerError) as caught:
            await link.run(command("NOSUCHCOMMAND", "payload-text"))
    assert "NOSUCHCOMMAND" in str(caught.value)
    assert "payload-text" not in str(caught.value)


async def test_tasks_that_share_a_link_get_their_own_replies(any_server: Server, queue: str) -> None:
    async with AsyncLink.open(any_server.url) as link:

        async def echo(n: int) -> bool:
            words = [f"{queue}-{n}-{i}" for i in range(20)]
            replies: list[Reply] = await link.run(command_batch(*(Call(("ECHO", word)) for word in words)))
            return [reply.decode() for reply in replies] == words

        assert all(await asyncio.gather(*(echo(n) for n in range(50))))


async def test_a_blocking_read_does_not_hold_up_other_tasks(any_server: Server, queue: str) -> None:
    async with AsyncLink.open(any_server.url, timeout=1) as link:
        waiting = asyncio.create_task(
            link.run(command("XREAD", "BLOCK", 5000, "STREAMS", queue, "$", block_ms=5000, keys=(queue,)))
        )
        async with asyncio.timeout(5):
            while not waiting.done():
                await link.run(command("XADD", queue, "*", "d", "v"))
        [[stream, entries]] = await waiting
        assert (stream, len(entries)) == (queue.encode(), 1)


def test_the_twins_have_the_same_public_face_but_for_what_only_a_worker_needs() -> None:
    def face(kind: type) -> dict[str, object]:
        members = {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}
        return {
            name: inspect.signature(member).parameters if callable(member) else type(member)
            for name, member in members.items()
        }

    only_for_workers = {"blocking_copy", "pipelined_connection"}
    assert face(Link) == {name: what for name, what in face(AsyncLink).items() if name not in only_for_workers}
    assert {"open", "run", "features", "nodes", "close"} <= face(Link).keys()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_makes_its_own_connections(any_server: Server) -> None:
    with Link.open(any_server.url) as link:
        mine = link.run(command("CLIENT", "ID"))
        answers = multiprocessing.get_context("fork").SimpleQueue()
        child = multiprocessing.get_context("fork").Process(
            target=lambda: answers.put(link.run(command("CLIENT", "ID")))
        )
        child.start()
        child.join(10)
        assert child.exitcode == 0
        assert answers.get() != mine
        answers.close()
        assert link.run(command("CLIENT", "ID")) == mine


def test_opening_sends_nothing() -> None:
    assert repr(Link.open("redis://127.0.0.1:1", read_only=True)) == "<Link redis://127.0.0.1:1 read-only>"


async def test_a_link_leads_to_an_embedded_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    from chasqui.server.embedded.embedded_server import EmbeddedServer, embedded_directory

    base = tmp_path_factory.mktemp("data")
    async with awaiting("embedded://demo", data_dir=base) as link:
        assert await link.run(command("PING")) == b"PONG"
    assert EmbeddedServer(embedded_directory(base, "demo")).stop()
