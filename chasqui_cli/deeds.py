"""A change of many things, done as every change is: shown first, agreed to, written down, done page by page, told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui_cli.changes import Plan
    from chasqui_cli.desk import Desk
    from chasqui_cli.journal import Pen

T = TypeVar("T")
AT_ONCE = 200
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deed(Generic[T]):
    """How things are changed.

    path: the verb, as the journal has it. done: the word for those it was done to. act: does it to a page of them, and
    answers a word for each. keep: what is written down of each before, so that it can be undone; None of those that
    cannot. facts: what else the journal shall tell.
    """

    path: str
    done: str
    act: Callable[[Sequence[T]], Sequence[str]]
    keep: Callable[[Sequence[T]], Sequence[Item | None]] | None = None
    facts: Item | None = None


def carry_out(
    desk: Desk, plan: Plan, things: Sequence[T], deed: Deed[T], *, now_ms: int | None = None
) -> list[str]:
    """What became of each thing, or would: whatever interrupts it, what was changed is in the journal."""
    if not desk.agrees(plan, now_ms=now_ms):
        return [f"would {plan.verb}"] * len(things)
    told: list[str] = []
    with (
        desk.written_down(deed.path, plan.queue) as pen,
        desk.progress(f"{plan.verb} {plan.queue}", len(things)) as advance,
    ):
        pen.tell(**(deed.facts or {}))
        for start in range(0, len(things), AT_ONCE):
            told += _page(pen, things[start : start + AT_ONCE], deed)
            advance(len(told))
            pen.tell(**Counter(word.replace(" ", "_") for word in told))
    return told


def _page(pen: Pen, some: Sequence[T], deed: Deed[T]) -> Sequence[str]:
    kept = deed.keep(some) if deed.keep else [None] * len(some)
    number = pen.keep([item for item in kept if item is not None]) if deed.keep else 0
    answers = deed.act(some)
    untouched: dict[int, Item] = {}
    for item, answer in zip(kept, answers, strict=True):
        if item is not None:
            if answer != deed.done:
                untouched[number] = {"untouched": answer}
            number += 1
    pen.learn(untouched)
    return answers
