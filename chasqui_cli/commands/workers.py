"""`chasqui workers`: who works on a queue, who only seems to, and how what the dead hold is freed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.context.shared_options import ScanOption
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.times import parse_duration_ms

if TYPE_CHECKING:
    from chasqui.operate.consumers import ConsumerList, ConsumerStatus, PendingEntry
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

app = typer.Typer(add_completion=False, rich_markup_mode=None)

CONSUMER_SCHEMA = {
    "queue": "str",
    "consumer": "str",
    "group": "str",
    "in_flight": "int",
    "idle_ms": "int",
    "inactive_ms": "int?",
    "oldest_ms": "int",
    "delivered_again": "int",
    "verdict": "str",
}
_NULL_FOR_GHOSTS = ("in_flight", "inactive_ms", "oldest_ms", "delivered_again")
PRUNE_SCHEMA = CONSUMER_SCHEMA | dict.fromkeys(_NULL_FOR_GHOSTS, "int?") | {"entry_id": "str?", "outcome": "str"}
CLAIM_SCHEMA = {
    "queue": "str",
    "consumer": "str",
    "group": "str",
    "entry_id": "str",
    "deliveries": "int",
    "idle_ms": "int",
    "outcome": "str",
}
COLUMNS: list[Column] = [
    column("consumer"),
    column("verdict"),
    column("in flight", "in_flight", kind="count"),
    column("again", "delivered_again", kind="count"),
    column("oldest", "oldest_ms", kind="span"),
    column("idle", "idle_ms", kind="span"),
    Column("inactive", lambda record: "n/a" if record["inactive_ms"] is None else record["inactive_ms"], "right", kind="span"),
    column("group", wide=True),
]  # fmt: skip
PRUNE_COLUMNS = [
    Column("who", lambda record: record["entry_id"] or record["consumer"]),
    column("verdict"),
    column("idle", "idle_ms", kind="span"),
    column("outcome"),
    column("consumer", wide=True),
    column("group", wide=True),
]
CLAIM_COLUMNS = [
    column("entry", "entry_id"),
    column("consumer"),
    column("deliveries", kind="count"),
    column("idle", "idle_ms", kind="span"),
    column("outcome"),
]
PARTLY = 3

Queue = Annotated[str, typer.Argument(help="Which queue.", autocompletion=complete_queues)]
ConsumerNames = Annotated[
    list[str] | None, typer.Argument(metavar="[CONSUMER]...", help="Which; none means all that are gone.")
]
GoneAfterOption = Annotated[
    str, typer.Option("--gone-after", metavar="TIME", help="Who has not asked for so long is gone.")
]


@app.callback(invoke_without_command=True)
def workers(ctx: typer.Context) -> None:
    """Who works on a queue: list consumers, remove the dead, free what they hold."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list")
@command(shape=CONSUMER_SCHEMA)
def list_consumers(desk: CommandContext, queue: Queue, gone_after: GoneAfterOption = "30s") -> None:
    """Every consumer: what it holds, when it last asked, and whether it works, waits, does not poll, or is gone."""
    with desk.session() as session:
        crew = read_consumers(desk, session, queue, gone_after)
    desk.write_records([consumer_record(queue, one) for one in crew.consumers], COLUMNS, now_ms=crew.now_ms)
    if not crew.consumers:
        desk.info(f"nobody works on {queue}: it has no consumers")
    elif not any(one.state in ("working", "waiting") for one in crew.consumers):
        desk.info(f"nobody works on {queue}: none of its consumers asks for jobs")


@app.command()
@command(shape=PRUNE_SCHEMA, changes=True)
def prune(
    desk: CommandContext,
    queue: Queue,
    names: ConsumerNames = None,
    gone_after: GoneAfterOption = "30s",
    scan: ScanOption = 100_000,
) -> None:
    """Remove consumers that are gone and hold nothing; that they do not is looked at in the same step. Not undoable.

    Ghosts go as well: jobs in flight whose entry was deleted from the stream, so that nobody can ever run or end them.
    """
    from chasqui import Keys
    from chasqui.operate import consumers as crew

    with desk.session() as session:
        seen = read_consumers(desk, session, queue, gone_after)
        ghosts = _find_ghosts(desk, session, queue, seen, names, scan)
        haunted = Counter((group, entry.consumer) for group, entry in ghosts)
        chosen = [
            one for one in select_consumers(seen, queue, names) if one.in_flight == haunted[one.group, one.raw_name]
        ]
        records = [_ghost_record(queue, *one) for one in ghosts] + [
            consumer_record(queue, one) | {"entry_id": None} for one in chosen
        ]
        noun, effects = _describe_removal(len(ghosts), len(chosen))
        plan = ChangePlan("prune", queue, noun, records, PRUNE_COLUMNS[:3], selection_text(names), effects)
        if not desk.confirm(plan, now_ms=seen.now_ms):
            outcomes = ["would remove"] * len(records)
        else:
            with desk.journal_operation("workers prune", queue) as pen:
                laid = session.run(crew.remove_ghosts, Keys(queue), ghosts)
                pen.set_result(ghosts=sum(laid), vanished=len(laid) - sum(laid))
                removed = session.run(crew.remove_consumers, Keys(queue), chosen)
                pen.set_result(
                    removed=sum(removed), kept=len(removed) - sum(removed), consumers=[c.name for c in chosen]
                )
            outcomes = ["removed" if one else "gone" for one in laid]
            outcomes += ["removed" if one else "kept" for one in removed]
    _told(
        desk,
        [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)],
        PRUNE_COLUMNS,
    )


