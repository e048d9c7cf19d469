"""Listening to a channel, blocking and awaited: silence does not end it, a dead server does."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chasqui.errors import ServerError
from chasqui.server import pubsub
from chasqui.server.flow import Call
from chasqui.server.link import AsyncLink, Link
from tests.support.links import command
from tests.support.processes.engines import wait_until
from tests.support.servers.server import Server, start_server

QUIET_S = 0.05


def ear(link: Any, channel: str) -> Any:
    """What `Link.subscribe` returns, with a shorter ping interval."""
    [node] = link._run_steps(link._pilot.route.nodes_for([Call((), keys=(channel,))]))
    return pubsub.subscribe(link._setup, link._pool(node), node, channel, QUIET_S)


@contextmanager
def once_subscribed(server: Server, channel: str, speak: Callable[[Link], object]) -> Iterator[None]:
    def speaking() -> None:
        with Link.open(server.url) as link:
            wait_until(lambda: link.run(command("PUBSUB", "NUMSUB", channel))[1] == 1, "somebody listens")
            speak(link)

    thread = threading.Thread(target=speaking)
    thread.start()
    yield
    thread.join()


def pings(link: Link) -> int:
    stats = link.run(command("INFO", "commandstats")).decode()
    found = [line for line in stats.splitlines() if line.startswith("cmdstat_ping:")]
    return int(found[0].split("calls=")[1].split(",")[0]) if found else 0


def test_a_message_after_a_long_silence_is_received(server: Server, queue: str) -> None:
    def speak(link: Link) -> None:
        before = pings(link)
        wait_until(lambda: pings(link) >= before + 3, "the listener asks for signs of life")
        link.run(command("PUBLISH", queue, b"\xff at last"))

    with Link.open(server.url) as link:
        subscription = ear(link, queue)
        with once_subscribed(server, queue, speak):
            assert next(subscription) == b"\xff at last"
        subscription.close()
        wait_until(lambda: link.run(command("PUBSUB", "NUMSUB", queue))[1] == 0, "nobody listens any more")


@pytest.mark.parametrize("cruelty", [signal.SIGSTOP, signal.SIGKILL])
def test_a_server_that_freezes_or_dies_ends_it(queue: str, cruelty: signal.Signals) -> None:
    with start_server("valkey-9.1") as server, Link.open(server.url) as link:
        subscription = ear(link, queue)
        with once_subscribed(server, queue, lambda other: other.run(command("PUBLISH", queue, "hello"))):
            assert next(subscription) == b"hello"
        server.process.send_signal(cruelty)
        with pytest.raises(ServerError):
            next(subscription)
        server.process.send_signal(signal.SIGCONT)


async def test_it_is_awaited_as_well(server: Server, queue: str) -> None:
    async with AsyncLink.open(server.url) as link:
        received: list[bytes] = []

        async def listen() -> None:
            async for payload in link.subscribe(queue):
                received.append(payload)
                if len(received) == 3:
                    return

        def speak(other: Link) -> None:
            for number in range(3):
                other.run(command("PUBLISH", queue, number))

        with once_subscribed(server, queue, speak):
            async with asyncio.timeout(20):
                await listen()
        assert received == [b"0", b"1", b"2"]
