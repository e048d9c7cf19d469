"""`chasqui rsmq doctor`: what is wrong with the data of RSMQ queues, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.commands.rsmq.naming import RSMQ, Namespace, keys_of
from chasqui_cli.desk import Desk, at_desk

if TYPE_CHECKING:
    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Finding
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

FOUND: dict[str, Any] = {
    "queue": "str",
    "namespace": "str",
    "ailment": "str",
    "subject": "str",
    "seen": "str",
    "advice": "str",
    "outcome": "str",
}
COLUMNS = [
    column("queue"), column("ailment"), column("subject"), column("seen"), column("advice"), column("outcome"),
    column("namespace", wide=True),
]  # fmt: skip


@at_desk(shape=FOUND, changes=True)
def doctor(
    desk: Desk,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUEUE]...", help="Which; none means all, in every namespace, listed or not."
        ),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what can be.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="AILMENT", help="Repair this alone; may be repeated."),
    ] = None,
    ns: Namespace = RSMQ,
) -> None:
    """Examine queues: ghosts, unlisted ones, orphans, missing bodies, odd numbers. --repair puts them right.

    Every repair looks again before it writes. What was wrong is in the journal; a repair cannot be undone.
    """
    from chasqui.errors import ArgumentError
    from chasqui.foreign import discover, rsmq

    known = {str(one) for one in rsmq.Ailment}
    if unknown := set(only or ()) - known:
        raise ArgumentError(f"no such ailment: {', '.join(sorted(unknown))}", hint=", ".join(sorted(known)))
    with desk.session() as session:
        places = [keys_of(name, ns) for name in queues] if queues else list(discover(session.link).rsmq)
        found = [(keys, one) for keys in places for one in _examined(session, keys)]
        rows = [_row(keys, one) for keys, one in found]
        if repair:
            meant = {str(one) for one in rsmq.REPAIRABLE} & set(only or known)
            _repair(desk, session, found, rows, meant)
    desk.say(f"examined {len(places):,} queues: {f'{len(rows):,} findings' if rows else 'nothing found'}")
    desk.emit(rows, COLUMNS)


def _examined(session: Session, keys: RsmqKeys) -> list[Finding]:
    from chasqui.foreign import rsmq

    return session.link.run(rsmq.examine(keys))


def _row(keys: RsmqKeys, one: Finding) -> Record:
    return {
        "queue": keys.queue,
        "namespace": keys.namespace,
        "ailment": str(one.ailment),
        "subject": one.subject,
        "seen": one.seen,
        "advice": one.advice,
        "outcome": "found",
    }


def _repair(
    desk: Desk,
    session: Session,
    found: list[tuple[RsmqKeys, Finding]],
    rows: list[Record],
    meant: set[str],
) -> None:
    from chasqui.foreign import rsmq

    chosen = [at for at, (_, one) in enumerate(found) if str(one.ailment) in meant]
    names = sorted({found[at][0].queue for at in chosen})
    queue = names[0] if len(names) == 1 else f"{len(names)} queues"
    effects = ["what is removed belongs to no message that could be received; a repair cannot be undone"]
    plan = Plan("repair", queue, "findings", [rows[at] for at in chosen], COLUMNS[:4], effects=effects)
    for at in chosen:
        rows[at]["outcome"] = "would repair"
    if not desk.agrees(plan):
        return
    with desk.written_down("rsmq doctor", queue) as pen, desk.progress("repairing", len(chosen)) as advance:
        pen.tell(
            found=[
                {name: rows[at][name] for name in ("queue", "ailment", "subject", "seen")} for at in chosen
            ]
        )
        repaired = 0
        for done, at in enumerate(chosen, 1):
            keys, one = found[at]
            mended = session.link.run(rsmq.repair(keys, [one], only=frozenset({one.ailment})))
            rows[at]["outcome"] = "repaired" if mended else "gone"
            repaired += mended
            advance(done)
        pen.tell(repaired=repaired)
