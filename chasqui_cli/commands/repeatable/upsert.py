from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.repeatable._record import (
    CHANGE_COLUMNS,
    CHANGE_SCHEMA,
    next_fires_text,
    planned_record,
    replaced_text,
)
from chasqui_cli.commands.repeatable._schedule import CronOption, EveryOption, TimezoneOption, parse_pattern
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_schedule_keys
from chasqui_cli.context.shared_options import QueueArgument
from chasqui_cli.input.values import parse_json_argument, parse_missed_fires
from chasqui_cli.output.columns import column
from chasqui_cli.output.job_text import record_pattern_text
from chasqui_cli.output.times import parse_time_ms


@command("repeatable upsert", schema=CHANGE_SCHEMA, many=False, changes=True, undoable=True)
def upsert(
    ctx: CommandContext,
    queue: QueueArgument,
    name: Annotated[str, typer.Argument(help="The name of the jobs it makes.")],
    cron: CronOption = None,
    tz: TimezoneOption = None,
    every: EveryOption = None,
    data: Annotated[str, typer.Option("--data", metavar="JSON", help="What each job carries; `-`: stdin.")] = "null",
    key: Annotated[
        str,
        typer.Option(
            "--key", help="Its key; by itself made of name and pattern.", autocompletion=complete_schedule_keys
        ),
    ] = "",
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Fire so often at most.")] = None,
    start_after: Annotated[str | None, typer.Option("--start-after", metavar="TIME", help="Not before.")] = None,
    end_before: Annotated[str | None, typer.Option("--end-before", metavar="TIME", help="Not after.")] = None,
    missed: Annotated[
        str, typer.Option("--missed", metavar="RULE", help="Fires nobody was there for: skip, fire-once, fire-all:N.")
    ] = "skip",
) -> None:
    """Store a schedule, or replace the one with its key; how often it fired is kept. `undo` puts back what was there."""
    from dataclasses import replace

    from chasqui import Keys
    from chasqui.produce import arguments
    from chasqui.schedule import fire_times, repeatable
    from chasqui.undo import changed_schedules

    pattern, rule, carried = (
        parse_pattern(cron, tz, every),
        parse_missed_fires(missed),
        parse_json_argument(data, "--data"),
    )
    with ctx.session() as session:
        now_ms = session.server_now_ms()
        bounds = {
            "start_after_ms": parse_time_ms(start_after, now_ms, "future") if start_after else None,
            "end_before_ms": parse_time_ms(end_before, now_ms, "future") if end_before else None,
        }
        spec = replace(arguments.parse_repeat_spec(name, carried, pattern, rule, limit=limit, **bounds), key=key)
        spec, raw = repeatable.prepare_spec(spec)
        next_ms = fire_times.first_fire(spec.pattern, now_ms, spec.start_after_ms, spec.end_before_ms)
        [before] = session.query(changed_schedules.read_raw_specs, Keys(queue), [spec.key])
        record = planned_record(spec, next_ms, before)
        verb, word = ("replace", "replaced") if before.exists else ("create", "created")
        effects = [
            f"fires {record_pattern_text(record)}",
            *next_fires_text(spec, next_ms),
            *replaced_text(spec.key, before, now_ms),
        ]
        plan = ChangePlan(verb, queue, "schedule", [record], [column("key")], "", effects)
        if ctx.confirm(plan, now_ms=now_ms):
            with ctx.journal_operation(queue) as pen:
                pen.write_items([changed_schedules.item(spec.key.encode("utf-8", "surrogateescape"), before, raw)])
                stored = session.run(repeatable.upsert_spec, Keys(queue), spec)
                pen.done = 1
                pen.set_result(**{word: 1})
            record |= {"next_fire_ms": stored.next_ms, "outcome": "created" if stored.created else "replaced"}
        else:
            record["outcome"] = f"would {verb}"
    ctx.write_record(record, CHANGE_COLUMNS, now_ms=now_ms)
