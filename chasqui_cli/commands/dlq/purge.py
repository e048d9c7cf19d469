"""`chasqui dlq purge`: dead letters away, their bytes into the journal first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.dlq._record import (
    OUTCOME_COLUMNS,
    OUTCOME_SCHEMA,
    PREVIEW_COLUMNS,
    DeadLetterIdsArgument,
    QueueName,
)
from chasqui_cli.commands.dlq._search import require_found, select_dead_letters
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui import Keys
    from chasqui_cli.changes.apply import Item, Outcome
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record


@command(
    "dlq purge",
    schema=OUTCOME_SCHEMA,
    chooses=True,
    by_reason=True,
    changes=True,
    undoable=True,
    failed=("gone", "not found"),
)
def purge(
    ctx: CommandContext,
    queue: QueueName,
    ids: DeadLetterIdsArgument = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Purge so many at most, oldest first.")] = None,
) -> None:
    """Delete dead letters; each is written to the journal first, whole, so `chasqui undo` brings it back.

    Without ids and filters it is about all of them, as far as --scan reaches.
    """
    from chasqui import Keys

    keys = Keys(queue)
    with ctx.session() as session:
        now_ms = session.server_now_ms()
        caught = select_dead_letters(ctx, session, keys, ids, now_ms=now_ms, limit=limit, jobs_only=False)
        require_found(caught, ids, queue)
        chosen = "ids" if ids else str(ctx.filters) or "nothing: all of them"
        plan = ChangePlan(
            "purge",
            queue,
            "dead letters",
            caught.records,
            PREVIEW_COLUMNS,
            chosen_by=chosen,
            effects=["their jobs never ran to an end, and will not; `chasqui undo` brings the letters back"],
        )
        outcomes = apply_change(ctx, plan, caught.records, _purge(session, keys, caught.chunk_size), now_ms=now_ms)
    purged = [record | one for record, one in zip(caught.records, outcomes, strict=True)]
    blank: Record = {"id": None, "name": "", "reason": "", "outcome": "not found"}
    ctx.write_outcomes([*purged, *({"dlq_id": one} | blank for one in caught.missing)], OUTCOME_COLUMNS)


def _purge(session: Session, keys: Keys, page_size: int) -> BatchChange[Record]:
    from chasqui.operate import dead_letters
    from chasqui.undo import deleted_dead_letters

    def journal_items(some: Sequence[Record]) -> list[Item | None]:
        letters = session.run(dead_letters.dead_letters_by_id, keys, [record["dlq_id"] for record in some])
        return [deleted_dead_letters.item(one.dead_id, one.fields) if one else None for one in letters]

    def apply(some: Sequence[Record]) -> list[Outcome]:
        deleted = session.run(dead_letters.delete_dead_letters, keys, [record["dlq_id"] for record in some])
        return [{"outcome": "purged" if done else "gone"} for done in deleted]

    return BatchChange(
        "purged",
        apply,
        journal_items,
        result=lambda counts: {"purged": counts["purged"], "gone": counts["gone"]},
        title="purging",
        page_size=page_size,
    )
