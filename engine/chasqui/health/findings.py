"""What a finding is, how bad it is, and what a queue is called that has some."""

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
        """As people read it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be: a sentence, the numbers behind it, and the command line that mends it.

    code: the same word for the same trouble, whatever its numbers; scripts may rely on it. queue: None for the server.
    """

    level: Level
    code: str
    text: str
    queue: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    fix: str | None = None


class WorkCounts(Protocol):
    """A queue of any kind, as far as its work goes."""

    @property
    def waiting(self) -> int:
        """What nobody has taken."""
        ...

    @property
    def pending(self) -> int | None:
        """What somebody has taken, if anybody knows."""
        ...


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue in a word and a glyph, for those who see no colours; `level` is 0 when nothing is the matter."""

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
"""Looks at one thing for one kind of trouble, within limits."""


def run_rules(rules: Iterable[Rule[S, L]], subject: S, limits: L) -> list[Finding]:
    """What all rules find, the worst first."""
    return sorted((finding for rule in rules for finding in rule(subject, limits)), key=lambda finding: -finding.level)


def level_of(limit: Threshold, value: int) -> Level | None:
    """Which line a number has crossed, if any."""
    if limit.crit is not None and value >= limit.crit:
        return Level.CRITICAL
    return Level.WARNING if limit.warn is not None and value >= limit.warn else None


def fill_percent(cap: int, length: int) -> int:
    """How full, in whole percent; rounded down, so that a hundred means full."""
    return 100 * length // cap if cap else 0


def chasqui_command(*words: str) -> str:
    """A command line of ours, as it can be pasted."""
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
