"""A bench: one server, its commands (native words or stand-ins) and one queue, with everything in it laid open.

Outcomes are made comparable here: an entry is known by its place in its stream instead of its id, times near the
server's clock become distances from it, expiry times are rounded. What a primitive should do is said in the tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from chasqui.server.commands import Commands
from chasqui.server.flow import Call, Flow
from chasqui.wire.keys import Keys
from tests.support.links import PlainCommands

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.server.flow import Arg, Reply
    from chasqui.server.link import Link

T = TypeVar("T")

GROUP = "default"
ENTRY_ID = re.compile(rb"^\d{13,}-\d+$")
NEAR_MS = 86_400_000
ENVELOPE = b"\x94\xa1x\xc4\x01\x01\xcf\x00\x00\x01\xa1\xe2\x3c\x61\xd6\x00"
ENVELOPE_TEXT = ENVELOPE.decode(errors="backslashreplace")

Dump = dict[str, Any]


@dataclass(slots=True)
class QueueHarness(PlainCommands):
    label: str
    link: Link
    commands: Commands
    queue: str
    keys: Keys = field(init=False)

    def __post_init__(self) -> None:
        self.keys = Keys(self.queue)

    def run_calls(self, call: Call) -> Any:
        return self.link.run(_alone(call))

    def command(self, *words: Arg) -> Any:
        """A plain command, on the node of the queue."""
        return self.run_calls(Call(words, keys=(self.keys.stream,)))

    def add(self, *texts: bytes) -> list[bytes]:
        return [self.run_calls(self.commands.add_unchecked(self.keys, ["d", text])) for text in texts]

    def deliver(self, *texts: bytes, to: str = "ada") -> list[bytes]:
        """Add jobs and have them pending for a consumer."""
        self.run(self.commands.ensure_group(self.keys, GROUP))
        ids = self.add(*texts)
        self.command("XREADGROUP", "GROUP", GROUP, to, "COUNT", len(texts), "STREAMS", self.keys.stream, ">")
        return ids

    def make_idle(self, entry_id: bytes, ms: int) -> None:
        """Let an entry look as if its consumer had not touched it for a while."""
        owner = self.pending(entry_id)[1]
        self.command("XCLAIM", self.keys.stream, GROUP, owner, 0, entry_id, "IDLE", ms, "JUSTID")

    def pending(self, entry_id: bytes) -> Any:
        [row] = self.command("XPENDING", self.keys.stream, GROUP, entry_id, entry_id, 1)
        return row

    def plain(self, value: Reply) -> Any:
        """A reply with text instead of bytes, and every entry id as `id`: no two servers give the same ones."""
        if isinstance(value, bytes):
            return "id" if ENTRY_ID.match(value) else as_text(value)
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        return value

    def dump(self) -> Dump:
        """Every key of the queue with type, expiry and content; the stand-in's own marks are left out."""
        prefix = f"{{chasqui:{self.queue}}}:"
        found = sorted(self.command("KEYS", re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"))
        suffixes = [key.decode().removeprefix(prefix) for key in found]
        return {
            suffix: self._content(key)
            for suffix, key in zip(suffixes, found, strict=True)
            if not suffix.startswith("idmp:")
        }

    def marks(self) -> list[bytes]:
        """What the stand-in for IDMP keeps, and no native server has."""
        return list(self.command("KEYS", f"{{chasqui:{self.queue}}}:idmp:*"))

    def _content(self, key: bytes) -> Any:
        kind = self.command("TYPE", key)
        content = {
            b"stream": self._stream, b"zset": self._zset, b"hash": self._hash, b"string": self._string,
            b"set": self._set,
        }  # fmt: skip
        value = content[kind](key)
        ttl_ms = self.command("PTTL", key)
        return value if ttl_ms < 0 else {"value": value, "expires_in_s": -(-ttl_ms // 5000) * 5}

    def _set(self, key: bytes) -> Any:
        return sorted(self.plain(member) for member in self.command("SMEMBERS", key))

    def _string(self, key: bytes) -> Any:
        return self.plain(self.command("GET", key))

    def _hash(self, key: bytes) -> Any:
        flat = self.command("HGETALL", key)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return {self.plain(name): self.plain(value) for name, value in pairs}

    def _zset(self, key: bytes) -> Any:
        now = self.now_ms()
        members = self.command("ZRANGE", key, 0, -1)
        scores = [float(self.command("ZSCORE", key, member)) for member in members]
        return {self.plain(m): _moment(score, now) for m, score in zip(members, scores, strict=True)}

    def _stream(self, key: bytes) -> Any:
        entries = self.command("XRANGE", key, "-", "+")
        places = {entry_id: place for place, (entry_id, _) in enumerate(entries, 1)}
        groups = {self.plain(name): self._group(key, name, places) for name in self._named("GROUPS", key)}
        found = {"entries": [self.plain(fields) for _, fields in entries]}
        return {**found, "groups": groups} if groups else found

    def _group(self, key: bytes, name: bytes, places: dict[bytes, int]) -> Any:
        rows = self.command("XPENDING", key, name, "-", "+", 1000)
        pending = [[places.get(row[0], "deleted"), self.plain(row[1]), row[3]] for row in rows]
        return {"consumers": sorted(map(as_text, self._named("CONSUMERS", key, name))), "pending": pending}

    def _named(self, what: str, *where: bytes) -> list[bytes]:
        rows = self.command("XINFO", what, *where)
        return [row[b"name"] if isinstance(row, dict) else row[1] for row in rows]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a story returned and what it left behind."""

    result: Any
    left: Dump


def delayed_member(name: bytes, envelope: bytes = ENVELOPE) -> bytes:
    return len(name).to_bytes(4, "little") + name + envelope


def read_ready(b: QueueHarness, consumer: str, count: int = 10, idle_ms: int = 60_000) -> Any:
    """What a consumer reads: data, whether it was idle (the time itself varies), and deliveries so far."""
    request = b.commands.read_ready(b.keys, GROUP, consumer, claim_idle_ms=idle_ms)
    rows = request.rows(b.run_calls(request.call(count)))
    return [[fields[1], idle >= idle_ms, deliveries] for _, fields, idle, deliveries in rows]


def outcome(bench: QueueHarness, story: Callable[[QueueHarness], Any]) -> Outcome:
    return Outcome(bench.plain(story(bench)), bench.dump())


def same_outcome(outcomes: Sequence[tuple[str, Outcome]]) -> Outcome:
    """The one outcome that all benches had."""
    (first_label, first), *others = outcomes
    for label, other in others:
        assert other.result == first.result, f"{label} answered otherwise than {first_label}"
        assert other.left == first.left, f"{label} left something else behind than {first_label}"
    return first


def _alone(call: Call) -> Flow[Any]:
    [reply] = yield [call]
    return reply


def as_text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


def _moment(score: float, now_ms: int) -> str | float:
    """A time near now as its distance, rounded to what a slow machine cannot spoil."""
    distance = score - now_ms
    return f"now{round(distance / 10_000) * 10:+d}s" if abs(distance) < NEAR_MS else score
