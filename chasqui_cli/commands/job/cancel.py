from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chasqui_cli.changes.apply import apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.delayed._change import DelayedChange
from chasqui_cli.commands.job._query import JobIdArgument
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument, ScanOption
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui import Keys
    from chasqui.inspect.job_search import DelayedJob
    from chasqui_cli.context.session import Session

CANCEL_SCHEMA = {"queue": "str", "id": "str", "name": "str", "run_at_ms": "int", "outcome": "str"}


CANCEL_COLUMNS: list[Column] = [
    column("id"),
    column("name"),
    column("due", "run_at_ms", kind="moment"),
    column("outcome"),
]


@command("job cancel", schema=CANCEL_SCHEMA, changes=True, undoable=True, failed=("gone",))
def cancel(ctx: CommandContext, queue: QueueArgument, job_id: JobIdArgument, scan: ScanOption = 100_000) -> None:
    """Cancel a job that is delayed: it is removed by its exact bytes, which are written down first."""
    from chasqui import Keys
    from chasqui.errors import NotFound

    keys = Keys(queue)
    with ctx.session() as session:
        member, far = _find_delayed_job(session, keys, job_id, scan)
        if member is None:
            raise NotFound(
                f"there is no delayed job {job_id!r} {far} in {queue!r}",
                hint=f"only delayed jobs can be cancelled; see: chasqui why {job_id} --queue {queue}",
            )
        record = {
            "queue": queue,
            "id": job_id,
            "name": member.name,
            "run_at_ms": member.run_at_ms,
            "outcome": "would cancel",
        }
        plan = ChangePlan("cancel", queue, "delayed job", [record], CANCEL_COLUMNS)
        change = DelayedChange("cancelled", "cancel", "cancelled").batch_change(session, keys)
        [outcome] = apply_change(ctx, plan, [(member, 0)], replace(change, facts={"cancelled": 0, "gone": 0}))
    ctx.write_outcomes([record | outcome], CANCEL_COLUMNS)


def _find_delayed_job(session: Session, keys: Keys, job_id: str, scan: int) -> tuple[DelayedJob | None, str]:
    """The delayed job of this id, where its index points or by a search; and how far that went."""
    from chasqui.inspect import job_search
    from chasqui.operate import delayed_jobs

    indexed = session.query(delayed_jobs.delayed_jobs_by_id, keys, [job_id])
    if job_id in indexed:
        return indexed[job_id], ""
    found, looked = session.query(job_search.find_delayed_job, keys.delayed, job_id, most=scan)
    return found, "at all" if looked.complete else f"among the first {looked.scanned:,}"
