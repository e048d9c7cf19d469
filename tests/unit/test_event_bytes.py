"""Events from templates say exactly what events said word by word do."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from chasqui.clock import SystemClock
from chasqui.consume.event_encoder import EventEncoder
from chasqui.server.command_templates import PLACEHOLDER, command_template, pack_bulk_string
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.wire.event_entry import Event
from chasqui.wire.keys import Keys

COMMANDS = Commands(Features(idmp=True, ackdel=True, claim=True, kind="any", version="any"))


@dataclass(frozen=True, slots=True)
class Still:
    """A clock that stands."""

    def now_ms(self) -> int:
        return 1_794_796_970_454

    def monotonic(self) -> float:
        return 100.0

    async def sleep(self, seconds: float) -> None:
        await SystemClock().sleep(seconds)

    def sleep_sync(self, seconds: float) -> None:
        SystemClock().sleep_sync(seconds)


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    name: str
    attempt: int


@pytest.mark.parametrize("queue", ["mail", "100 %", "%b%d", "ä{}"])
@pytest.mark.parametrize("name", ["", "welcome", "ü" * 10, "%b"])
@pytest.mark.parametrize("job_id", ["01M7JV5R8B1G6VZBX7CJV2BT1T", "", "jöb %d"])
@pytest.mark.parametrize(("attempt", "duration_us"), [(0, 1), (8, 63), (62, 999), (99, 1_234_567)])
def test_templates_are_the_codec_s_bytes(queue: str, name: str, job_id: str, attempt: int, duration_us: int) -> None:
    clock = Still()
    encoder, job = EventEncoder(COMMANDS, Keys(queue), 100_000, clock), Job(job_id, name, attempt)
    ended = clock.monotonic()
    started = ended - (duration_us + 0.5) / 1_000_000
    ts, began = clock.now_ms(), clock.now_ms() - (duration_us + 999) // 1000

    def event(kind: str, at: int, took: int | None = None) -> bytes:
        return encoder.any_event(Event(kind, job_id, at, name=name, attempt=attempt + 1, duration_us=took))

    active, completed = encoder.active(job, started), encoder.completed(job, started, ended)
    assert active in {event("active", at) for at in (began, began + 1)}
    assert completed == event("completed", ts, duration_us)

    parts: list[bytes] = []
    encoder.started_and_completed(parts, job, started, ended)
    first = b"".join(parts)
    assert first == active + completed
    for _ in range(2):
        encoder.started_and_completed(parts, job, started, ended)
    untrimmed = EventEncoder(COMMANDS, Keys(queue), None, clock)
    again = untrimmed.active(job, ended) + untrimmed.completed(job, started, ended)
    assert b"".join(parts) == first + 2 * (again if duration_us < 64 else first)


def test_a_template_s_holes_are_filled_and_nothing_else() -> None:
    pattern = command_template(["SET", "100 %", PLACEHOLDER, 7])
    assert pattern % pack_bulk_string("v") == b"*4\r\n$3\r\nSET\r\n$5\r\n100 %\r\n$1\r\nv\r\n$1\r\n7\r\n"
