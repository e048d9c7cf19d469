from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.repeatable._record import CHANGE_COLUMNS, CHANGE_SCHEMA, COLUMNS, schedule_record
from chasqui_cli.commands.repeatable._schedule import find_schedules
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_schedule_keys
from chasqui_cli.context.shared_options import QueueArgument

if TYPE_CHECKING:
    from chasqui.schedule.repeatable import ListedSpec
    from chasqui.undo.changed_schedules import RawSpec


@command("repeatable remove", schema=CHANGE_SCHEMA, changes=True, undoable=True, failed=("gone",))
def remove(
    ctx: CommandContext,
    queue: QueueArgument,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Which schedules.", autocompletion=complete_schedule_keys)
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
        change: BatchChange[tuple[ListedSpec, RawSpec]] = BatchChange(
            "removed",
            lambda some: [
                {"outcome": "removed" if session.run(repeatable.remove_spec, Keys(queue), one.raw_key) else "gone"}
                for one, _ in some
            ],
            lambda some: [changed_schedules.item(one.raw_key, held, b"") for one, held in some],
            result=lambda counts: {"removed": counts["removed"], "gone": counts["gone"]},
        )
        outcomes = apply_change(ctx, plan, found, change, now_ms=now_ms)
    rows = [record | one for record, one in zip(records, outcomes, strict=True)]
    ctx.write_outcomes(rows, CHANGE_COLUMNS, now_ms=now_ms)
