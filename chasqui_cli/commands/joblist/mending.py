"""`chasqui joblist doctor`: what is wrong with the data of list job queues, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.commands.joblist.naming import keys_of
from chasqui_cli.desk import Desk, at_desk

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import Finding
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

FOUND: dict[str, Any] = {
    "queue": "str",
    "ailment": "str",
    "subject": "str",
    "where": "str",
    "seen": "str",
    "advice": "str",
    "outcome": "str",
}
COLUMNS = [column(name) for name in FOUND]


@at_desk(shape=FOUND, changes=True)
def doctor(
    desk: Desk,
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="[QUEUE]...", help="Which; none means all.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what can be.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="AILMENT", help="Repair this alone; may be repeated."),
    ] = None,
) -> None:
    """Examine queues: ids without jobs, jobs without a list, ids twice, wrong states, expiring jobs, odd times.

    Every repair looks again before it writes. What was wrong is in the journal; a repair cannot be undone.
    """
    from chasqui.errors import ArgumentError
    from chasqui.foreign import discover, joblist

    known = {str(one) for one in joblist.Ailment}
    if unknown := set(only or ()) - known:
        raise ArgumentError(f"no such ailment: {', '.join(sorted(unknown))}", hint=", ".join(sorted(known)))
    with desk.session() as session:
        places = [keys_of(name) for name in queues] if queues else list(discover(session.link).joblists)
        found = [(keys, one) for keys in places for one in session.link.run(joblist.examine(keys))]
        rows = [_row(keys, one) for keys, one in found]
        if repair:
            meant = {str(one) for one in joblist.REPAIRABLE} & set(only or known)
            _repair(desk, session, found, rows, meant)
    desk.say(f"examined {len(places):,} queues: {f'{len(rows):,} findings' if rows else 'nothing found'}")
    desk.emit(rows, COLUMNS)


def _row(keys: JobListKeys, one: Finding) -> Record:
    return {
        "queue": keys.queue,
        "ailment": str(one.ailment),
        "subject": one.subject,
        "where": one.where,
        "seen": one.seen,
        "advice": one.advice,
        "outcome": "found",
    }


def _repair(
    desk: Desk,
    session: Session,
    found: list[tuple[JobListKeys, Finding]],
    rows: list[Record],
    meant: set[str],
) -> None:
    from chasqui.foreign import joblist

    chosen = [at for at, (_, one) in enumerate(found) if str(one.ailment) in meant]
    names = sorted({found[at][0].queue for at in chosen})
    queue = names[0] if len(names) == 1 else f"{len(names)} queues"
    effects = ["ids without a job are removed, jobs without a list wait again; a repair cannot be undone"]
    plan = Plan("repair", queue, "findings", [rows[at] for at in chosen], COLUMNS[:4], effects=effects)
    for at in chosen:
        rows[at]["outcome"] = "would repair"
    if not desk.agrees(plan):
        return
    with (
        desk.written_down("joblist doctor", queue) as pen,
        desk.progress("repairing", len(chosen)) as advance,
    ):
        told = ("queue", "ailment", "subject", "where", "seen")
        pen.tell(found=[{name: rows[at][name] for name in told} for at in chosen])
        repaired = 0
        for done, at in enumerate(chosen, 1):
            keys, one = found[at]
            mended = session.link.run(joblist.repair(keys, [one], only=frozenset({one.ailment})))
            rows[at]["outcome"] = "repaired" if mended else "gone"
            repaired += mended
            advance(done)
        pen.tell(repaired=repaired)
