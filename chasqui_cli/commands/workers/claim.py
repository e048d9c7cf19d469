from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.workers._consumers import (
    ConsumerNames,
    GoneAfterOption,
    read_consumers,
    select_consumers,
    selection_text,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from chasqui.operate.consumers import ConsumerStatus, PendingEntry
    from chasqui_cli.output.columns import Record

CLAIM_SCHEMA = {
    "queue": "str",
    "consumer": "str",
    "group": "str",
    "entry_id": "str",
    "deliveries": "int",
    "idle_ms": "int",
    "outcome": "str",
}


CLAIM_COLUMNS = [
    column("entry", "entry_id"),
    column("consumer"),
    column("deliveries", kind="count"),
    column("idle", "idle_ms", kind="span"),
    column("outcome"),
]


@command("workers claim", schema=CLAIM_SCHEMA, changes=True, failed=("kept", "gone"))
def claim(
    ctx: CommandContext,
    queue: QueueArgument,
    names: ConsumerNames = None,
    gone_after: GoneAfterOption = "30s",
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="So many entries of one consumer at most.")
    ] = 100_000,
) -> None:
    """Free what consumers hold that are gone, or are named: living workers take it at once. Not undoable."""
    from chasqui import Keys
    from chasqui.operate import consumers

    with ctx.session() as session:
        seen = read_consumers(ctx, session, queue, gone_after)
        chosen = [one for one in select_consumers(seen, queue, names) if one.in_flight]
        held = [(one, session.run(consumers.pending_entries, Keys(queue), one, limit)) for one in chosen]
        records = [_pending_record(queue, one, entry) for one, entries in held for entry in entries]
        effects = ["a job that still runs will run twice; this cannot be undone"]
        plan = ChangePlan("free", queue, "entries", records, CLAIM_COLUMNS[:4], selection_text(names), effects)
        if not ctx.confirm(plan, now_ms=seen.now_ms):
            outcomes = ["would free"] * len(records)
        else:
            with ctx.journal_operation(queue) as pen:
                freed = [
                    done
                    for one, entries in held
                    for done in session.run(consumers.release_entries, Keys(queue), one, entries)
                ]
                pen.done = sum(freed)
                pen.set_result(freed=sum(freed), gone=len(freed) - sum(freed), consumers=[c.name for c in chosen])
            outcomes = ["freed" if one else "gone" for one in freed]
    ctx.write_outcomes(
        [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)], CLAIM_COLUMNS
    )


def _pending_record(queue: str, one: ConsumerStatus, entry: PendingEntry) -> Record:
    return {
        "queue": queue,
        "consumer": one.name,
        "group": one.group,
        "entry_id": entry.entry_id.decode(),
        "deliveries": entry.deliveries,
        "idle_ms": entry.idle_ms,
    }
