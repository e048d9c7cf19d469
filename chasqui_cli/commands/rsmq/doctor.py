"""`chasqui rsmq doctor`: what is wrong with the data of RSMQ queues, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.repair import DoctorCommand, OnlyOption, RepairOption, examine_and_repair
from chasqui_cli.commands.rsmq._options import DEFAULT_NAMESPACE, NamespaceOption, rsmq_keys
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_rsmq_queues
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign import DoctorFinding, RsmqKeys
    from chasqui_cli.changes.apply import Item
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

DOCTOR_SCHEMA: dict[str, Any] = {
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


@command("rsmq doctor", schema=DOCTOR_SCHEMA, changes=True, changes_with="repair")
def doctor(
    ctx: CommandContext,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUEUE]...",
            help="Which; none means all, in every namespace, listed or not.",
            autocompletion=complete_rsmq_queues,
        ),
    ] = None,
    repair: RepairOption = False,
    only: OnlyOption = None,
    ns: NamespaceOption = DEFAULT_NAMESPACE,
) -> None:
    """Examine queues: ghosts, unlisted ones, orphans, missing bodies, odd numbers. --repair puts them right.

    Every repair looks again before it writes. What was wrong is in the journal; bodies that belong to no message are
    kept there whole, and `chasqui undo` makes messages of them. The rest of a repair cannot be undone.
    """
    from chasqui.foreign import discover, rsmq

    with ctx.session() as session:
        ours = DoctorCommand(
            rsmq.RsmqProblem,
            rsmq.RsmqDoctor,
            COLUMNS,
            _finding_record,
            "what is removed belongs to no message that could be received; bodies among it are kept in the journal",
            lambda page: _stray_items(session, page),
        )
        ours.check_problem_names(only)
        places = [rsmq_keys(name, ns) for name in queues] if queues else discover(session.link).rsmq
        examine_and_repair(ctx, session, ours, places, only, repair=repair)


def _stray_items(session: Session, page: Sequence[tuple[RsmqKeys, DoctorFinding]]) -> list[Item | None]:
    from chasqui.foreign import rsmq

    items: list[Item | None] = []
    for keys in dict.fromkeys(keys for keys, _ in page):
        items += session.link.run(rsmq.stray_items(keys, [one for place, one in page if place == keys]))
    return items


def _finding_record(keys: RsmqKeys, one: DoctorFinding) -> Record:
    return {
        "queue": keys.queue,
        "namespace": keys.namespace,
        "ailment": str(one.problem),
        "subject": one.subject,
        "seen": one.seen,
        "advice": one.advice,
    }
