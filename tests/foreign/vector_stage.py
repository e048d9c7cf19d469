"""A server of one's own that is emptied between scenes, a clock that stands still, and everything laid open.

The vectors hold each client's expected replies; `reference_clients.py` makes its calls with our functions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import redis

from chasqui.server.flow import Call, Flow, Reply
from chasqui.server.link import Link
from tests.support.links import command
from tests.support.servers.binaries import Kind
from tests.support.servers.server import Server, start_server

T = TypeVar("T")
LONG = 300


@dataclass(slots=True)
class VectorStage:
    server: Server
    link: Link
    raw: redis.Redis
    ear: Any
    now_us: int | None = None
    published: list[list[str]] = field(default_factory=list)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow with the clock fixed at the time of the step."""
        return self.link.run(with_fixed_time(flow, self.now_us))

    def command(self, *words: Any) -> Any:
        return self.link.run(command(*words))

    def empty(self) -> None:
        """Delete everything: the server is not shared."""
        self.command("FLUSHALL")
        self.published_messages()

    def published_messages(self) -> list[list[str]]:
        """Everything published since the last time."""
        self.command("PUBLISH", "that is all", "")
        published: list[list[str]] = []
        while True:
            message = self.ear.get_message(timeout=5)
            assert message, "the server does not pass on what is published"
            if message["type"] != "pmessage":
                continue
            if message["channel"] == b"that is all":
                return published
            published.append([message["channel"].decode(), message["data"].decode()])

    def state(self) -> dict[str, Any]:
        return {key.decode(): self._content(key) for key in sorted(self.command("KEYS", "*"))}

    def _content(self, key: bytes) -> dict[str, Any]:
        kind = self.command("TYPE", key).decode()
        ttl = self.command("TTL", key)
        content: dict[str, Any] = {"type": kind, "value": getattr(self, f"_{kind}")(key)}
        return content if ttl < 0 else content | {"ttl_s": ttl}

    def _hash(self, key: bytes) -> Any:
        flat = self.command("HGETALL", key)
        return {vector_value(name): vector_value(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}

    def _zset(self, key: bytes) -> Any:
        flat = self.command("ZRANGE", key, 0, -1, "WITHSCORES")
        return [[vector_value(name), vector_value(score)] for name, score in zip(flat[::2], flat[1::2], strict=True)]

    def _list(self, key: bytes) -> Any:
        return [vector_value(item) for item in self.command("LRANGE", key, 0, -1)]

    def _set(self, key: bytes) -> Any:
        return sorted(vector_value(item) for item in self.command("SMEMBERS", key))


def with_fixed_time(flow: Flow[T], now_us: int | None) -> Flow[T]:
    """The same flow, but TIME returns `now_us`."""
    try:
        batch = next(flow)
        while True:
            replies = yield batch
            batch = flow.send([_time_of(call, reply, now_us) for call, reply in zip(batch, replies, strict=True)])
    except StopIteration as end:
        result: T = end.value
        return result


def _time_of(call: Call, reply: Reply, now_us: int | None) -> Reply:
    if now_us is None or call.args != ("TIME",):
        return reply
    return [b"%d" % (now_us // 1_000_000), b"%d" % (now_us % 1_000_000)]


def vector_value(raw: bytes) -> Any:
    """A value as the vectors write it."""
    if len(raw) > LONG:
        return {"len_bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(raw).decode()}


def vector_argument(value: Any) -> Any:
    """An argument as the vectors write it."""
    if isinstance(value, dict) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"])
    if isinstance(value, dict) and set(value) == {"repeat"}:
        text, times = value["repeat"]
        return text * times
    return value


@contextmanager
def vector_stage(kind: Kind) -> Iterator[VectorStage]:
    with start_server(kind) as server, Link.open(server.url) as link:
        raw = redis.Redis(unix_socket_path=str(server.socket))
        ear: Any = raw.pubsub()  # type: ignore[no-untyped-call]
        ear.psubscribe("*")
        try:
            yield VectorStage(server, link, raw, ear)
        finally:
            ear.close()
            raw.close()


def state_difference(found: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """What differs; an expiry may have begun to run."""
    for key in sorted(found.keys() | expected.keys()):
        ours, theirs = found.get(key), expected.get(key)
        if ours is None or theirs is None:
            return f"{key}: ours {_short(ours)}, theirs {_short(theirs)}"
        ttl, wanted = ours.pop("ttl_s", None), theirs.get("ttl_s")
        if (ttl is None) != (wanted is None) or (ttl is not None and not 0 <= wanted - ttl <= 2):
            return f"{key}: expires in {ttl}, theirs in {wanted}"
        if ours != {name: part for name, part in theirs.items() if name != "ttl_s"}:
            return f"{key}: ours {_short(ours)}, theirs {_short(theirs)}"
    return None


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:600]
