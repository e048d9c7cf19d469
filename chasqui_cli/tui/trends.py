"""How counters changed while they were watched: rates, a forecast in three words, a line of the last minutes.

Samples carry the server's time, so a laptop that sleeps bends nothing. Pure: no widget, no server.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from chasqui_cli.output.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.foreign import ForeignSnapshot
    from chasqui.inspect.snapshot import Snapshot

RATE_WINDOW_MS = 20_000
"""The window of the rates: long enough to be calm, short enough to follow."""
HISTORY_MS = 600_000
HISTORY_CELLS = 10
HOUR_MS = 3_600_000
KEEP_ALL_MS = 60_000
KEEP_EVERY_MS = 15_000
KEEP_OLD_EVERY_MS = 60_000
"""Samples older than a minute are thinned out to the one, older than the line to the other: an hour costs some 150."""
THIN_EVERY = 40
"""Looks between one thinning and the next."""
DAY_MS = 86_400_000
SPARK_CHARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class CounterSample:
    """Counters of one queue at one moment. has_counters: False for a system that counts nothing, whose rates are unknown."""

    at_ms: int
    added: int
    read: int
    waiting: int
    dead_added: int
    has_counters: bool = True

    @classmethod
    def from_snapshot(cls, seen: Snapshot | ForeignSnapshot) -> CounterSample:
        """Of ours, what was added and does not wait was read; RSMQ counts both; a list counts nothing."""
        at_ms, waiting = seen.server_time_ms, seen.waiting
        if seen.kind == "chasquimq":
            ours = cast("Snapshot", seen)
            return cls(at_ms, ours.stream.added, ours.stream.added - waiting, waiting, ours.dlq.added)
        attributes = cast("ForeignSnapshot", seen).attributes
        return cls(
            at_ms,
            attributes.sent if attributes else 0,
            attributes.received if attributes else 0,
            waiting,
            0,
            bool(attributes),
        )


@dataclass(frozen=True, slots=True)
class Rates:
    """Jobs per second that came and that were read by workers, over the last `window_ms`."""

    arriving: float
    leaving: float
    window_ms: int


@dataclass(slots=True)
class Trend:
    """What is remembered of one queue."""

    samples: deque[CounterSample] = field(default_factory=deque)
    _unthinned: int = 0

    def add(self, seen: Snapshot | ForeignSnapshot) -> None:
        """Add a sample. A new stream, or a clock set back, drops the older ones."""
        sample = CounterSample.from_snapshot(seen)
        last = self.samples[-1] if self.samples else None
        if last and (sample.at_ms <= last.at_ms or sample.added < last.added):
            if sample.at_ms == last.at_ms:
                return
            self.samples.clear()
        self.samples.append(sample)
        self._thin_out(sample.at_ms)

    def rates(self) -> Rates | None:
        """None before there are two looks to compare."""
        if len(self.samples) < 2 or not self.samples[-1].has_counters:
            return None
        last = self.samples[-1]
        recent = [one for one in self.samples if one.at_ms >= last.at_ms - RATE_WINDOW_MS]
        first = recent[0] if len(recent) > 1 else self.samples[-2]
        seconds = (last.at_ms - first.at_ms) / 1000
        came, left = last.added - first.added, last.read - first.read
        return Rates(max(0.0, came / seconds), max(0.0, left / seconds), last.at_ms - first.at_ms)

    def dead_letters_added(self) -> tuple[int, int]:
        """How many dead letters were added in the last hour, and how many ms of it were watched."""
        if not self.samples:
            return 0, 0
        last = self.samples[-1]
        first = next(one for one in self.samples if one.at_ms >= last.at_ms - HOUR_MS)
        return max(0, last.dead_added - first.dead_added), last.at_ms - first.at_ms

    def waiting_history(self, cells: int = HISTORY_CELLS, reach_ms: int = HISTORY_MS) -> list[int | None]:
        """How many waited, in `cells` equal parts of the last `reach_ms`; None where it was not watched."""
        values: list[int | None] = [None] * cells
        if not self.samples:
            return values
        begin = self.samples[-1].at_ms - reach_ms
        for one in self.samples:
            place = (one.at_ms - begin) * cells // reach_ms
            if one.at_ms > begin:
                values[min(place, cells - 1)] = one.waiting
        return values

    def throughput_history(self, cells: int, reach_ms: int) -> tuple[list[int | None], list[int | None]]:
        """Arrivals and departures per part of the last `reach_ms`."""
        came: list[int | None] = [None] * cells
        left: list[int | None] = [None] * cells
        if not self.samples:
            return came, left
        begin = self.samples[-1].at_ms - reach_ms
        for before, one in _pairs(self.samples):
            if one.at_ms <= begin:
                continue
            place = min((one.at_ms - begin) * cells // reach_ms, cells - 1)
            came[place] = (came[place] or 0) + one.added - before.added
            left[place] = (left[place] or 0) + max(0, one.read - before.read)
        return came, left

    def _thin_out(self, now_ms: int) -> None:
        """Drop what is older than an hour, and of what is older than a minute all but one in a while."""
        while self.samples and self.samples[0].at_ms < now_ms - HOUR_MS:
            self.samples.popleft()
        self._unthinned += 1
        if self._unthinned < THIN_EVERY:
            return
        self._unthinned = 0
        thinned: deque[CounterSample] = deque()
        for one in self.samples:
            if not thinned or one.at_ms - thinned[-1].at_ms >= _spacing_ms(now_ms - one.at_ms):
                thinned.append(one)
        self.samples = thinned


def _spacing_ms(age_ms: int) -> int:
    """How far apart samples of this age are thinned."""
    if age_ms <= KEEP_ALL_MS:
        return 0
    return KEEP_EVERY_MS if age_ms <= HISTORY_MS else KEEP_OLD_EVERY_MS


def _pairs(samples: deque[CounterSample]) -> Iterator[tuple[CounterSample, CounterSample]]:
    before: CounterSample | None = None
    for one in samples:
        if before:
            yield before, one
        before = one


def forecast_text(waiting: int, rates: Rates | None, *, unknown: str = "…") -> str:
    """Three words only: it clears, it is stalled, it grows. Nothing for an empty queue; `unknown` before a second look."""
    if not waiting:
        return "–"
    if rates is None:
        return unknown
    if rates.leaving < 0.05:
        return "stalled"
    net = rates.leaving - rates.arriving
    if net < -max(0.1, rates.leaving * 0.02):
        return f"grows {format_rate(-net)}/s"
    clears_ms = waiting * 1000 / net if net > 0 else DAY_MS
    return f"clears ~{format_duration(max(1000, int(clears_ms)))}" if clears_ms < DAY_MS else "clears >1d"


def format_rate(rate: float) -> str:
    """A rate as people read it: two digits that matter."""
    if rate >= 1000:
        return short_count(round(rate))
    return f"{rate:.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def short_count(number: int) -> str:
    """A count in five characters: 84213 is 84.2k."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(number) >= size * (10 if unit == "k" else 1):
            return f"{number / size:.1f}{unit}"
    return str(number)


def sparkline(values: list[int | None]) -> str:
    """A line of bars; a blank where nothing is known, the lowest bar for nothing."""
    most = max((value for value in values if value is not None), default=0)
    return "".join(
        " "
        if value is None
        else SPARK_CHARS[0]
        if not most
        else SPARK_CHARS[min(len(SPARK_CHARS) - 1, value * len(SPARK_CHARS) // (most + 1))]
        for value in values
    )


def gauge(part: float, width: int) -> str:
    """A filled bar for a part of a whole."""
    filled = round(min(1.0, max(0.0, part)) * width)
    return "█" * filled + "░" * (width - filled)
