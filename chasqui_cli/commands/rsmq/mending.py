"""`chasqui rsmq doctor`: what is wrong with the data of RSMQ queues, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.columns import column
from chasqui_cli.commands.rsmq.naming import RSMQ, Namespace, keys_of
from chasqui_cli.completing import rsmq_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.doctors import Doctor, Only, Repair, treat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign import RsmqKeys
    from chasqui.foreign.rsmq import Finding
    from chasqui_cli.columns import Record
    from chasqui_cli.deeds import Item
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
            metavar="[QUEUE]...",
            help="Which; none means all, in every namespace, listed or not.",
            autocompletion=rsmq_names,
        ),
    ] = None,
    repair: Repair = False,
    only: Only = None,
    ns: Namespace = RSMQ,
) -> None:
    """Examine queues: ghosts, unlisted ones, orphans, missing bodies, odd numbers. --repair puts them right.

    Every repair looks again before it writes. What was wrong is in the journal; bodies that belong to no message are
    kept there whole, and `chasqui undo` makes messages of them. The rest of a repair cannot be undone.
    """
    from chasqui.foreign import discover

    with desk.session() as session:
        ours = _doctor(session)
        ours.check_names(only)
        places = [keys_of(name, ns) for name in queues] if queues else discover(session.link).rsmq
        treat(desk, ours, places, only, repair=repair)


def _doctor(session: Session) -> Doctor:
    from chasqui.foreign import rsmq

    return Doctor(
        "rsmq",
        frozenset(rsmq.Ailment),
        rsmq.REPAIRABLE,
        COLUMNS,
        _row,
        lambda keys: session.link.run(rsmq.examine(keys)),
        lambda keys, found: session.link.run(rsmq.repair_each(keys, found)),
        "what is removed belongs to no message that could be received; bodies among it are kept in the journal",
        lambda some: _strays(session, some),
    )


def _strays(session: Session, some: Sequence[tuple[RsmqKeys, Finding]]) -> list[Item | None]:
    from chasqui.foreign import rsmq

    kept: list[Item | None] = []
    for keys in dict.fromkeys(keys for keys, _ in some):
        kept += session.link.run(rsmq.stray_items(keys, [one for place, one in some if place == keys]))
    return kept


def _row(keys: RsmqKeys, one: Finding) -> Record:
    return {
        "queue": keys.queue,
        "namespace": keys.namespace,
        "ailment": str(one.ailment),
        "subject": one.subject,
        "seen": one.seen,
        "advice": one.advice,
    }
