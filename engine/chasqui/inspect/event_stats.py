"""Statistics of a queue's last events: how long jobs waited and ran, by name, and over which time.

Wait is from the moment an id was made (it is in the id) or the job was promoted, to the start of its run; where neither
is known it is not guessed. Pure: the events are an argument.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.wire import event_entry
from chasqui.wire.entry_id import time_ms
from chasqui.wire.job_id import created_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.inspect.events import StoredEvent


@dataclass(frozen=True, slots=True)
class Percentiles:
    """50, 95 and 99 % of `count` values were not larger than these, in ms."""

    count: int
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles | None:
        """None for no values."""
        if not values:
            return None
        ordered = sorted(values)
        return cls(len(ordered), *(percentile(ordered, part) for part in (0.5, 0.95, 0.99)))


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest of the sorted values that this part of them does not exceed."""
    return ordered[math.ceil(part * len(ordered)) - 1]


@dataclass(frozen=True, slots=True)
class JobNameStats:
    """One kind of job: how many ended per second, how many of them failed, and how long they ran."""

    name: str
    ended: int
    failed: int
    per_second: float
    run: Percentiles | None


@dataclass(frozen=True, slots=True)
class EventStats:
    """`events` of them reach over `window_ms`; every number here is from them and from no others."""

    events: int
    window_ms: int
    wait: Percentiles | None
    run: Percentiles | None
    completed: int
    failed: int
    names: tuple[JobNameStats, ...]


def event_stats(events: Sequence[StoredEvent]) -> EventStats:
    """From events, oldest first."""
    waits: list[float] = []
    runs: dict[str, list[float]] = defaultdict(list)
    ended: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    promoted: dict[str, int] = {}
    for stored in events:
        event = stored.event
        if event.kind == event_entry.WAITING and event.job_id and event.ts:
            promoted[event.job_id] = event.ts
        elif event.kind == event_entry.ACTIVE and event.job_id and event.ts:
            since = promoted.get(event.job_id)
            if since is None and event.attempt == 1:
                since = created_ms(event.job_id)
            if since is not None and event.ts >= since:
                waits.append(event.ts - since)
        elif event.kind in (event_entry.COMPLETED, event_entry.FAILED):
            ended[event.name][event.kind == event_entry.FAILED] += 1
            if event.duration_us is not None:
                runs[event.name].append(event.duration_us / 1000)
    window_ms = _window_ms(events)
    names = [
        JobNameStats(name, good + bad, bad, (good + bad) * 1000 / max(1, window_ms), Percentiles.of(runs[name]))
        for name, (good, bad) in ended.items()
    ]
    names.sort(key=lambda row: (-row.failed, -row.ended, row.name))
    return EventStats(
        events=len(events),
        window_ms=window_ms,
        wait=Percentiles.of(waits),
        run=Percentiles.of([value for values in runs.values() for value in values]),
        completed=sum(good for good, _ in ended.values()),
        failed=sum(bad for _, bad in ended.values()),
        names=tuple(names),
    )


def _window_ms(events: Iterable[StoredEvent]) -> int:
    times = [time_ms(one.entry_id) for one in events]
    return max(times) - min(times) if times else 0
