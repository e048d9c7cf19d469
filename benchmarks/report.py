"""What the figures show: ratios first, each next to its goal, then every contender's medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.arena import Contender, middle
from benchmarks.rounds import OURS, OURS_SILENT, RAW, WHEEL, WHEEL_SILENT, Book, Depths, Figures

Show = Callable[[Sequence[str], Sequence[Sequence[str]]], Iterator[str]]

STRETCHES = {
    "deep": "990 k to 890 k waiting",
    "shallow": "110 k to 10 k waiting",
    "whole": "1 M worked off",
}
HEADS = {
    "ratios": ("ratio", "measured", "goal", ""),
    "engines": ("engine", "produce/s", "drain/s", "client µs", "server µs", "p50 ms", "p99 ms", "peak MB"),
    "computing": ("handlers that compute", "drain/s", "client µs"),
    "backlog": ("backlog", "client µs", "server µs", "MB"),
}


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


def report(book: Book, computing: Book, depths: Depths | None, show: Show) -> Iterator[str]:
    ratios = [*_ratios(book), *_ratios_of_computing(computing), *(_ratios_of_depth(depths) if depths else [])]
    yield from show(HEADS["ratios"], [_ratio_row(ratio) for ratio in ratios])
    yield ""
    yield from show(HEADS["engines"], [_row(contender, figures) for contender, figures in book.items()])
    yield ""
    yield from show(HEADS["computing"], [_computing_row(*item) for item in computing.items()])
    if depths:
        yield ""
        yield from show(HEADS["backlog"], list(_depth_rows(depths)))
    missed = [ratio.claim for ratio in ratios if not ratio.met]
    yield ""
    yield f"{len(ratios) - len(missed)} of {len(ratios)} goals held{'; missed: ' if missed else ''}{'; '.join(missed)}"


def _ratios(book: Book) -> Iterator[Ratio]:
    if OURS not in book:
        return
    if WHEEL in book:
        yield Ratio("produce ÷ chasquimq", _paired(book, OURS, WHEEL, _produced), 3)
        yield Ratio("drain ÷ chasquimq", _paired(book, OURS, WHEEL, _drained), 6)
        yield Ratio("client CPU a job: chasquimq ÷ ours", _paired(book, WHEEL, OURS, _client), 9)
        yield Ratio("server CPU a job: chasquimq ÷ ours", _paired(book, WHEEL, OURS, _server), 1)
        yield Ratio("idle p50 ÷ chasquimq", _paired(book, OURS, WHEEL, _p50), 1, at_most=True)
        yield Ratio("idle p99 ÷ chasquimq", _paired(book, OURS, WHEEL, _p99), 1, at_most=True)
    if OURS_SILENT in book and WHEEL_SILENT in book:
        ratio = _paired(book, OURS_SILENT, WHEEL_SILENT, _drained)
        yield Ratio("drain ÷ chasquimq, both without events", ratio, 5)
    if RAW in book:
        yield Ratio("drain ÷ raw loop", _paired(book, OURS, RAW, _drained), 0.9)
    yield Ratio("worker MB", middle(book[OURS].drained).peak_mb, 60, at_most=True)


Look = Callable[[Figures], list[float]]


def _paired(book: Book, one: Contender, other: Contender, look: Look) -> float:
    """The median of the rounds' ratios: what disturbed a round disturbed both."""
    pairs = zip(look(book[one]), look(book[other]), strict=True)
    return statistics.median(mine / theirs for mine, theirs in pairs)


def _produced(figures: Figures) -> list[float]:
    return [cost.rate for cost in figures.produced]


def _drained(figures: Figures) -> list[float]:
    return [cost.rate for cost in figures.drained]


def _client(figures: Figures) -> list[float]:
    return [cost.client_us for cost in figures.drained]


def _server(figures: Figures) -> list[float]:
    return [cost.server_us for cost in figures.drained]


def _p50(figures: Figures) -> list[float]:
    return [waits.p50_ms for waits in figures.waits]


def _p99(figures: Figures) -> list[float]:
    return [waits.p99_ms for waits in figures.waits]


def _ratios_of_computing(book: Book) -> Iterator[Ratio]:
    one, two = (contender for contender in book if contender.library == "chasqui")
    yield Ratio("two processes ÷ one, 1 ms handlers", _paired(book, two, one, _drained), 1.7)


def _ratios_of_depth(depths: Depths) -> Iterator[Ratio]:
    ours = depths[OURS]
    client = statistics.median(one.deep.client_us / one.shallow.client_us for one in ours)
    server = statistics.median(one.deep.server_us / one.shallow.server_us for one in ours)
    yield Ratio("client CPU a job, 1 M waiting ÷ 10 k", client, 1.1, at_most=True)
    yield Ratio("server CPU a job, 1 M waiting ÷ 10 k", server, 1.1, at_most=True)
    yield Ratio("worker MB over a 1 M drain", max(one.whole.peak_mb for one in ours), 60, at_most=True)
    growth = statistics.median(one.whole.memory_mb[-1] / one.whole.memory_mb[1] for one in ours)
    yield Ratio("worker MB at the end of it ÷ at its start", growth, 1.1, at_most=True)


def _ratio_row(ratio: Ratio) -> tuple[str, ...]:
    goal = f"{'≤' if ratio.at_most else '≥'} {ratio.goal:g}"
    return ratio.claim, f"{ratio.value:.2f}", goal, "" if ratio.met else "missed"


def _row(contender: Contender, figures: Figures) -> tuple[str, ...]:
    drained = middle(figures.drained)
    waits = [f"{statistics.median(look(figures)):.2f}" if figures.waits else "" for look in (_p50, _p99)]
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


def _depth_rows(depths: Depths) -> Iterator[tuple[str, ...]]:
    for contender, seen in depths.items():
        for stretch in ("deep", "shallow", "whole"):
            cost = middle([getattr(one, stretch) for one in seen])
            title = f"{contender.title}: {STRETCHES[stretch]}"
            yield title, f"{cost.client_us:.1f}", f"{cost.server_us:.1f}", f"{cost.peak_mb:.0f}"


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'--:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
