"""`chasqui workers`: who works on a queue, who only seems to, and how what the dead hold is freed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import Column, column
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.times import duration_ms

if TYPE_CHECKING:
    from chasqui.crew import Crew, Member, PendingEntry
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

CONSUMER = {
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
PRUNED = CONSUMER | {"outcome": "str"}
CLAIMED = {
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
    column("consumer"),
    column("verdict"),
    column("idle", "idle_ms", kind="span"),
    column("outcome"),
]
CLAIM_COLUMNS = [
    column("entry", "entry_id"),
    column("consumer"),
    column("deliveries", kind="count"),
    column("idle", "idle_ms", kind="span"),
    column("outcome"),
]
PARTLY = 3

Queue = Annotated[str, typer.Argument(help="Which queue.", autocompletion=queue_names)]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[CONSUMER]...", help="Which; none means all that are gone.")
]
GoneAfter = Annotated[
    str, typer.Option("--gone-after", metavar="TIME", help="Who has not asked for so long is gone.")
]


@app.callback(invoke_without_command=True)
def workers(ctx: typer.Context) -> None:
    """Who works on a queue: list consumers, remove the dead, free what they hold."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list")
@at_desk(shape=CONSUMER)
def list_consumers(desk: Desk, queue: Queue, gone_after: GoneAfter = "30s") -> None:
    """Every consumer: what it holds, when it last asked, and whether it works, waits, does not poll, or is gone."""
    with desk.session() as session:
        crew = _mustered(desk, session, queue, gone_after)
    desk.emit([_record(queue, one) for one in crew.members], COLUMNS, now_ms=crew.now_ms)
    if not crew.members:
        desk.say(f"nobody works on {queue}: it has no consumers")
    elif not any(one.verdict in ("working", "waiting") for one in crew.members):
        desk.say(f"nobody works on {queue}: none of its consumers asks for jobs")


@app.command()
@at_desk(shape=PRUNED, changes=True)
def prune(desk: Desk, queue: Queue, names: Names = None, gone_after: GoneAfter = "30s") -> None:
    """Remove consumers that are gone and hold nothing; that they do not is looked at in the same step. Not undoable."""
    from chasqui import Keys, crew

    with desk.session() as session:
        seen = _mustered(desk, session, queue, gone_after)
        chosen = [one for one in _meant(seen, queue, names) if not one.in_flight]
        records = [_record(queue, one) for one in chosen]
        effects = ["they are names only: one that lives comes back with its next read; this cannot be undone"]
        plan = Plan("prune", queue, "consumers", records, PRUNE_COLUMNS[:3], _choice(names), effects)
        if not desk.agrees(plan, now_ms=seen.now_ms):
            outcomes = ["would remove"] * len(chosen)
        else:
            with desk.written_down("workers prune", queue) as pen:
                removed = session.run(crew.prune, Keys(queue), chosen)
                pen.tell(
                    removed=sum(removed), kept=len(removed) - sum(removed), consumers=[c.name for c in chosen]
                )
            outcomes = ["removed" if one else "kept" for one in removed]
    _told(
        desk,
        [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)],
        PRUNE_COLUMNS,
    )


@app.command()
@at_desk(shape=CLAIMED, changes=True)
def claim(
    desk: Desk,
    queue: Queue,
    names: Names = None,
    gone_after: GoneAfter = "30s",
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="So many entries of one consumer at most.")
    ] = 100_000,
) -> None:
    """Free what consumers hold that are gone, or are named: living workers take it at once. Not undoable."""
    from chasqui import Keys, crew

    with desk.session() as session:
        seen = _mustered(desk, session, queue, gone_after)
        chosen = [one for one in _meant(seen, queue, names) if one.in_flight]
        held = [(one, session.run(crew.holdings, Keys(queue), one, limit)) for one in chosen]
        records = [_entry(queue, one, entry) for one, entries in held for entry in entries]
        effects = ["a job that still runs will run twice; this cannot be undone"]
        plan = Plan("free", queue, "entries", records, CLAIM_COLUMNS[:4], _choice(names), effects)
        if not desk.agrees(plan, now_ms=seen.now_ms):
            outcomes = ["would free"] * len(records)
        else:
            with desk.written_down("workers claim", queue) as pen:
                freed = [
                    done
                    for one, entries in held
                    for done in session.run(crew.release, Keys(queue), one, entries)
                ]
                pen.tell(freed=sum(freed), gone=len(freed) - sum(freed), consumers=[c.name for c in chosen])
            outcomes = ["freed" if one else "gone" for one in freed]
    _told(
        desk,
        [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)],
        CLAIM_COLUMNS,
    )


def _mustered(desk: Desk, session: Session, queue: str, gone_after: str) -> Crew:
    from chasqui import Keys, crew

    seen = session.look(crew.muster, Keys(queue), gone_ms=duration_ms(gone_after))
    if not seen.complete:
        desk.say(f"looked at {seen.looked:,} entries in flight; more are, so ages are at least what is shown")
    return seen


def _meant(seen: Crew, queue: str, names: list[str] | None) -> list[Member]:
    """Those that are named, or those that are gone. What was handed back is nobody's to free."""
    from chasqui.errors import NotFound

    if not names:
        return [one for one in seen.members if one.is_gone]
    found = [one for one in seen.members if one.name in names]
    if missing := set(names) - {one.name for one in found}:
        raise NotFound(
            f"{queue} has no consumer {', '.join(sorted(missing))}", hint=f"chasqui workers list {queue}"
        )
    return found


def _choice(names: list[str] | None) -> str:
    return "by name" if names else "gone"


def _record(queue: str, one: Member) -> Record:
    return {
        "queue": queue,
        "consumer": one.name,
        "group": one.group,
        "in_flight": one.in_flight,
        "idle_ms": one.idle_ms,
        "inactive_ms": one.inactive_ms,
        "oldest_ms": one.oldest_ms,
        "delivered_again": one.again,
        "verdict": one.verdict,
    }


def _entry(queue: str, one: Member, entry: PendingEntry) -> Record:
    return {
        "queue": queue,
        "consumer": one.name,
        "group": one.group,
        "entry_id": entry.entry_id.decode(),
        "deliveries": entry.deliveries,
        "idle_ms": entry.idle_ms,
    }


def _told(desk: Desk, records: list[Record], columns: Sequence[Column]) -> None:
    desk.emit(records, columns)
    if any(record["outcome"] in ("kept", "gone") for record in records):
        raise typer.Exit(PARTLY)
