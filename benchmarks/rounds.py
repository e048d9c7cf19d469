"""Who competes, and the rounds they run. What the figures mean is said in `report.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.arena import Arena, Contender, Cost, Depth, Waits

RAW = Contender("raw loop, 2 events a job", "raw")
RAW_SILENT = Contender("raw loop, no events", "raw", ("--no-events",), jobs=150_000)
OURS = Contender("chasqui", "chasqui")
OURS_SILENT = Contender("chasqui, events off", "chasqui", ("--no-events",), jobs=150_000)
OURS_PLAIN = Contender("chasqui, plain def handlers", "chasqui", ("--plain",))
OURS_TWICE = Contender("chasqui, two processes", "chasqui", processes=2, jobs=150_000)
WHEEL = Contender("chasquimq 1.3.0", "chasquimq", jobs=25_000)
WHEEL_SILENT = Contender("chasquimq 1.3.0, events off", "chasquimq", ("--no-events",), jobs=40_000)
WHEEL_TWICE = Contender("chasquimq 1.3.0, two processes", "chasquimq", processes=2, jobs=40_000)
CONTENDERS = (RAW, OURS, WHEEL, OURS_PLAIN, RAW_SILENT, OURS_SILENT, WHEEL_SILENT, OURS_TWICE, WHEEL_TWICE)
TIMED = (RAW, OURS, OURS_PLAIN, WHEEL)
COMPUTING = tuple(
    Contender(f"{name}, 1 ms handlers, {count}", library, ("--burn-ms", "1", "--every", "10"), number, jobs=8000)
    for name, library in (("chasqui", "chasqui"), ("chasquimq 1.3.0", "chasquimq"))
    for count, number in (("one process", 1), ("two processes", 2))
)
MANY = 1_000_000


@dataclass
class Figures:
    """Every measurement of one contender."""

    produced: list[Cost] = field(default_factory=list)
    drained: list[Cost] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)


Book = dict[Contender, Figures]
Depths = dict[Contender, list[Depth]]


def compete(place: Arena, contenders: Sequence[Contender], *, rounds: int, share: float) -> Book:
    """Every contender in every round, so that a busy moment of the machine falls on all of them."""
    book: Book = {contender: Figures() for contender in contenders}
    for number in range(rounds):
        for contender, figures in book.items():
            _note(f"round {number + 1}/{rounds}: {contender.title}")
            scaled = contender.scaled(share)
            figures.produced.append(place.produce(scaled))
            figures.drained.append(place.drain(scaled))
            if contender in TIMED:
                figures.waits.append(place.latency(contender, int(300 * share) + 50))
    return book


def compute(place: Arena, contenders: Sequence[Contender], *, rounds: int, share: float) -> Book:
    """Handlers that compute for a millisecond: what a second process buys."""
    book: Book = {contender: Figures() for contender in contenders}
    for number in range(rounds):
        for contender, figures in book.items():
            _note(f"round {number + 1}/{rounds}: {contender.title}")
            scaled = contender.scaled(share)
            place.produce(Contender("filling", "raw", jobs=scaled.jobs))
            figures.drained.append(place.drain(scaled))
    return book


def backlog(place: Arena, *, rounds: int) -> Depths:
    """A big backlog worked off by us and by the raw loop, in turns: does a job cost more with many behind it?"""
    depths: Depths = {OURS: [], RAW: []}
    for number in range(rounds):
        for contender, seen in depths.items():
            _note(f"round {number + 1}/{rounds}: {contender.title}, a big backlog")
            place.produce(Contender("filling", "raw", jobs=MANY))
            seen.append(place.by_depth(contender))
    return depths


def _note(text: str) -> None:
    print(text, file=sys.stderr)
