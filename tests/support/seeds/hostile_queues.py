"""Queues of every kind with hostile text wherever a producer, a worker or a stranger could put it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack

from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.wire.keys import Keys
from tests.support.links import command
from tests.support.seeds.hostile_text import text_bytes

if TYPE_CHECKING:
    from chasqui.server.flow import Arg
    from chasqui.server.link import Link

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class HostileQueues:
    """One queue of each system, with the same name: `plain`, and behind it every text of the world."""

    link: Link
    plain: str
    texts: tuple[str, ...]
    now_ms: int

    @property
    def name(self) -> str:
        """As the program receives it: bytes that are not UTF-8 come as lone surrogates."""
        bare = "".join(text for text in self.texts if len(text) < 100)
        return text_bytes(f"{self.plain}-{bare}").decode("utf-8", "surrogateescape").replace("{", "(").replace("}", ")")

    @property
    def arguments(self) -> list[str]:
        """Each text as an argument of the program."""
        return [text_bytes(text).decode("utf-8", "surrogateescape") for text in self.texts]

    def command(self, *words: Arg) -> Any:
        return self.link.run(command(*(text_bytes(word) if isinstance(word, str) else word for word in words)))


def careless_pack(value: Any) -> bytes:
    """As a careless producer packs: texts need not be UTF-8."""
    try:
        return bytes(msgpack.packb(value, unicode_errors="surrogateescape"))
    except UnicodeEncodeError:
        return bytes(msgpack.packb(value, unicode_errors="surrogatepass"))


def fill_with_hostile_text(world: HostileQueues) -> None:
    _spoil_ours(world)
    _spoil_rsmq(world)
    _spoil_list(world)


def _job(world: HostileQueues, text: str) -> bytes:
    carried = careless_pack({text: text, "list": [text, {text: 1}], "bytes": text_bytes(text)})
    return careless_pack([text, carried, world.now_ms, 1])


def _broken_job(world: HostileQueues, text: str) -> bytes:
    return careless_pack([f"{text} broken", b"\xc1" + text_bytes(text), world.now_ms, 1])


def _spoil_ours(world: HostileQueues) -> None:
    keys = Keys(world.name)
    world.command("XGROUP", "CREATE", keys.stream, "default", "0", "MKSTREAM")
    for number, text in enumerate(world.texts):
        # A job of each text; one whose payload is none; and bytes that are not a job.
        for data in (_job(world, text), _broken_job(world, text), text_bytes(text)):
            world.command("XADD", keys.stream, "*", "d", data, "n", text)
            dead = ("d", data, "n", text, "source_id", text, "reason", text, "detail", text)
            world.command("XADD", keys.dlq, "*", *dead)
            member = len(text_bytes(text)).to_bytes(4, "little") + text_bytes(text) + data
            world.command("ZADD", keys.delayed, world.now_ms + HOUR_MS + number, member)
        world.command("ZADD", keys.delayed, world.now_ms + HOUR_MS, text)
        world.command("XREADGROUP", "GROUP", "default", text or "c", "COUNT", 2, "STREAMS", keys.stream, ">")
        world.command("SET", keys.delayed_index("") + text, text_bytes(text))
        every, calendar = {"Every": [60_000]}, {"Cron": ["0 9 * * *", text]}
        for pattern, key in ((every, text), (calendar, f"{text} by the calendar")):
            spec = careless_pack([key, text, pattern, careless_pack({text: text}), None, None, None, 0])
            world.command("HSET", keys.repeat_spec("") + key, "spec", spec, "fired", text)
            world.command("ZADD", keys.repeat, world.now_ms + HOUR_MS, key)
        world.command("HSET", keys.repeat_spec("") + f"{text} broken", "spec", text)
        world.command("ZADD", keys.repeat, world.now_ms - HOUR_MS, f"{text} broken")
        world.command("XADD", keys.events, "*", "e", text, "id", text, "n", text, "reason", text, text or "x", text)
        for kind in ("active", "failed", "completed"):
            fields = ("e", kind, "id", text, "ts", "1", "n", text, "reason", text, "attempt", text)
            world.command("XADD", keys.events, "*", *fields)
        world.command("SET", keys.result("") + text, careless_pack({text: text}))
        world.command("SET", keys.promoter_lock, text)
        world.command("SET", keys.scheduler_lock, text)
    world.command("XGROUP", "CREATE", keys.stream, "".join(world.texts[:5]), "0")
    world.command("SET", Keys(f"{world.name} of the wrong type").stream, "text")


def _spoil_rsmq(world: HostileQueues) -> None:
    for keys in (RsmqKeys(f"{world.name} other"), RsmqKeys(world.name)):
        world.command("SADD", keys.queues, keys.queue)
        world.command("HSET", keys.hash, "vt", 30, "delay", 0, "maxsize", 65536, "totalrecv", 0, "totalsent", 0)
        world.command("HSET", keys.hash, "created", world.now_ms // 1000, "modified", world.now_ms // 1000)
    for text in world.texts:
        for message in (text, f"gqll7vywlc{'a' * 22}{text}"):
            world.command("ZADD", keys.messages, world.now_ms, message)
            world.command("HSET", keys.hash, message, text, f"{message}:rc", 1, f"{message}:fr", world.now_ms)
        world.command("HSET", keys.hash, f"{text}:stray", text)


def _spoil_list(world: HostileQueues) -> None:
    keys = JobListKeys(world.name)
    for text in world.texts:
        fields = ("id", text, "payload", text, "result", text, "last_error", text, "status", text, text, text)
        for place, job in (
            (keys.pending, text),
            (keys.failed, f"{text} failed"),
            (keys.processing, f"{text}!"),
        ):
            world.command("LPUSH", place, job)
            world.command("HSET", keys.prefix + job, *fields, "claimed_at_ms", text, "claim_token", text)
        world.command("LPUSH", keys.processing, f"{text} nowhere")
