"""A change of many things: confirmed, journaled, applied and reported page by page, the same for every verb."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chasqui_cli.changes.confirm import ChangePlan
    from chasqui_cli.changes.journal import JournalWriter
    from chasqui_cli.context.command_context import CommandContext

T = TypeVar("T")
PAGE_SIZE = 200
Item = dict[str, Any]
Outcome = dict[str, Any]
"""What became of a thing: `outcome`, a word, and what else is known of it."""


def _result(counts: Mapping[str, int]) -> Item:
    return {word.replace(" ", "_"): count for word, count in counts.items()}


@dataclass(frozen=True, slots=True)
class BatchChange(Generic[T]):
    """How things are changed.

    success_word: the outcome of those that were changed. apply: changes a page of them. journal_items: what is journaled
    of each first, so that it can be undone; None for those that cannot. facts: what else the journal records of the
    operation. result: what it records of the outcomes, by word. title: of the progress bar. dry_run_word: the outcome
    where nothing was done; by default `would` and the plan's verb.
    """

    success_word: str
    apply: Callable[[Sequence[T]], Sequence[Outcome]]
    journal_items: Callable[[Sequence[T]], Sequence[Item | None]] | None = None
    facts: Item | None = None
    result: Callable[[Counter[str]], Item] = _result
    title: str = ""
    dry_run_word: str = ""
    page_size: int = PAGE_SIZE


def apply_change(
    ctx: CommandContext, plan: ChangePlan, things: Sequence[T], change: BatchChange[T], *, now_ms: int | None = None
) -> list[Outcome]:
    """What became of each thing, or would: whatever interrupts it, what was changed is in the journal."""
    if not ctx.confirm(plan, now_ms=now_ms):
        return [{"outcome": change.dry_run_word or f"would {plan.verb}"} for _ in things]
    outcomes: list[Outcome] = []
    with (
        ctx.journal_operation(plan.queue) as journal,
        ctx.progress(change.title or f"{plan.verb} {plan.queue}", len(things)) as advance,
    ):
        journal.set_result(**(change.facts or {}))
        for start in range(0, len(things), change.page_size):
            outcomes += _apply_page(journal, things[start : start + change.page_size], change)
            advance(len(outcomes))
            counts = Counter(one["outcome"] for one in outcomes)
            journal.set_result(**change.result(counts))
            journal.done = counts[change.success_word]
    return outcomes


def _apply_page(journal: JournalWriter, page: Sequence[T], change: BatchChange[T]) -> Sequence[Outcome]:
    items = change.journal_items(page) if change.journal_items else [None] * len(page)
    number = journal.write_items([item for item in items if item is not None]) if change.journal_items else 0
    outcomes = change.apply(page)
    untouched: dict[int, Item] = {}
    for item, one in zip(items, outcomes, strict=True):
        if item is not None:
            if one["outcome"] != change.success_word:
                untouched[number] = {"untouched": one["outcome"]}
            number += 1
    journal.add_facts(untouched)
    return outcomes
