"""Findings, their levels, and the status of a queue that has some."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.health.thresholds import Threshold

S = TypeVar("S")
L = TypeVar("L")


class Level(IntEnum):
    """How bad, in rising order. A note is worth knowing and nothing to act upon."""

    NOTE = 1
    WARNING = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        """In lower case."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem: a sentence, the numbers behind it, and the command line that fixes it.

    code: one word per kind of problem; scripts may rely on it. queue: None for the server.
    """

    level: Level
    code: str
    text: str
    queue: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    fix: str | None = None


class WorkCounts(Protocol):
    """The jobs of a queue of any kind."""

    @property
    def waiting(self) -> int:
        """How many no worker has read."""
        ...

    @property
    def pending(self) -> int | None:
        """How many a worker has read and not finished, if that is known."""
        ...


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue in a word and a glyph, readable without colours; `level` is 0 when nothing is wrong."""

    word: str
    glyph: str
    level: int = 0


def queue_status(snapshot: WorkCounts, findings: Sequence[Finding]) -> QueueStatus:
    """The word for a queue: the worst finding from a warning upwards, otherwise whether it has work."""
    level = worst_level(findings)
    if level == Level.CRITICAL:
        return QueueStatus("critical", "▲", level)
    if level == Level.WARNING:
        return QueueStatus("warning", "◆", level)
    return QueueStatus("working", "●") if snapshot.waiting or snapshot.pending else QueueStatus("idle", "○")


def worst_level(findings: Iterable[Finding]) -> int:
    """The level of the worst, 0 for none."""
    return max((finding.level for finding in findings), default=0)


Rule = Callable[[S, L], Iterable[Finding]]
"""Checks one subject for one kind of problem."""


def run_rules(rules: Iterable[Rule[S, L]], subject: S, limits: L) -> list[Finding]:
    """What all rules find, the worst first."""
    return sorted((finding for rule in rules for finding in rule(subject, limits)), key=lambda finding: -finding.level)


def level_of(limit: Threshold, value: int) -> Level | None:
    """Which threshold a number has reached, if any."""
    if limit.crit is not None and value >= limit.crit:
        return Level.CRITICAL
    return Level.WARNING if limit.warn is not None and value >= limit.warn else None


def fill_percent(cap: int, length: int) -> int:
    """In whole percent, rounded down, so that 100 means full."""
    return 100 * length // cap if cap else 0


def chasqui_command(*words: str) -> str:
    """A command line that can be pasted."""
    return shlex.join(["chasqui", *words])


def count_text(count: int, one: str, many: str | None = None) -> str:
    """A count and its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration_text(ms: int) -> str:
    """How long, in its largest unit."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{ms} ms"
