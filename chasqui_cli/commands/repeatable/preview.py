from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.repeatable._record import FIRE_COLUMNS, FIRE_SCHEMA, fire_records
from chasqui_cli.commands.repeatable._schedule import (
    CronOption,
    EveryOption,
    TimezoneOption,
    find_schedules,
    parse_pattern,
    require_readable,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues, complete_schedule_keys
from chasqui_cli.output.job_text import pattern_text
from chasqui_cli.output.times import parse_time_ms


@command("repeatable preview", schema=FIRE_SCHEMA)
def preview(
    ctx: CommandContext,
    queue: Annotated[
        str | None, typer.Argument(help="Which queue, for a stored schedule.", autocompletion=complete_queues)
    ] = None,
    key: Annotated[
        str | None, typer.Argument(help="The stored schedule's key.", autocompletion=complete_schedule_keys)
    ] = None,
    cron: CronOption = None,
    tz: TimezoneOption = None,
    every: EveryOption = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, metavar="N", help="So many fires.")] = 10,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="From then on instead of now; not for a KEY.")
    ] = None,
) -> None:
    """The next fires of a schedule, stored or given, in words and local time, with remarks where clocks change."""
    from chasqui.errors import ArgumentError
    from chasqui.produce import arguments
    from chasqui.schedule import fire_times

    if (key is None) == (cron is None and every is None):
        raise ArgumentError(
            "say which schedule", hint="QUEUE KEY for a stored one, or --cron EXPR [--tz ZONE], or --every TIME"
        )
    if key is not None:
        with ctx.session() as session:
            now_ms = session.server_now_ms()
            [(listed, _)] = find_schedules(session, queue or "", [key])
        spec = require_readable(listed)
        pattern, next_ms, left = spec.pattern, listed.next_ms, count
        if spec.limit:
            left = min(count, max(0, spec.limit - listed.fired))
        times = fire_times.upcoming_fires(
            pattern, next_ms, left, start_after_ms=spec.start_after_ms, end_before_ms=spec.end_before_ms
        )
    else:
        now_ms = _now_ms(ctx, queue)
        pattern = arguments.parse_pattern(parse_pattern(cron, tz, every))
        begin = parse_time_ms(start, now_ms, "future") if start else now_ms
        times = fire_times.upcoming_fires(pattern, fire_times.first_fire(pattern, begin), count)
    ctx.info(pattern_text(pattern))
    ctx.write_records(fire_records(pattern, times), FIRE_COLUMNS, now_ms=now_ms)


def _now_ms(ctx: CommandContext, queue: str | None) -> int:
    """The server's time if one was named; a calendar can be read without any server."""
    from chasqui import SystemClock

    if queue is None and not ctx.connection.names_a_server:
        return SystemClock().now_ms()
    with ctx.session() as session:
        return session.server_now_ms()