@app.command()
@command(shape=CLAIM_SCHEMA, changes=True)
def claim(
    desk: CommandContext,
    queue: Queue,
    names: ConsumerNames = None,
    gone_after: GoneAfterOption = "30s",
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="So many entries of one consumer at most.")
    ] = 100_000,
) -> None:
    """Free what consumers hold that are gone, or are named: living workers take it at once. Not undoable."""
    from chasqui import Keys
    from chasqui.operate import consumers as crew

    with desk.session() as session:
        seen = read_consumers(desk, session, queue, gone_after)
        chosen = [one for one in select_consumers(seen, queue, names) if one.in_flight]
        held = [(one, session.run(crew.pending_entries, Keys(queue), one, limit)) for one in chosen]
        records = [_pending_record(queue, one, entry) for one, entries in held for entry in entries]
        effects = ["a job that still runs will run twice; this cannot be undone"]
        plan = ChangePlan("free", queue, "entries", records, CLAIM_COLUMNS[:4], selection_text(names), effects)
        if not desk.confirm(plan, now_ms=seen.now_ms):
            outcomes = ["would free"] * len(records)
        else:
            with desk.journal_operation("workers claim", queue) as pen:
                freed = [
                    done
                    for one, entries in held
                    for done in session.run(crew.release_entries, Keys(queue), one, entries)
                ]
                pen.set_result(freed=sum(freed), gone=len(freed) - sum(freed), consumers=[c.name for c in chosen])
            outcomes = ["freed" if one else "gone" for one in freed]
    _told(
        desk,
        [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)],
        CLAIM_COLUMNS,
    )


def read_consumers(desk: CommandContext, session: Session, queue: str, gone_after: str) -> ConsumerList:
    from chasqui import Keys
    from chasqui.operate import consumers as crew

    seen = session.query(crew.list_consumers, Keys(queue), gone_after_ms=parse_duration_ms(gone_after))
    if not seen.complete:
        desk.info(f"looked at {seen.scanned:,} entries in flight; more are, so ages are at least what is shown")
    return seen


def select_consumers(seen: ConsumerList, queue: str, names: list[str] | None) -> list[ConsumerStatus]:
    """Those that are named, or those that are gone. What was handed back is nobody's to free."""
    from chasqui.errors import NotFound

    if not names:
        return [one for one in seen.consumers if one.is_gone]
    found = [one for one in seen.consumers if one.name in names]
    if missing := set(names) - {one.name for one in found}:
        raise NotFound(f"{queue} has no consumer {', '.join(sorted(missing))}", hint=f"chasqui workers list {queue}")
    return found


def _find_ghosts(
    desk: CommandContext, session: Session, queue: str, seen: ConsumerList, names: list[str] | None, scan: int
) -> list[tuple[str, PendingEntry]]:
    """The ghosts that the named hold, or all there are: no living worker has a use for one."""
    from chasqui import Keys
    from chasqui.operate import consumers as crew

    groups = list(dict.fromkeys(one.group for one in seen.consumers))
    found = session.run(crew.find_ghosts, Keys(queue), groups, scan)
    if not found.complete:
        desk.info(f"looked for ghosts among {found.scanned:,} entries in flight; --scan N looks further")
    if not names:
        return found.entries
    meant = {(one.group, one.raw_name) for one in seen.consumers if one.name in names}
    return [(group, entry) for group, entry in found.entries if (group, entry.consumer) in meant]


def _describe_removal(ghosts: int, consumers: int) -> tuple[str, list[str]]:
    """What is removed, in a word, and a sentence on each kind of it."""
    told = {
        "consumers": (consumers, "names only: one that lives comes back with its next read"),
        "ghosts": (ghosts, "jobs in flight whose entry was deleted: nobody can run or end them"),
    }
    there = {kind: (count, what) for kind, (count, what) in told.items() if count}
    sentences = [f"{kind} {count:,}: {what}" for kind, (count, what) in there.items()]
    return " and ".join(there) or "consumers or ghosts", [*sentences, "this cannot be undone"]


def selection_text(names: list[str] | None) -> str:
    return "by name" if names else "gone"


def consumer_record(queue: str, one: ConsumerStatus) -> Record:
    return {
        "queue": queue,
        "consumer": one.name,
        "group": one.group,
        "in_flight": one.in_flight,
        "idle_ms": one.idle_ms,
        "inactive_ms": one.inactive_ms,
        "oldest_ms": one.longest_idle_ms,
        "delivered_again": one.redelivered,
        "verdict": one.state,
    }


def _ghost_record(queue: str, group: str, entry: PendingEntry) -> Record:
    return dict.fromkeys(CONSUMER_SCHEMA) | {
        "queue": queue,
        "consumer": entry.consumer.decode(errors="backslashreplace"),
        "group": group,
        "idle_ms": entry.idle_ms,
        "verdict": "ghost",
        "entry_id": entry.entry_id.decode(),
    }


def _pending_record(queue: str, one: ConsumerStatus, entry: PendingEntry) -> Record:
    return {
        "queue": queue,
        "consumer": one.name,
        "group": one.group,
        "entry_id": entry.entry_id.decode(),
        "deliveries": entry.deliveries,
        "idle_ms": entry.idle_ms,
    }


def _told(desk: CommandContext, records: list[Record], columns: Sequence[Column]) -> None:
    desk.write_records(records, columns)
    if any(record["outcome"] in ("kept", "gone") for record in records):
        raise typer.Exit(PARTLY)
