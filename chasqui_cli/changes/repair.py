"""The doctors of other systems' queues, as verbs: what was found, row by row, and its repair where that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from chasqui_cli.changes.apply import BatchChange, Item, Outcome, apply_change
from chasqui_cli.changes.confirm import ChangePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from enum import StrEnum

    from chasqui.foreign import Doctor, DoctorFinding
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Column, Record

RepairOption = Annotated[bool, typer.Option("--repair", help="Put right what can be.")]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", metavar="AILMENT", help="Repair this alone; may be repeated.")
]
FoundProblem: TypeAlias = "tuple[Any, DoctorFinding]"
"""The keys of a queue, and something that is wrong with it."""


@dataclass(frozen=True, slots=True)
class DoctorCommand:
    """The doctor of one system as a verb.

    problems: all that it knows. doctor: examines and repairs one queue. row: a finding as a record. effect: what a
    repair does, in a sentence. journal_items: what the journal stores of each finding, so that nothing is lost.
    """

    problems: type[StrEnum]
    doctor: Callable[[Any], Doctor]
    columns: Sequence[Column]
    row: Callable[[Any, DoctorFinding], Record]
    effect: str
    journal_items: Callable[[Sequence[FoundProblem]], Sequence[Item | None]] | None = None

    def check_problem_names(self, only: Sequence[str] | None) -> None:
        """Raise `ArgumentError` for an unknown problem."""
        from chasqui.errors import ArgumentError

        known = {str(one) for one in self.problems}
        if unknown := set(only or ()) - known:
            problem = f"no such ailment: {', '.join(sorted(unknown))}"
            raise ArgumentError(problem, hint=", ".join(sorted(known)))


def examine_and_repair(
    ctx: CommandContext,
    session: Session,
    doctor: DoctorCommand,
    places: Sequence[Any],
    only: Sequence[str] | None,
    *,
    repair: bool,
) -> None:
    """Examine these queues, repair what can be, and report the outcome of each finding."""
    found: list[FoundProblem] = []
    with ctx.progress("examining", len(places)) as advance:
        for number, keys in enumerate(places, 1):
            found += [(keys, one) for one in session.link.run(doctor.doctor(keys).examine()).findings]
            advance(number)
    rows = [doctor.row(keys, one) | {"outcome": "found"} for keys, one in found]
    if repair:
        _repair(ctx, session, doctor, found, rows, only)
    ctx.info(f"examined {len(places):,} queues: {f'{len(rows):,} findings' if rows else 'nothing found'}")
    ctx.write_records(rows, doctor.columns)


def _repair(
    ctx: CommandContext,
    session: Session,
    doctor: DoctorCommand,
    found: Sequence[FoundProblem],
    rows: list[Record],
    only: Sequence[str] | None,
) -> None:
    chosen = [
        at
        for at, (keys, one) in enumerate(found)
        if one.problem in doctor.doctor(keys).repairable and (not only or one.problem in only)
    ]
    names = sorted({found[at][0].queue for at in chosen})
    queue = names[0] if len(names) == 1 else f"{len(names)} queues"
    chosen_rows = [rows[at] for at in chosen]
    plan = ChangePlan("repair", queue, "findings", chosen_rows, doctor.columns[:4], effects=[doctor.effect])
    facts = {"found": [{name: row[name] for name in row if name not in ("advice", "outcome")} for row in chosen_rows]}
    change = BatchChange("repaired", lambda some: _repair_page(session, doctor, some), doctor.journal_items, facts)
    outcomes = apply_change(ctx, plan, [found[at] for at in chosen], change)
    for row, outcome in zip(chosen_rows, outcomes, strict=True):
        row |= outcome


def _repair_page(session: Session, doctor: DoctorCommand, some: Sequence[FoundProblem]) -> list[Outcome]:
    """Queue by queue, in the order they were found."""
    from chasqui.foreign import repair_each

    outcomes: list[Outcome] = []
    for keys in dict.fromkeys(keys for keys, _ in some):
        repaired = session.link.run(repair_each(doctor.doctor(keys), [one for place, one in some if place == keys]))
        outcomes += [{"outcome": "repaired" if done else "gone"} for done in repaired]
    return outcomes
