"""A server of one's own that is emptied between scenes, a clock that stands still, and everything laid open.

What a client's answers should be is said by the vectors; how its calls are said in our words, in `clients.py`.
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

from chasqui.server.call import Call, Flow, Reply
from chasqui.server.link import Link
from tests.links import say
from tests.server_binaries import Kind
from tests.servers import Server, spawn

T = TypeVar("T")
LONG = 300


@dataclass(slots=True)
class Stage:
    server: Server
    link: Link
    raw: redis.Redis
    ear: Any
    now_us: int | None = None
    published: list[list[str]] = field(default_factory=list)

    def run(self, flow: Flow[T]) -> T:
        """Carry a flow through, with the clock standing where the step says."""
        return self.link.run(pinned(flow, self.now_us))

    def say(self, *words: Any) -> Any:
        return self.link.run(say(*words))

    def empty(self) -> None:
        """Our own server, and nobody else's data in it."""
        self.say("FLUSHALL")
        self.heard()

    def heard(self) -> list[list[str]]:
        """Everything published since the last time."""
        self.say("PUBLISH", "that is all", "")
        told: list[list[str]] = []
        while True:
            message = self.ear.get_message(timeout=5)
            assert message, "the server does not pass on what is published"
            if message["type"] != "pmessage":
                continue
            if message["channel"] == b"that is all":
                return told
            told.append([message["channel"].decode(), message["data"].decode()])

    def state(self) -> dict[str, Any]:
        return {key.decode(): self._content(key) for key in sorted(self.say("KEYS", "*"))}

    def _content(self, key: bytes) -> dict[str, Any]:
        kind = self.say("TYPE", key).decode()
        ttl = self.say("TTL", key)
        told: dict[str, Any] = {"type": kind, "value": getattr(self, f"_{kind}")(key)}
        return told if ttl < 0 else told | {"ttl_s": ttl}

    def _hash(self, key: bytes) -> Any:
        flat = self.say("HGETALL", key)
        return {plain(name): plain(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}

    def _zset(self, key: bytes) -> Any:
        flat = self.say("ZRANGE", key, 0, -1, "WITHSCORES")
        return [[plain(name), plain(score)] for name, score in zip(flat[::2], flat[1::2], strict=True)]

    def _list(self, key: bytes) -> Any:
        return [plain(item) for item in self.say("LRANGE", key, 0, -1)]

    def _set(self, key: bytes) -> Any:
        return sorted(plain(item) for item in self.say("SMEMBERS", key))


def pinned(flow: Flow[T], now_us: int | None) -> Flow[T]:
    """The flow, told another time than the server's whenever it asks."""
    try:
        batch = next(flow)
        while True:
            replies = yield batch
            batch = flow.send(
                [_time_of(call, reply, now_us) for call, reply in zip(batch, replies, strict=True)]
            )
    except StopIteration as end:
        result: T = end.value
        return result


def _time_of(call: Call, reply: Reply, now_us: int | None) -> Reply:
    if now_us is None or call.words != ("TIME",):
        return reply
    return [b"%d" % (now_us // 1_000_000), b"%d" % (now_us % 1_000_000)]


def plain(raw: bytes) -> Any:
    """A value as the vectors write it."""
    if len(raw) > LONG:
        return {"len_bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(raw).decode()}


def meant(value: Any) -> Any:
    """An argument as the vectors write it."""
    if isinstance(value, dict) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"])
    if isinstance(value, dict) and set(value) == {"repeat"}:
        text, times = value["repeat"]
        return text * times
    return value


@contextmanager
def stage_of(kind: Kind) -> Iterator[Stage]:
    with spawn(kind) as server, Link.open(server.url) as link:
        raw = redis.Redis(unix_socket_path=str(server.socket))
        ear: Any = raw.pubsub()  # type: ignore[no-untyped-call]
        ear.psubscribe("*")
        try:
            yield Stage(server, link, raw, ear)
        finally:
            ear.close()
            raw.close()


def same_state(found: dict[str, Any], expected: dict[str, Any]) -> str | None:
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
