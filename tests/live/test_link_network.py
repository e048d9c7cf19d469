"""What links do when the network, the server or the caller lets them down. Nothing is sent twice that may not be."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import AuthRefused, ServerError, Unreachable
from chasqui.server import scripts
from chasqui.server.flow import Call
from chasqui.server.link import AsyncLink, Link
from chasqui.wire.keys import Keys
from tests.support.faults.proxy import proxy_to
from tests.support.links import AnyLink, Opener, both_links, command, command_batch
from tests.support.servers.server import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "hunter2-s3cr3t"


@contextmanager
def tarpit() -> Iterator[str]:
    """An address that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@both_links
async def test_a_half_open_connection_is_noticed_and_replaced(any_server: Server, open_link: Opener) -> None:
    clock = SystemClock()
    with proxy_to(any_server.socket) as proxy:
        async with open_link(proxy.url, timeout=0.3) as link:
            await link.run(command("PING"))
            proxy.go_silent()
            started = clock.monotonic()
            with pytest.raises(Unreachable, match=r"no answer from 127.0.0.1:\d+ in time"):
                await link.run(command("INCR", "never-counted"))
            assert 0.25 < clock.monotonic() - started < 10
            assert await link.run(command("PING")) == b"PONG"
            assert proxy.connections == 2


