"""`chasqui joblist doctor`: what is wrong with the data of list job queues, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_cli.changes.repair import DoctorCommand, OnlyOption, RepairOption, examine_and_repair
from chasqui_cli.commands.joblist._options import QueuesArgument, joblist_keys
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column

if TYPE_CHECKING:
    from chasqui.foreign import DoctorFinding, JobListKeys
    from chasqui_cli.output.columns import Record

DOCTOR_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "ailment": "str",
    "subject": "str",
    "where": "str",
    "seen": "str",
    "advice": "str",
    "outcome": "str",
}
COLUMNS = [column(name) for name in DOCTOR_SCHEMA]


@command("joblist doctor", schema=DOCTOR_SCHEMA, changes=True, changes_with="repair")
def doctor(
    ctx: CommandContext, queues: QueuesArgument = None, repair: RepairOption = False, only: OnlyOption = None
) -> None:
    """Examine queues: ids without jobs, jobs without a list, ids twice, wrong states, expiring jobs, odd times.

    Every repair looks again before it writes. What was wrong is in the journal; a repair cannot be undone.
    """
    from chasqui.foreign import discover, joblist

    with ctx.session() as session:
        ours = DoctorCommand(
            joblist.JobListProblem,
            joblist.JobListDoctor,
            COLUMNS,
            _finding_record,
            "ids without a job are removed, jobs without a list wait again; a repair cannot be undone",
        )
        ours.check_problem_names(only)
        places = [joblist_keys(name) for name in queues] if queues else discover(session.link).joblists
        examine_and_repair(ctx, session, ours, places, only, repair=repair)


def _finding_record(keys: JobListKeys, one: DoctorFinding) -> Record:
    return {
        "queue": keys.queue,
        "ailment": str(one.problem),
        "subject": one.subject,
        "where": one.list_name,
        "seen": one.seen,
        "advice": one.advice,
    }
