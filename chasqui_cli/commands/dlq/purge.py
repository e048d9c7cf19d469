"""`chasqui dlq purge`: dead letters away, their bytes into the journal first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.dlq._record import (
    OUTCOME_COLUMNS,
    OUTCOME_SCHEMA,
    PREVIEW_COLUMNS,
    DeadLetterIdsArgument,
    QueueName,
    chunked,
)
from chasqui_cli.commands.dlq._search import DeadLetterSelection, require_found, select_dead_letters
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record


@command("dlq purge", schema=OUTCOME_SCHEMA, chooses=True, by_reason=True, changes=True)
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
        if ctx.confirm(plan, now_ms=now_ms):
            told = _purge(ctx, session, keys, caught)
        else:
            told = [record | {"outcome": "would purge"} for record in caught.records]
    blank = {"id": None, "name": "", "reason": "", "outcome": "not found"}
    told += [{"dlq_id": one} | blank for one in caught.missing]
    ctx.write_records(told, OUTCOME_COLUMNS)
    if any(one["outcome"] in ("gone", "not found") for one in told):
        raise typer.Exit(3)


def _purge(ctx: CommandContext, session: Session, keys: Keys, caught: DeadLetterSelection) -> list[Record]:
    from chasqui.operate import dead_letters
    from chasqui.undo import deleted_dead_letters

    told: list[Record] = []
    with (
        ctx.journal_operation("dlq purge", keys.queue) as pen,
        ctx.progress("purging", len(caught.records)) as advance,
    ):
        for some in chunked(caught.records, caught.chunk_size):
            letters = session.run(dead_letters.dead_letters_by_id, keys, [record["dlq_id"] for record in some])
            there = [letter for letter in letters if letter]
            first = pen.write_items([deleted_dead_letters.item(letter.dead_id, letter.fields) for letter in there])
            went = session.run(dead_letters.delete_dead_letters, keys, [letter.dead_id for letter in there])
            pen.add_facts({first + at: {"untouched": "gone"} for at, was_there in enumerate(went) if not was_there})
            gone = {one.dead_id for one, was_there in zip(there, went, strict=True) if was_there}
            told += [one | {"outcome": "purged" if one["dlq_id"] in gone else "gone"} for one in some]
            advance(len(told))
        purged = sum(one["outcome"] == "purged" for one in told)
        pen.done = purged
        pen.set_result(purged=purged, gone=len(told) - purged)
    return told