@both_links
async def test_a_silent_connection_under_a_blocking_read_is_noticed_after_block_and_margin(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    clock = SystemClock()
    read = Call(("XREADGROUP", "GROUP", "g", "c", "BLOCK", 400, "STREAMS", queue, ">"), keys=(queue,), block_ms=400)
    with proxy_to(any_server.socket) as proxy:
        async with open_link(proxy.url, timeout=0.3) as link:
            await link.run(command("XGROUP", "CREATE", queue, "g", "0", "MKSTREAM"))
            assert await link.run(command_batch(read)) == [None]
            proxy.go_silent()
            started = clock.monotonic()
            with pytest.raises(Unreachable, match="in time"):
                await link.run(command_batch(read))
            assert 0.65 < clock.monotonic() - started < 10


@both_links
async def test_a_write_whose_reply_is_lost_is_reported_and_never_repeated(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    with proxy_to(any_server.socket) as proxy:
        async with open_link(proxy.url) as link:
            await link.run(command("PING"))
            proxy.lose_replies = 1
            with pytest.raises(Unreachable, match="broke") as caught:
                await link.run(command_batch(Call(("GET", queue)), Call(("INCR", queue))))
            assert caught.value.transient
            assert await link.run(command("GET", queue)) == b"1"


@both_links
async def test_a_read_whose_reply_is_lost_is_repeated_once(any_server: Server, open_link: Opener, queue: str) -> None:
    with proxy_to(any_server.socket) as proxy:
        async with open_link(proxy.url) as link:
            await link.run(command("SET", queue, "here"))
            proxy.lose_replies = 1
            assert await link.run(command_batch(Call(("GET", queue)), Call(("TIME",), block_ms=0))) != []
            proxy.lose_replies = 2
            with pytest.raises(Unreachable):
                await link.run(command("GET", queue))
            assert proxy.lose_replies == 0


@both_links
async def test_a_connection_the_server_closed_meanwhile_is_replaced_unnoticed(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    async with open_link(any_server.url) as link, open_link(any_server.url) as killer:
        number = await link.run(command("CLIENT", "ID"))
        await killer.run(command("CLIENT", "KILL", "ID", number))
        assert await link.run(command("INCR", queue)) == 1


class StartingClock(SystemClock):
    """Starts the server after a sleep."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def sleep_sync(self, seconds: float) -> None:
        super().sleep_sync(seconds)
        self._start()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._start()

    def _start(self) -> None:
        if not self.server.running:
            self.server.start()


@both_links
async def test_a_server_that_starts_late_is_waited_for_a_moment(open_link: Opener) -> None:
    with start_server("valkey-9.1") as server:
        server.kill()
        async with open_link(server.url, clock=StartingClock(server)) as link:
            assert await link.run(command("INCR", "n")) == 1


@both_links
async def test_nothing_listening_is_reported_with_both_hints(open_link: Opener) -> None:
    clock = SystemClock()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    started = clock.monotonic()
    async with open_link(f"redis://:{PASSWORD}@127.0.0.1:{port}") as link:
        with pytest.raises(Unreachable, match=f"nothing listens at 127.0.0.1:{port}") as caught:
            await link.run(command("PING"))
    assert "--redis-url" in str(caught.value.hint)
    assert "embedded://" in str(caught.value.hint)
    assert clock.monotonic() - started < 10


@both_links
async def test_an_unknown_host_is_reported(open_link: Opener) -> None:
    async with open_link("redis://no-such-host.invalid:6379", connect_timeout=1) as link:
        with pytest.raises(Unreachable, match=r"cannot find the host of no-such-host\.invalid:6379"):
            await link.run(command("PING"))


@both_links
async def test_a_server_that_accepts_but_never_replies_is_given_up(open_link: Opener) -> None:
    clock = SystemClock()
    with tarpit() as place:
        async with open_link(f"redis://:{PASSWORD}@{place}", connect_timeout=0.3) as link:
            started = clock.monotonic()
            with pytest.raises(Unreachable, match="in time"):
                await link.run(command("PING"))
            assert clock.monotonic() - started < 10


async def test_cancelling_a_task_poisons_nothing(any_server: Server, queue: str) -> None:
    async with AsyncLink.open(any_server.url) as link:
        for n in range(20):
            block = Call(("BLPOP", queue, 30), keys=(queue,), block_ms=30_000)
            task = asyncio.create_task(link.run(command_batch(Call(("ECHO", "old")), block)))
            while "cmd=blpop" not in (await link.run(command("CLIENT", "LIST", "TYPE", "NORMAL"))).decode():
                pass
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await link.run(command("ECHO", f"new-{n}")) == f"new-{n}".encode()
        assert all(await asyncio.gather(*(_echoes(link, n) for n in range(10))))


async def _echoes(link: AsyncLink, n: int) -> bool:
    reply: bytes = await link.run(command("ECHO", n))
    return reply == str(n).encode()


async def test_cancelling_at_any_moment_poisons_nothing(any_server: Server) -> None:
    async with AsyncLink.open(any_server.url) as link:
        for turns in range(30):
            task = asyncio.create_task(link.run(command_batch(*(Call(("ECHO", f"old-{n}")) for n in range(50)))))
            for _ in range(turns):
                await asyncio.wait([asyncio.ensure_future(_nothing())])
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await link.run(command("ECHO", f"new-{turns}")) == f"new-{turns}".encode()


async def _nothing() -> None:
    """A turn of the event loop."""


@both_links
async def test_a_wrong_password_is_reported_without_it(open_link: Opener) -> None:
    with start_server("valkey-9.1", password="right") as server:
        async with open_link(f"unix://:{PASSWORD}@{server.socket}") as link:
            with pytest.raises(AuthRefused, match="refused the login") as caught:
                await link.run(command("PING"))
        async with open_link(f"unix://{server.socket}") as link:
            with pytest.raises(AuthRefused, match="NOAUTH"):
                await link.run(command("PING"))
        async with open_link(f"unix://:right@{server.socket}?db=3") as link:
            assert b"db=3" in await link.run(command("CLIENT", "INFO"))
    assert PASSWORD not in _everything(caught.value)


@both_links
@pytest.mark.parametrize("kind", ["refused", "unknown host", "silent", "wrong password", "no such database"])
async def test_no_failure_to_connect_shows_the_password(
    any_server: Server, open_link: Opener, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with tarpit() as place, start_server("valkey-9.1", password=PASSWORD) as server:
        url = {
            "refused": f"redis://:{PASSWORD}@127.0.0.1:1",
            "unknown host": f"redis://ada:{PASSWORD}@no-such-host.invalid",
            "silent": f"redis://:{PASSWORD}@{place}",
            "wrong password": f"unix://ada:{PASSWORD}@{any_server.socket}",
            "no such database": f"unix://:{PASSWORD}@{server.socket}?db=9999",
        }[kind]
        async with open_link(url, connect_timeout=0.2) as link:
            with pytest.raises(ServerError) as caught:
                await link.run(command("PING"))
            assert PASSWORD not in f"{link!r} {getattr(link, 'link', '')!r}"
    assert PASSWORD not in _everything(caught.value)
    assert PASSWORD not in caplog.text


async def test_a_cancelled_login_does_not_show_the_password() -> None:
    with tarpit() as place:
        async with AsyncLink.open(f"redis://:{PASSWORD}@{place}", connect_timeout=5) as link:
            with pytest.raises(TimeoutError) as caught:
                async with asyncio.timeout(0.1):
                    await link.run(command("PING"))
    assert PASSWORD not in _everything(caught.value)


async def test_a_cancelled_subscription_does_not_show_the_password() -> None:
    with tarpit() as place:
        async with AsyncLink.open(f"redis://:{PASSWORD}@{place}", connect_timeout=5) as link:
            with pytest.raises(TimeoutError) as caught:
                async with asyncio.timeout(0.1):
                    await anext(aiter(link.subscribe("news")))
    assert PASSWORD not in _everything(caught.value)


def _everything(error: BaseException) -> str:
    """All that a talkative crash report could print about it, but for this test's own frames."""
    report = traceback.TracebackException.from_exception(error, capture_locals=True)
    lines = [str(error), repr(error), str(getattr(error, "hint", ""))]
    chain: list[traceback.TracebackException] = [report]
    while chain:
        part = chain.pop()
        lines += [f"{frame.line} {frame.locals}" for frame in part.stack if "/tests/" not in frame.filename]
        chain += [other for other in (part.__cause__, part.__context__) if other]
    return "\n".join(lines)


@both_links
async def test_scripts_survive_a_server_that_forgets_them_all_the_time(
    any_server: Server, open_link: Opener, queue: str
) -> None:
    lock = Keys(queue).promoter_lock
    take = scripts.script_call("acquire_lock", lock=lock, holder="me", ttl_s=5)
    async with open_link(any_server.url) as link, open_link(any_server.url) as other:
        for _ in range(20):
            await other.run(command("SCRIPT", "FLUSH"))
            assert (await link.run(command_batch(take, take, take)))[2][0] == 1


@both_links
async def test_a_loading_server_is_waited_for_briefly_and_then_reported(open_link: Opener) -> None:
    slow = ("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024")
    with start_server("redis-8.6", args=slow) as server:
        with Link.open(server.url) as writer:
            writer.run(command_batch(*(Call(("SET", f"k{n}", "v" * 100)) for n in range(2000)), Call(("SAVE",))))
        server.kill()
        with _begun(server):
            async with open_link(server.url) as link:
                with pytest.raises(ServerError, match="LOADING") as caught:
                    await link.run(command("GET", "k1"))
                assert (caught.value.code, caught.value.transient) == ("LOADING", True)
                await link.run(command("CONFIG", "SET", "key-load-delay", 0))
                assert await _once_loaded(link) == b"v" * 100


@contextmanager
def _begun(server: Server) -> Iterator[None]:
    """The server's process, started again without waiting until it serves."""
    with server.log.open("ab") as log, subprocess.Popen(server.command, stdout=log, stderr=log) as process:
        server.process = process
        try:
            yield
        finally:
            server.kill()


async def _once_loaded(link: AnyLink) -> object:
    async with asyncio.timeout(10):
        while True:
            with suppress(ServerError):
                return await link.run(command("GET", "k1"))
