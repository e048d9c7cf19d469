"""Changing the jobs of a list, for all verbs that do: shown and confirmed, journaled if undoable, then applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.joblist._options import ListName, require_queue
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from chasqui import Flow
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import JobChanges
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

CHANGE_SCHEMA: dict[str, Any] = {"id": "str", "list": "str", "outcome": "str", "why": "str?"}
COLUMNS = [column("id"), column("list"), column("outcome"), column("why")]
MAX_IDS = 100_000
_OUTCOME_REASONS = {
    "missing": "it is not in that list, or not any more",
    "expired": "its hash is gone: there is nothing to run",
    "there already": "the other queue has a job of this id",
}

change_command = partial(command, schema=CHANGE_SCHEMA, changes=True, failed=tuple(_OUTCOME_REASONS))
"""Declares a verb that changes jobs."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """One way to change the jobs of a list.

    success_word: the outcome of those that were changed. effect: the consequences, as the preview shows them.
    apply: the flow that changes jobs. deletes: whether they are journaled first, for an undo.
    """

    verb: str
    success_word: str
    list_name: ListName
    effect: str
    apply: Callable[[Sequence[str]], Flow[JobChanges]]
    deletes: bool = False
    target: JobListKeys | None = None


def change_jobs(
    ctx: CommandContext, keys: JobListKeys, ids: Sequence[str] | None, change: JobChange, *, every: bool
) -> None:
    """Find the selected jobs, show them, change them if that is confirmed, and write the outcome of each."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import check_same_slot, joblist

    if not ids and not every:
        raise ArgumentError(f"that would be every {change.list_name} job", hint="name ids, or say --all")
    with ctx.session() as session:
        check_same_slot(session.link, keys, *([change.target] if change.target else []))
        require_queue(session, keys)
        found = ids or session.link.run(joblist.list_ids(keys, change.list_name, limit=MAX_IDS))
        if not ids and len(found) == MAX_IDS:
            ctx.info(f"looked at {MAX_IDS:,} ids and no further; repeat it for the rest")
        chosen = list(dict.fromkeys(found))
        rows: list[Record] = [{"id": one, "list": change.list_name} for one in chosen]
        by = "ids" if ids else ""
        plan = ChangePlan(change.verb, keys.queue, f"{change.list_name} jobs", rows, COLUMNS[:1], by, [change.effect])
        outcomes = apply_change(ctx, plan, chosen, _batch_change(session, keys, change))
    rows = [row | one | {"why": _OUTCOME_REASONS.get(one["outcome"])} for row, one in zip(rows, outcomes, strict=True)]
    ctx.write_outcomes(rows, COLUMNS)


def _batch_change(session: Session, keys: JobListKeys, change: JobChange) -> BatchChange[str]:
    from chasqui.foreign import joblist

    def apply(page: Sequence[str]) -> list[Record]:
        changes = session.link.run(change.apply(page))
        words = dict.fromkeys(changes.done, change.success_word) | dict.fromkeys(changes.missing, "missing")
        words |= dict.fromkeys(changes.expired, "expired") | dict.fromkeys(changes.there, "there already")
        return [{"outcome": words[one]} for one in page]

    def journal_items(page: Sequence[str]) -> list[dict[str, Any]]:
        return session.link.run(joblist.journal_items(keys, change.list_name, page))

    return BatchChange(change.success_word, apply, journal_items if change.deletes else None)
