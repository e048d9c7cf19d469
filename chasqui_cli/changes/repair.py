"""The doctors of other systems' queues, as verbs: what was found, row by row, and its repair where that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.apply import BatchChange, Item, apply_change
from chasqui_cli.changes.confirm import ChangePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Column, Record

RepairOption = Annotated[bool, typer.Option("--repair", help="Put right what can be.")]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", metavar="AILMENT", help="Repair this alone; may be repeated.")
]
FoundProblem = tuple[Any, Any]
"""The keys of a queue, and something that is wrong with it."""


@dataclass(frozen=True, slots=True)
class DoctorCommand:
    """What one system's doctor knows.

    repairable: those of its ailments that a repair puts right. examine: what is wrong with a queue. repair: puts right
    what was found in one queue, and answers for each whether it did. effect: what a repair does, in a sentence. keep:
    what is written down of each finding, so that nothing is lost.
    """

    system: str
    problems: frozenset[Any]
    repairable: frozenset[Any]
    columns: Sequence[Column]
    row: Callable[[Any, Any], Record]
    examine: Callable[[Any], Sequence[Any]]
    repair: Callable[[Any, Sequence[Any]], Sequence[bool]]
    effect: str
    journal_items: Callable[[Sequence[FoundProblem]], Sequence[Item | None]] | None = None

    def check_problem_names(self, only: Sequence[str] | None) -> None:
        """That all of these are ailments."""
        from chasqui.errors import ArgumentError

        known = {str(one) for one in self.problems}
        if unknown := set(only or ()) - known:
            told = f"no such ailment: {', '.join(sorted(unknown))}"
            raise ArgumentError(told, hint=", ".join(sorted(known)))


def examine_and_repair(
    ctx: CommandContext,
    doctor: DoctorCommand,
    places: Sequence[Any],
    only: Sequence[str] | None,
    *,
    repair: bool,
) -> None:
    """Examine these queues, put right what may be, and tell of each finding what became of it."""
    found: list[FoundProblem] = []
    with ctx.progress("examining", len(places)) as advance:
        for number, keys in enumerate(places, 1):
            found += [(keys, one) for one in doctor.examine(keys)]
            advance(number)
    rows = [doctor.row(keys, one) | {"outcome": "found"} for keys, one in found]
    if repair:
        _repair(ctx, doctor, found, rows, only)
    ctx.info(f"examined {len(places):,} queues: {f'{len(rows):,} findings' if rows else 'nothing found'}")
    ctx.write_records(rows, doctor.columns)


def _repair(
    ctx: CommandContext,
    doctor: DoctorCommand,
    found: Sequence[FoundProblem],
    rows: list[Record],
    only: Sequence[str] | None,
) -> None:
    meant = {str(one) for one in doctor.repairable if not only or str(one) in only}
    chosen = [at for at, (_, one) in enumerate(found) if str(one.problem) in meant]
    names = sorted({found[at][0].queue for at in chosen})
    queue = names[0] if len(names) == 1 else f"{len(names)} queues"
    told = [rows[at] for at in chosen]
    plan = ChangePlan("repair", queue, "findings", told, doctor.columns[:4], effects=[doctor.effect])
    facts = {"found": [{name: row[name] for name in row if name not in ("advice", "outcome")} for row in told]}
    deed = BatchChange(
        f"{doctor.system} doctor",
        "repaired",
        lambda some: _repair_page(doctor, some),
        doctor.journal_items,
        facts,
    )
    outcomes = apply_change(ctx, plan, [found[at] for at in chosen], deed)
    for row, outcome in zip(told, outcomes, strict=True):
        row["outcome"] = outcome


def _repair_page(doctor: DoctorCommand, some: Sequence[FoundProblem]) -> list[str]:
    """Queue by queue, in the order they were found."""
    words: list[str] = []
    for keys in dict.fromkeys(keys for keys, _ in some):
        mended = doctor.repair(keys, [one for place, one in some if place == keys])
        words += ["repaired" if done else "gone" for done in mended]
    return words
