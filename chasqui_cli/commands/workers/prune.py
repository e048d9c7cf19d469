from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.workers._consumers import (
    CONSUMER_SCHEMA,
    ConsumerNames,
    GoneAfterOption,
    consumer_record,
    read_consumers,
    select_consumers,
    selection_text,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument, ScanOption
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui.operate.consumers import ConsumerList, PendingEntry
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

_NULL_FOR_GHOSTS = ("in_flight", "inactive_ms", "oldest_ms", "delivered_again")


PRUNE_SCHEMA = CONSUMER_SCHEMA | dict.fromkeys(_NULL_FOR_GHOSTS, "int?") | {"entry_id": "str?", "outcome": "str"}


PRUNE_COLUMNS = [
    Column("who", lambda record: record["entry_id"] or record["consumer"]),
    column("verdict"),
    column("idle", "idle_ms", kind="span"),
    column("outcome"),
    column("consumer", wide=True),
    column("group", wide=True),
]


@command(
    "workers prune", schema=PRUNE_SCHEMA, changes=True, failed=("kept", "gone"), hint="--gone-after 10m  --note TEXT"
)
def prune(
    ctx: CommandContext,
    queue: QueueArgument,
    names: ConsumerNames = None,
    gone_after: GoneAfterOption = "30s",
    scan: ScanOption = 100_000,
) -> None:
    """Remove consumers that are gone and hold nothing; that they do not is looked at in the same step. Not undoable.

    Ghosts go as well: jobs in flight whose entry was deleted from the stream, so that nobody can ever run or end them.
    """
    from chasqui import Keys
    from chasqui.operate import consumers as consumer_actions

    with ctx.session() as session:
        seen = read_consumers(ctx, session, queue, gone_after)
        ghosts = _find_ghosts(ctx, session, queue, seen, names, scan)
        haunted = Counter((group, entry.consumer) for group, entry in ghosts)
        chosen = [
            one for one in select_consumers(seen, queue, names) if one.in_flight == haunted[one.group, one.raw_name]
        ]
        records = [_ghost_record(queue, *one) for one in ghosts] + [
            consumer_record(queue, one) | {"entry_id": None} for one in chosen
        ]
        noun, effects = _describe_removal(len(ghosts), len(chosen))
        plan = ChangePlan("prune", queue, noun, records, PRUNE_COLUMNS[:3], selection_text(names), effects)
        if not ctx.confirm(plan, now_ms=seen.now_ms):
            outcomes = ["would remove"] * len(records)
        else:
            with ctx.journal_operation(queue) as pen:
                laid = session.run(consumer_actions.remove_ghosts, Keys(queue), ghosts)
                pen.set_result(ghosts=sum(laid), vanished=len(laid) - sum(laid))
                removed = session.run(consumer_actions.remove_consumers, Keys(queue), chosen)
                pen.done = sum(laid) + sum(removed)
                counts = {"removed": sum(removed), "kept": len(removed) - sum(removed)}
                pen.set_result(**counts, consumers=[c.name for c in chosen])
            outcomes = ["removed" if one else "gone" for one in laid]
            outcomes += ["removed" if one else "kept" for one in removed]
    ctx.write_outcomes(
        [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)], PRUNE_COLUMNS
    )


def _find_ghosts(
    ctx: CommandContext, session: Session, queue: str, seen: ConsumerList, names: list[str] | None, scan: int
) -> list[tuple[str, PendingEntry]]:
    """The ghosts that the named hold, or all there are: no living worker has a use for one."""
    from chasqui import Keys
    from chasqui.operate import consumers as consumer_actions

    groups = list(dict.fromkeys(one.group for one in seen.consumers))
    found = session.run(consumer_actions.find_ghosts, Keys(queue), groups, scan)
    if not found.complete:
        ctx.info(f"looked for ghosts among {found.scanned:,} entries in flight; --scan N looks further")
    if not names:
        return found.entries
    meant = {(one.group, one.raw_name) for one in seen.consumers if one.name in names}
    return [(group, entry) for group, entry in found.entries if (group, entry.consumer) in meant]


def _describe_removal(ghosts: int, consumers: int) -> tuple[str, list[str]]:
    """What is removed, in a word, and a sentence on each kind of it."""
    kinds = {
        "consumers": (consumers, "names only: one that lives comes back with its next read"),
        "ghosts": (ghosts, "jobs in flight whose entry was deleted: nobody can run or end them"),
    }
    there = {kind: (count, what) for kind, (count, what) in kinds.items() if count}
    sentences = [f"{kind} {count:,}: {what}" for kind, (count, what) in there.items()]
    return " and ".join(there) or "consumers or ghosts", [*sentences, "this cannot be undone"]


def _ghost_record(queue: str, group: str, entry: PendingEntry) -> Record:
    return dict.fromkeys(CONSUMER_SCHEMA) | {
        "queue": queue,
        "consumer": entry.consumer.decode(errors="backslashreplace"),
        "group": group,
        "idle_ms": entry.idle_ms,
        "verdict": "ghost",
        "entry_id": entry.entry_id.decode(),
    }
