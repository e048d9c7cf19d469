from __future__ import annotations

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.add import ADD_SCHEMA, added_record
from chasqui_cli.commands.repeatable._record import COLUMNS, DRY_RUN_COLUMNS, RUN_COLUMNS, schedule_record
from chasqui_cli.commands.repeatable._schedule import ScheduleKeyArgument, find_schedules, require_readable
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import QueueArgument


@command("repeatable run", schema=ADD_SCHEMA, many=False, changes=True, undoable=True)
def run(ctx: CommandContext, queue: QueueArgument, key: ScheduleKeyArgument) -> None:
    """Make one job of a schedule now; the schedule itself is not touched. `undo` takes the job back while it waits."""
    from chasqui import Keys
    from chasqui.schedule import repeatable
    from chasqui.undo import added_jobs, stream_search

    with ctx.session() as session:
        now_ms = session.server_now_ms()
        [(listed, _)] = find_schedules(session, queue, [key])
        spec = require_readable(listed)
        record = schedule_record(listed, now_ms)
        effects = ["one job now; when it fires next, and how often it fired, stays as it is"]
        plan = ChangePlan("run", queue, "schedule", [record], COLUMNS[:3], "", effects)
        added = added_record(queue, None, None) | {"outcome": "would run"}
        if ctx.confirm(plan, now_ms=now_ms):
            with ctx.journal_operation(queue) as pen:
                end = session.run(stream_search.stream_end, Keys(queue))
                job = repeatable.new_job_stamp(end.now_ms)
                pen.write_items([added_jobs.item(job, end)])
                entry_id = session.run(repeatable.run_spec_once, Keys(queue), spec, job)
                pen.done = 1
                pen.set_result(added=1)
            added = added_record(queue, job.job_id, entry_id)
    ctx.write_record(added, RUN_COLUMNS if "outcome" not in added else DRY_RUN_COLUMNS, now_ms=now_ms)
