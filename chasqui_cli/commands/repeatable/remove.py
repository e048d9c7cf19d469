"""Remove."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.repeatable._record import CHANGE_COLUMNS, CHANGE_SCHEMA, COLUMNS, schedule_record
from chasqui_cli.commands.repeatable._schedule import find_schedules
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_schedule_keys
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.exit_codes import ExitCode


@command("repeatable remove", schema=CHANGE_SCHEMA, changes=True)
def remove(
    ctx: CommandContext,
    queue: QueueArgument,
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY...", help="Which schedules.", autocompletion=complete_schedule_keys),
    ],
) -> None:
    """Remove schedules with their counters; jobs they made already stay. `undo` puts them back."""
    from chasqui import Keys
    from chasqui.schedule import repeatable
    from chasqui.undo import changed_schedules

    with ctx.session() as session:
        now_ms = session.server_now_ms()
        found = find_schedules(session, queue, keys)
        records = [schedule_record(one, now_ms) for one, _ in found]
        plan = ChangePlan("remove", queue, "schedules", records, COLUMNS[:4], "", ["they make no more jobs"])
        outcomes = ["would remove"] * len(found)
        if ctx.confirm(plan, now_ms=now_ms):
            with ctx.journal_operation("repeatable remove", queue) as pen:
                pen.write_items([changed_schedules.item(one.raw_key, held, b"") for one, held in found])
                removed = [session.run(repeatable.remove_spec, Keys(queue), one.raw_key) for one, _ in found]
                pen.done = sum(removed)
                pen.set_result(removed=sum(removed), gone=len(removed) - sum(removed))
            outcomes = ["removed" if one else "gone" for one in removed]
    told = [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)]
    ctx.write_records(told, CHANGE_COLUMNS, now_ms=now_ms)
    if "gone" in outcomes:
        raise typer.Exit(ExitCode.PARTLY)
