"""Other systems' queues on every kind of server: names of their own for each test, and plain commands for scenes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.server.flow import Call, Flow
from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.support.links import command
from tests.support.servers.server import Server

T = TypeVar("T")


@dataclass(slots=True)
class ForeignServer:
    link: Link
    name: str

    @property
    def rsmq(self) -> RsmqKeys:
        return RsmqKeys("orders", self.name)

    @property
    def jobs(self) -> JobListKeys:
        return JobListKeys(self.name)

    @property
    def ours(self) -> Keys:
        return Keys(self.name)

    def run(self, flow: Flow[T]) -> T:
        return self.link.run(flow)

    def command(self, *words: Any) -> Any:
        return self.link.run(command(*words))

    def now_ms(self) -> int:
        seconds, micros = self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def dump(self, *keys: str) -> dict[str, Any]:
        """Everything under these keys, by key."""
        reads = {
            b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
            b"list": ("LRANGE", 0, -1),
            b"stream": ("XRANGE", "-", "+"),
        }
        content: dict[str, Any] = {}
        for key in keys:
            kind = self.command("TYPE", key)
            if kind == b"none":
                continue
            if kind in reads:
                command, *rest = reads[kind]
                content[key] = self.command(command, key, *rest)
            elif kind == b"hash":
                flat = self.command("HGETALL", key)
                content[key] = dict(zip(flat[::2], flat[1::2], strict=True))
            else:
                content[key] = sorted(self.command("SMEMBERS", key)) if kind == b"set" else self.command("GET", key)
            if self.command("PTTL", key) >= 0:
                content[f"{key} expires"] = True
        return content


def interrupt_before(flow: Flow[T], script: str, meanwhile: Callable[[], object]) -> Flow[T]:
    """The flow, and something that happens just before it first calls this script."""
    waiting = True
    try:
        calls = next(flow)
        while True:
            if waiting and any(call.script == script for call in calls):
                waiting = False
                meanwhile()
            calls = flow.send((yield calls))
    except StopIteration as end:
        assert not waiting, f"{script} was never called"
        result: T = end.value
        return result


def interrupt_after_each(flow: Flow[T], act: Callable[[Sequence[Call]], None]) -> Flow[T]:
    """The same flow, but something happens after each of its round trips."""
    calls = next(flow)
    while True:
        replies = yield calls
        act(calls)
        try:
            calls = flow.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result


@pytest.fixture
def foreign_server(server: Server, queue: str) -> Iterator[ForeignServer]:
    with Link.open(server.url) as link:
        yield ForeignServer(link, queue)
