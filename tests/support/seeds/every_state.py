"""A queue with a job in every state, written byte by byte past the engine, and the means to spoil it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chasqui.server.commands import parse_server_time
from chasqui.server.link import Link
from chasqui.wire import (
    dead_letter_entry,
    delayed_member,
    envelope,
    event_entry,
    msgpack_codec,
    repeat_spec,
    stream_entry,
)
from chasqui.wire.dead_letter_entry import DeadLetterEntry
from chasqui.wire.event_entry import Event
from chasqui.wire.job_id import new_job_id
from chasqui.wire.keys import Keys
from chasqui.wire.payload import Payload
from chasqui.wire.repeat_spec import Every, RepeatSpec
from tests.support.links import command

if TYPE_CHECKING:
    from chasqui.server.flow import Arg

GROUP = "default"


@dataclass(slots=True)
class QueueSeeder:
    """One queue on one server. `now_ms` is the server's time when it was made."""

    link: Link
    queue: str
    keys: Keys = field(init=False)
    now_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.keys = Keys(self.queue)
        self.now_ms = parse_server_time(self.command("TIME"))

    def command(self, *words: Arg) -> Any:
        return self.link.run(command(*words))

    def envelope(self, job_id: str | None = None, data: Any = None, *, attempt: int = 0) -> envelope.Envelope:
        payload = Payload("bin", msgpack_codec.pack({"to": "ada", "n": 1} if data is None else data))
        return envelope.Envelope(job_id or new_job_id(self.now_ms), payload, self.now_ms, attempt)

    def add(self, job_id: str | None = None, *, name: str = "mail", data: Any = None) -> str:
        job = self.envelope(job_id, data)
        self.command("XADD", self.keys.stream, "*", *stream_entry.encode(envelope.encode(job), name))
        return job.id

    def group(self, read: int = 0, consumer: str = "c-7") -> None:
        self.command("XGROUP", "CREATE", self.keys.stream, GROUP, "0", "MKSTREAM")
        self.read(read, consumer)

    def read(self, count: int, consumer: str = "c-7") -> None:
        if count:
            self.command("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, "STREAMS", self.keys.stream, ">")

    def delay(self, in_ms: int, job_id: str | None = None, *, name: str = "mail", data: Any = None) -> str:
        job = self.envelope(job_id, data)
        member = delayed_member.encode(envelope.encode(job), name)
        self.command("ZADD", self.keys.delayed, self.now_ms + in_ms, member)
        if job_id:
            self.command("SET", self.keys.delayed_index(job_id), member, "PX", in_ms + 3_600_000)
            self.command("SET", self.keys.delayed_marker(job_id), "1", "PX", in_ms + 3_600_000)
        return job.id

    def add_dead_letter(self, job_id: str | None = None, *, reason: str = "retries_exhausted", detail: str = "") -> str:
        job = self.envelope(job_id, attempt=3)
        letter = DeadLetterEntry(envelope.encode(job), "1-0", reason, detail or None, "mail")
        self.command("XADD", self.keys.dlq, "*", *dead_letter_entry.encode(letter))
        return job.id

    def add_event(self, kind: str, job_id: str | None, *, at_ms: int = 0, name: str = "mail", **fields: Any) -> None:
        event = Event(kind, job_id, self.now_ms + at_ms, name, **fields)
        self.command("XADD", self.keys.events, "*", *event_entry.encode(event))

    def let_time_pass(self) -> None:
        """Until the server's clock shows another millisecond: within one, streams have no order among them."""
        began_ms = parse_server_time(self.command("TIME"))
        while parse_server_time(self.command("TIME")) == began_ms:
            pass

    def repeat(self, key: str, next_in_ms: int, every_ms: int = 60_000) -> None:
        payload = Payload("bin", msgpack_codec.pack({"n": 1}))
        spec = RepeatSpec(key=key, job_name="tick", pattern=Every(every_ms), payload=payload)
        self.command("HSET", self.keys.repeat_spec(key), "spec", repeat_spec.encode(spec))
        self.command("ZADD", self.keys.repeat, self.now_ms + next_in_ms, key)

    def take_leader_locks(self, *, ttl_ms: int | None = 5000) -> None:
        """A worker promotes and schedules."""
        for lock in (self.keys.promoter_lock, self.keys.scheduler_lock):
            self.command("SET", lock, "worker-1", *(() if ttl_ms is None else ("PX", ttl_ms)))

    def result(self, job_id: str, value: Any) -> None:
        self.command("SET", self.keys.result(job_id), msgpack_codec.pack(value), "EX", 3600)


def every_state(seed: QueueSeeder) -> dict[str, str]:
    """A job in each state, by the state's name. Nothing is wrong with the queue but its one dead letter."""
    jobs = {"in-flight": seed.add(), "ended": seed.add("ended-1")}
    seed.group(read=1)
    seed.command("XDEL", seed.keys.stream, seed.command("XRANGE", seed.keys.stream, "-", "+")[-1][0])
    jobs |= {"waiting": seed.add("waits-1"), "second": seed.add("waits-2")}
    jobs["delayed"] = seed.delay(3_600_000, "later-1")
    jobs["anonymous"] = seed.delay(7_200_000)
    jobs["dead"] = seed.add_dead_letter("dead-1")
    seed.repeat("tick::every:60000", 60_000)
    seed.take_leader_locks(ttl_ms=600_000)
    seed.add_event("active", "dead-1", attempt=1)
    seed.add_event("failed", "dead-1", attempt=1, reason="SMTP 550")
    seed.add_event("dlq", "dead-1", attempt=1, reason="retries_exhausted")
    seed.add_event("active", "done-1", attempt=1)
    seed.add_event("completed", "done-1", attempt=1, duration_us=1500)
    seed.result("done-1", {"sent": True, "token": "hush"})
    jobs["done"] = "done-1"
    return jobs
