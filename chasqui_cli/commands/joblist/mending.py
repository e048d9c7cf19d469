"""`chasqui joblist doctor`: what is wrong with the data of list job queues, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.columns import column
from chasqui_cli.commands.joblist.naming import keys_of
from chasqui_cli.completing import list_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.doctors import Doctor, Only, Repair, treat

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
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=list_names),
    ] = None,
    repair: Repair = False,
    only: Only = None,
) -> None:
    """Examine queues: ids without jobs, jobs without a list, ids twice, wrong states, expiring jobs, odd times.

    Every repair looks again before it writes. What was wrong is in the journal; a repair cannot be undone.
    """
    from chasqui.foreign import discover

    with desk.session() as session:
        ours = _doctor(session)
        ours.check_names(only)
        places = [keys_of(name) for name in queues] if queues else discover(session.link).joblists
        treat(desk, ours, places, only, repair=repair)


def _doctor(session: Session) -> Doctor:
    from chasqui.foreign import joblist

    return Doctor(
        "joblist",
        frozenset(joblist.Ailment),
        joblist.REPAIRABLE,
        COLUMNS,
        _row,
        lambda keys: session.link.run(joblist.examine(keys)),
        lambda keys, found: session.link.run(joblist.repair_each(keys, found)),
        "ids without a job are removed, jobs without a list wait again; a repair cannot be undone",
    )


def _row(keys: JobListKeys, one: Finding) -> Record:
    return {
        "queue": keys.queue,
        "ailment": str(one.ailment),
        "subject": one.subject,
        "where": one.where,
        "seen": one.seen,
        "advice": one.advice,
    }
