"""What a proof claims, next to what was measured: all of it is printed, and one claim that did not hold is a failure."""

from __future__ import annotations

import operator
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report import aligned

IS = {"=": operator.eq, "≥": operator.ge, "≤": operator.le, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Claim:
    name: str
    measured: str
    goal: str
    held: bool


@dataclass
class Claims:
    made: list[Claim] = field(default_factory=list)

    def that(self, name: str, measured: Any, how: str, goal: Any) -> None:
        """`that("read ÷ loop", 2.1, "≥", 2)`."""
        held = bool(IS[how](measured, goal))
        self.made.append(Claim(name, _number_text(measured), f"{how} {_number_text(goal)}", held))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of a proof: if it breaks, that is a claim that did not hold, and the next part has its turn."""
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - whatever it was, it is reported
            traceback.print_exc()
            self.made.append(Claim(name, type(fault).__name__, "runs to its end", False))


@contextmanager
def proof() -> Iterator[Claims]:
    """Claims are collected inside; at the end they are printed, and the process ends with 1 if any did not hold."""
    claims = Claims()
    with claims.part("the proof"):
        yield claims
    rows = [(one.name, one.measured, one.goal, "" if one.held else "missed") for one in claims.made]
    print("", *aligned(("claim", "measured", "goal", ""), rows), sep="\n")
    missed = [one.name for one in claims.made if not one.held]
    print(f"{len(rows) - len(missed)} of {len(rows)} claims held", flush=True)
    if missed or not rows:
        sys.exit(f"error: did not hold: {'; '.join(missed) or 'nothing was claimed'}")


def _number_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
