"""`chasqui dlq purge`: dead letters away, their bytes into the journal first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.commands.dlq.capturing import Capture, capture, or_not_found
from chasqui_cli.commands.dlq.letters import (
    OUTCOME,
    OUTCOME_COLUMNS,
    SAMPLE_COLUMNS,
    Ids,
    QueueName,
    in_chunks,
    letter_item,
)
from chasqui_cli.desk import Desk, at_desk

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session


@at_desk(shape=OUTCOME, chooses=True, by_reason=True, changes=True)
def purge(
    desk: Desk,
    queue: QueueName,
    ids: Ids = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Purge so many at most, oldest first.")
    ] = None,
) -> None:
    """Delete dead letters; each is written to the journal first, whole, so `chasqui undo` brings it back.

    Without ids and filters it is about all of them, as far as --scan reaches.
    """
    from chasqui import Keys

    keys = Keys(queue)
    with desk.session() as session:
        now_ms = session.now_ms()
        caught = capture(desk, session, keys, ids, now_ms=now_ms, limit=limit, jobs_only=False)
        or_not_found(caught, ids, queue)
        chosen = "ids" if ids else str(desk.choice) or "nothing: all of them"
        plan = Plan(
            "purge",
            queue,
            "dead letters",
            caught.records,
            SAMPLE_COLUMNS,
            chosen=chosen,
            effects=["their jobs never ran to an end, and will not; `chasqui undo` brings the letters back"],
        )
        if desk.agrees(plan, now_ms=now_ms):
            told = _purged(desk, session, keys, caught)
        else:
            told = [record | {"outcome": "would purge"} for record in caught.records]
    blank = {"id": None, "name": "", "reason": "", "outcome": "not found"}
    told += [{"dlq_id": one} | blank for one in caught.missing]
    desk.emit(told, OUTCOME_COLUMNS)
    if any(one["outcome"] in ("gone", "not found") for one in told):
        raise typer.Exit(3)


def _purged(desk: Desk, session: Session, keys: Keys, caught: Capture) -> list[Record]:
    from chasqui import dlq

    told: list[Record] = []
    with (
        desk.written_down("dlq purge", keys.queue) as pen,
        desk.progress("purging", len(caught.records)) as advance,
    ):
        for some in in_chunks(caught.records, caught.chunk):
            letters = session.run(dlq.fetch, keys, [record["dlq_id"] for record in some])
            there = [letter for letter in letters if letter]
            first = pen.keep([letter_item(letter, "dead") for letter in there])
            went = session.run(dlq.delete, keys, [letter.dead_id for letter in there])
            pen.learn(
                {first + at: {"untouched": "gone"} for at, was_there in enumerate(went) if not was_there}
            )
            gone = {one.dead_id for one, was_there in zip(there, went, strict=True) if was_there}
            told += [one | {"outcome": "purged" if one["dlq_id"] in gone else "gone"} for one in some]
            advance(len(told))
        purged = sum(one["outcome"] == "purged" for one in told)
        pen.tell(purged=purged, gone=len(told) - purged)
    return told
