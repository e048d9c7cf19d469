"""How far a doctor looked, beside what it found: queues may be larger than one wants to go through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Coverage:
    """A place, and how much of it was looked at."""

    part: str
    scanned: int
    total: int


@dataclass(frozen=True, slots=True)
class DoctorResult(Generic[F]):
    """What is wrong with a queue, as far as it was looked at."""

    findings: list[F]
    places: tuple[Coverage, ...] = ()
