"""Queues with a known past: events as of a busy worker, made up with a fixed seed, and put into a server."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chasqui.server.flow import Call, Flow
from chasqui.server.link import Link
from chasqui.wire import event_entry, job_id
from chasqui.wire.event_entry import Event
from chasqui.wire.keys import Keys
from tests.support.links import command

BEGIN_MS = 1_794_700_800_000  # 2026-11-15T00:00:00Z
NAMES = ("mail", "invoice", "report", "")
ERRORS = ("timeout after {n} ms", "no account 'u{n}'", "disk 0x{n:x} is gone")


@dataclass(frozen=True)
class PastEvent:
    """One event and its entry id."""

    ms: int
    seq: int
    event: Event

    @property
    def id(self) -> str:
        return f"{self.ms}-{self.seq}"


def made_up_events(
    jobs: int, *, seed: int = 7, begin_ms: int = BEGIN_MS, span_ms: int = 3 * 86_400_000
) -> list[PastEvent]:
    """The events of that many jobs over three days: most run once, some fail and retry, a few die."""
    chance = random.Random(seed)
    events: list[tuple[int, Event]] = []
    for _ in range(jobs):
        made = begin_ms + chance.randrange(span_ms)
        job_id = _ulid(made, chance)
        name = chance.choices(NAMES, (6, 3, 2, 1))[0]
        at = made + chance.randrange(1, 30_000)
        for attempt in range(1, 4):
            events.append((at, Event("active", job_id, at, name, attempt=attempt)))
            took_us = int(chance.lognormvariate(9, 1)) + 1
            at += 1 + took_us // 1000
            if chance.random() > 0.2:
                events.append((at, Event("completed", job_id, at, name, attempt=attempt, duration_us=took_us)))
                break
            reason = chance.choice(ERRORS).format(n=chance.randrange(10_000))
            events.append((at, Event("failed", job_id, at, name, attempt=attempt, reason=reason, duration_us=took_us)))
            if attempt == 3:
                events.append((at, Event("dlq", job_id, at, name, attempt=3, reason="retries_exhausted")))
            else:
                later = Event("retry-scheduled", job_id, at, name, attempt=attempt + 1, backoff_ms=500)
                events.append((at, later))
                at += 500
    events.sort(key=lambda one: one[0])
    found, last, seq = [], -1, 0
    for ms, event in events:
        seq = seq + 1 if ms == last else 0
        last = ms
        found.append(PastEvent(ms, seq, event))
    return found


def _ulid(ms: int, chance: random.Random) -> str:
    return job_id.new_job_ids(1, ms, chance.randbytes)[0]


def write_events(link: Link, queue: str, happenings: Sequence[PastEvent]) -> None:
    """Put events into a server under their own ids."""
    key = Keys(queue).events
    calls = [Call(("XADD", key, one.id, *event_entry.encode(one.event)), keys=(key,)) for one in happenings]
    link.run(_all(calls))


def numbered_events(link: Link, queue: str, count: int, *, first: int = 0) -> None:
    """Plain events under the server's own ids, numbered."""
    key = Keys(queue).events
    calls = [
        Call(("XADD", key, "*", "e", "completed", "id", f"job-{n}", "ts", n, "n", "mail", "attempt", 1, "duration_us", n), keys=(key,))
        for n in range(first, first + count)
    ]  # fmt: skip
    link.run(_all(calls))


def run_flow(link: Link, *words: Any) -> Any:
    return link.run(command(*words))


def _all(calls: Sequence[Call]) -> Flow[None]:
    for start in range(0, len(calls), 5000):
        yield calls[start : start + 5000]
