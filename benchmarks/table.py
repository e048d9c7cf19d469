"""The engine beside the released one and beside a raw loop: interleaved rounds on one server, medians, ratios first.

python -m benchmarks.table [--quick] [--rounds N] [--only WORD] [--markdown]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.arena import Arena, Contender, Cost, Waits, arena, middle
from tests import reference_engine

RAW = Contender("raw loop, 2 events a job", "raw")
RAW_SILENT = Contender("raw loop, no events", "raw", ("--no-events",), jobs=150_000)
OURS = Contender("chasqui", "chasqui")
OURS_SILENT = Contender("chasqui, events off", "chasqui", ("--no-events",), jobs=150_000)
OURS_PLAIN = Contender("chasqui, plain def handlers", "chasqui", ("--plain",))
OURS_TWICE = Contender("chasqui, two processes", "chasqui", processes=2, jobs=150_000)
WHEEL = Contender("chasquimq 1.3.0", "chasquimq", jobs=25_000)
WHEEL_SILENT = Contender("chasquimq 1.3.0, events off", "chasquimq", ("--no-events",), jobs=40_000)
WHEEL_TWICE = Contender("chasquimq 1.3.0, two processes", "chasquimq", processes=2, jobs=40_000)
CONTENDERS = (RAW, RAW_SILENT, OURS, OURS_SILENT, OURS_PLAIN, OURS_TWICE, WHEEL, WHEEL_SILENT, WHEEL_TWICE)
TIMED = (RAW, OURS, OURS_PLAIN, WHEEL)
COMPUTING = tuple(
    Contender(
        f"{name}, 1 ms handlers, {count}", library, ("--burn-ms", "1", "--every", "10"), number, jobs=3000
    )
    for name, library in (("chasqui", "chasqui"), ("chasquimq 1.3.0", "chasquimq"))
    for count, number in (("one process", 1), ("two processes", 2))
)
SHALLOW, DEEP, BITE = 10_000, 1_000_000, 10_000


@dataclass
class Figures:
    """Every measurement of one contender."""

    produced: list[Cost] = field(default_factory=list)
    drained: list[Cost] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)


@dataclass(frozen=True)
class Ratio:
    """One claim: what was measured against what was wanted. `at_most`: smaller is better."""

    claim: str
    value: float
    goal: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.goal if self.at_most else self.value >= self.goal


Book = dict[Contender, Figures]


def main() -> int:
    words = _words()
    share = 0.2 if words.quick else 1.0
    with arena(words.server) as place:
        book = compete(place, _chosen(words), rounds=words.rounds or (2 if words.quick else 7), share=share)
        computing = compute(place, _having_reference(COMPUTING), rounds=2 if words.quick else 3, share=share)
        depth = None if words.only else backlog(place, rounds=3 if words.quick else 7, share=share)
    show = _markdown if words.markdown else _aligned
    for line in _report(book, computing, depth, show):
        print(line)
    return 0


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the jobs and two rounds")
    parser.add_argument("--rounds", type=int, help="how often each contender runs (7)")
    parser.add_argument("--only", help="contenders whose title has this word, and no backlog measurement")
    parser.add_argument("--markdown", action="store_true", help="tables for a document")
    parser.add_argument("--server", default="redis-8.6", help="kind of server (redis-8.6)")
    return parser.parse_args()


def _chosen(words: argparse.Namespace) -> list[Contender]:
    return [one for one in _having_reference(CONTENDERS) if not words.only or words.only in one.title]


def _having_reference(contenders: Sequence[Contender]) -> list[Contender]:
    try:
        reference_engine.python()
    except reference_engine.NoReferenceError as missing:
        print(f"without the released engine: {missing}", file=sys.stderr)
        return [one for one in contenders if one.library != "chasquimq"]
    return list(contenders)


# --- measured ----------------------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Depth:
    """What a job costs with little and with much behind it, and the memory while the much is worked off."""

    shallow: Cost
    deep: Cost
    memory: Cost


def backlog(place: Arena, *, rounds: int, share: float) -> Depth:
    """A bite from a small queue and one from a big one, in turns; then the rest of the big one."""
    shallow, deep = [], []
    much = int(DEEP * share)
    for number in range(rounds):
        _note(f"round {number + 1}/{rounds}: backlogs")
        place.produce(Contender("filling", "raw", jobs=SHALLOW))
        shallow.append(place.drain(OURS))
        place.produce(Contender("filling", "raw", jobs=much))
        deep.append(place.bite(OURS, BITE))
    _note(f"draining {much} jobs")
    place.produce(Contender("filling", "raw", jobs=much))
    return Depth(middle(shallow), middle(deep), place.drain(OURS))


# --- shown -------------------------------------------------------------------------------------------------

Show = Callable[[Sequence[str], Sequence[Sequence[str]]], Iterator[str]]


HEADS = {
    "ratios": ("ratio", "measured", "goal", ""),
    "engines": ("engine", "produce/s", "drain/s", "client µs", "server µs", "p50 ms", "p99 ms", "peak MB"),
    "computing": ("handlers that compute", "drain/s", "client µs"),
    "backlog": ("backlog", "client µs", "server µs", "MB"),
}


def _report(book: Book, computing: Book, depth: Depth | None, show: Show) -> Iterator[str]:
    ratios = [*_ratios(book), *_ratios_of_computing(computing), *(_ratios_of_depth(depth) if depth else [])]
    yield from show(HEADS["ratios"], [_ratio_row(ratio) for ratio in ratios])
    yield ""
    yield from show(HEADS["engines"], [_row(contender, figures) for contender, figures in book.items()])
    yield ""
    yield from show(HEADS["computing"], [_computing_row(*item) for item in computing.items()])
    if depth:
        yield ""
        yield from show(HEADS["backlog"], list(_depth_rows(depth)))


def _ratios(book: Book) -> Iterator[Ratio]:
    if OURS not in book:
        return
    ours = middle(book[OURS].drained)
    if WHEEL in book:
        wheel = middle(book[WHEEL].drained)
        yield Ratio("produce ÷ chasquimq", _produced(book, OURS) / _produced(book, WHEEL), 3.5)
        yield Ratio("drain ÷ chasquimq", ours.rate / wheel.rate, 9)
        yield Ratio("client CPU a job: chasquimq ÷ ours", wheel.client_us / ours.client_us, 12)
        yield Ratio("server CPU a job: chasquimq ÷ ours", wheel.server_us / ours.server_us, 1)
        yield Ratio("idle p50 ÷ chasquimq", _p50(book, OURS) / _p50(book, WHEEL), 1, at_most=True)
        yield Ratio("idle p99 ÷ chasquimq", _p99(book, OURS) / _p99(book, WHEEL), 1, at_most=True)
    if OURS_SILENT in book and WHEEL_SILENT in book:
        silent, theirs = middle(book[OURS_SILENT].drained), middle(book[WHEEL_SILENT].drained)
        yield Ratio("drain ÷ chasquimq, both without events", silent.rate / theirs.rate, 5)
    if RAW in book:
        yield Ratio("drain ÷ raw loop", ours.rate / middle(book[RAW].drained).rate, 1)
    yield Ratio("worker MB", ours.peak_mb, 60, at_most=True)


def _ratios_of_computing(book: Book) -> Iterator[Ratio]:
    one, two = (middle(figures.drained).rate for who, figures in book.items() if who.library == "chasqui")
    yield Ratio("two processes ÷ one, 1 ms handlers", two / one, 1.7)


def _ratios_of_depth(depth: Depth) -> Iterator[Ratio]:
    yield Ratio(
        "client CPU a job, 1 M waiting ÷ 10 k",
        depth.deep.client_us / depth.shallow.client_us,
        1.1,
        at_most=True,
    )
    yield Ratio(
        "server CPU a job, 1 M waiting ÷ 10 k",
        depth.deep.server_us / depth.shallow.server_us,
        1.1,
        at_most=True,
    )
    yield Ratio("worker MB over a 1 M drain", depth.memory.peak_mb, 60, at_most=True)


def _ratio_row(ratio: Ratio) -> tuple[str, ...]:
    goal = f"{'≤' if ratio.at_most else '≥'} {ratio.goal:g}"
    return ratio.claim, f"{ratio.value:.2f}", goal, "" if ratio.met else "missed"


def _row(contender: Contender, figures: Figures) -> tuple[str, ...]:
    drained = middle(figures.drained)
    waits = (f"{_p50_of(figures):.2f}", f"{_p99_of(figures):.1f}") if figures.waits else ("", "")
    return (
        contender.title,
        f"{middle(figures.produced).rate / 1000:.0f} k",
        f"{drained.rate / 1000:.1f} k",
        f"{drained.client_us:.1f}",
        f"{drained.server_us:.1f}",
        *waits,
        f"{drained.peak_mb:.0f}",
    )


def _computing_row(contender: Contender, figures: Figures) -> tuple[str, ...]:
    drained = middle(figures.drained)
    return contender.title, f"{drained.rate:.0f}", f"{drained.client_us:.0f}"


def _depth_rows(depth: Depth) -> Iterator[tuple[str, ...]]:
    for title, cost in (("10 k waiting", depth.shallow), ("1 M waiting", depth.deep)):
        yield title, f"{cost.client_us:.1f}", f"{cost.server_us:.1f}", f"{cost.peak_mb:.0f}"
    memory = depth.memory.memory_mb
    title = f"1 M worked off: from {memory[0]:.0f} MB to {memory[-1]:.0f} MB"
    yield (
        title,
        f"{depth.memory.client_us:.1f}",
        f"{depth.memory.server_us:.1f}",
        f"{depth.memory.peak_mb:.0f}",
    )


def _produced(book: Book, contender: Contender) -> float:
    return middle(book[contender].produced).rate


def _p50(book: Book, contender: Contender) -> float:
    return _p50_of(book[contender])


def _p99(book: Book, contender: Contender) -> float:
    return _p99_of(book[contender])


def _p50_of(figures: Figures) -> float:
    return _median([waits.p50_ms for waits in figures.waits])


def _p99_of(figures: Figures) -> float:
    return _median([waits.p99_ms for waits in figures.waits])


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'--:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _note(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
