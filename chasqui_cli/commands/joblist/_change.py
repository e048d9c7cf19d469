"""`chasqui joblist enqueue`, `retry`, `cancel`, `move`, `purge` and `reclaim`: shown first, written down next, done then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.joblist._options import (
    ListName,
    require_queue,
)
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import JobChanges
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

CHANGE_SCHEMA: dict[str, Any] = {"id": "str", "list": "str", "outcome": "str", "why": "str?"}
COLUMNS = [column("id"), column("list"), column("outcome"), column("why")]
MAX_IDS = 100_000


@dataclass(frozen=True, slots=True)
class JobChange:
    """One way to change jobs of a list: its words, what follows, how it is done, and whether it can be undone."""

    verb: str
    success_word: str
    list_name: ListName
    effect: str
    apply: Callable[[Session, Sequence[str]], JobChanges]
    deletes: bool = False
    target: JobListKeys | None = None


def change_jobs(
    ctx: CommandContext, keys: JobListKeys, ids: Sequence[str] | None, way: JobChange, *, every: bool
) -> None:
    """Find what is meant, show it, change it if that is agreed to, and tell what came of each."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import check_same_slot, joblist

    if not ids and not every:
        raise ArgumentError(f"that would be every {way.list_name} job", hint="name ids, or say --all")
    with ctx.session() as session:
        check_same_slot(session.link, keys, *([way.target] if way.target else []))
        require_queue(session, keys)
        found = ids or session.link.run(joblist.list_ids(keys, way.list_name, limit=MAX_IDS))
        if not ids and len(found) == MAX_IDS:
            ctx.info(f"looked at {MAX_IDS:,} ids and no further; repeat it for the rest")
        chosen = list(dict.fromkeys(found))
        rows: list[Record] = [{"id": one, "list": way.list_name} for one in chosen]
        by = "ids" if ids else ""
        plan = ChangePlan(way.verb, keys.queue, f"{way.list_name} jobs", rows, COLUMNS[:1], by, [way.effect])
        told = apply_change(ctx, plan, chosen, _batch_change(session, keys, way))
    rows = [row | one | {"why": _OUTCOME_REASONS.get(one["outcome"])} for row, one in zip(rows, told, strict=True)]
    ctx.write_records(rows, COLUMNS)
    if any(one["outcome"] in _OUTCOME_REASONS for one in told):
        raise typer.Exit(3)


def _batch_change(session: Session, keys: JobListKeys, way: JobChange) -> BatchChange[str]:
    from chasqui.foreign import joblist

    def act(some: Sequence[str]) -> list[Record]:
        told = way.apply(session, some)
        words = dict.fromkeys(told.done, way.success_word) | dict.fromkeys(told.missing, "missing")
        words |= dict.fromkeys(told.expired, "expired") | dict.fromkeys(told.there, "there already")
        return [{"outcome": words[one]} for one in some]

    def keep(some: Sequence[str]) -> list[dict[str, Any]]:
        return session.link.run(joblist.journal_items(keys, way.list_name, some))

    return BatchChange(way.success_word, act, keep if way.deletes else None)


_OUTCOME_REASONS = {
    "missing": "it is not in that list, or not any more",
    "expired": "its hash is gone: there is nothing to run",
    "there already": "the other queue has a job of this id",
}
