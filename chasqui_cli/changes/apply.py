"""A change of many things, done as every change is: shown first, agreed to, written down, done page by page, told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui_cli.changes.confirm import ChangePlan
    from chasqui_cli.changes.journal import JournalWriter
    from chasqui_cli.context.command_context import CommandContext

T = TypeVar("T")
PAGE_SIZE = 200
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchChange(Generic[T]):
    """How things are changed.

    path: the verb, as the journal has it. done: the word for those it was done to. act: does it to a page of them, and
    answers a word for each. keep: what is written down of each before, so that it can be undone; None of those that
    cannot. facts: what else the journal shall tell.
    """

    command: str
    success_word: str
    apply: Callable[[Sequence[T]], Sequence[str]]
    journal_items: Callable[[Sequence[T]], Sequence[Item | None]] | None = None
    facts: Item | None = None


def apply_change(
    ctx: CommandContext,
    plan: ChangePlan,
    things: Sequence[T],
    deed: BatchChange[T],
    *,
    now_ms: int | None = None,
) -> list[str]:
    """What became of each thing, or would: whatever interrupts it, what was changed is in the journal."""
    if not ctx.confirm(plan, now_ms=now_ms):
        return [f"would {plan.verb}"] * len(things)
    told: list[str] = []
    with (
        ctx.journal_operation(deed.command, plan.queue) as pen,
        ctx.progress(f"{plan.verb} {plan.queue}", len(things)) as advance,
    ):
        pen.set_result(**(deed.facts or {}))
        for start in range(0, len(things), PAGE_SIZE):
            told += _apply_page(pen, things[start : start + PAGE_SIZE], deed)
            advance(len(told))
            pen.set_result(**Counter(word.replace(" ", "_") for word in told))
            pen.done = told.count(deed.success_word)
    return told


def _apply_page(pen: JournalWriter, some: Sequence[T], deed: BatchChange[T]) -> Sequence[str]:
    kept = deed.journal_items(some) if deed.journal_items else [None] * len(some)
    number = pen.write_items([item for item in kept if item is not None]) if deed.journal_items else 0
    answers = deed.apply(some)
    untouched: dict[int, Item] = {}
    for item, answer in zip(kept, answers, strict=True):
        if item is not None:
            if answer != deed.success_word:
                untouched[number] = {"untouched": answer}
            number += 1
    pen.add_facts(untouched)
    return answers
