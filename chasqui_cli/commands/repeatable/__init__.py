"""`chasqui repeatable`: jobs that come again, with their schedules in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.add import ADD_SCHEMA, added_record
from chasqui_cli.commands.repeatable._record import (
    CHANGE_COLUMNS,
    CHANGE_SCHEMA,
    COLUMNS,
    DRY_RUN_COLUMNS,
    FIRE_COLUMNS,
    FIRE_SCHEMA,
    RUN_COLUMNS,
    SCHEDULE_SCHEMA,
    fire_records,
    next_fires_text,
    pattern_text,
    planned_record,
    record_pattern_text,
    replaced_text,
    schedule_record,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues, complete_schedule_keys
from chasqui_cli.input.values import parse_json_argument, parse_missed_fires
from chasqui_cli.output.columns import column
from chasqui_cli.output.times import parse_duration_ms, parse_time_ms
from chasqui_cli.queues.targets import warn_if_missing

if TYPE_CHECKING:
    from chasqui import RepeatSpec
    from chasqui.schedule.repeatable import ListedSpec
    from chasqui.undo.changed_schedules import RawSpec
    from chasqui_cli.context.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PARTLY = 3

Queue = Annotated[str, typer.Argument(help="Which queue.", autocompletion=complete_queues)]
ScheduleKeyArgument = Annotated[
    str, typer.Argument(help="The schedule's key, as `list` shows it.", autocompletion=complete_schedule_keys)
]
CronOption = Annotated[
    str | None, typer.Option("--cron", metavar="EXPR", help="By the calendar, as in '0 9 * * MON-FRI'.")
]
TimezoneOption = Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="Its zone, as in Europe/Madrid; UTC.")]
EveryOption = Annotated[str | None, typer.Option("--every", metavar="TIME", help="Each time so long has passed: 60s.")]


@app.callback(invoke_without_command=True)
def repeatable(ctx: typer.Context) -> None:
    """Jobs that come again: list, store, remove, run out of turn, preview in words and local time."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list")
@command(shape=SCHEDULE_SCHEMA)
def list_schedules(
    desk: CommandContext,
    queue: Queue,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 1000,
) -> None:
    """Every schedule, the next to fire first; those that are overdue or cannot be read say so."""
    from chasqui import Keys
    from chasqui.schedule import repeatable

    with desk.session() as session:
        now_ms = session.server_now_ms()
        found = session.query(repeatable.list_specs, Keys(queue), limit)
        if not found:
            warn_if_missing(desk, session, queue)
    desk.write_records([schedule_record(one, now_ms) for one in found], COLUMNS, now_ms=now_ms)
    if len(found) == limit:
        desk.info(f"the first {limit:,} only; --limit shows more")


@app.command()
@command(shape=CHANGE_SCHEMA, many=False, changes=True)
def upsert(
    desk: CommandContext,
    queue: Queue,
    name: Annotated[str, typer.Argument(help="The name of the jobs it makes.")],
    cron: CronOption = None,
    tz: TimezoneOption = None,
    every: EveryOption = None,
    data: Annotated[str, typer.Option("--data", metavar="JSON", help="What each job carries; `-`: stdin.")] = "null",
    key: Annotated[
        str,
        typer.Option(
            "--key",
            help="Its key; by itself made of name and pattern.",
            autocompletion=complete_schedule_keys,
        ),
    ] = "",
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Fire so often at most.")] = None,
    start_after: Annotated[str | None, typer.Option("--start-after", metavar="TIME", help="Not before.")] = None,
    end_before: Annotated[str | None, typer.Option("--end-before", metavar="TIME", help="Not after.")] = None,
    missed: Annotated[
        str,
        typer.Option("--missed", metavar="RULE", help="Fires nobody was there for: skip, fire-once, fire-all:N."),
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
    with desk.session() as session:
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
        if desk.confirm(plan, now_ms=now_ms):
            with desk.journal_operation("repeatable upsert", queue) as pen:
                pen.write_items([changed_schedules.item(spec.key.encode("utf-8", "surrogateescape"), before, raw)])
                stored = session.run(repeatable.upsert_spec, Keys(queue), spec)
                pen.set_result(**{word: 1})
            record |= {"next_fire_ms": stored.next_ms, "outcome": "created" if stored.created else "replaced"}
        else:
            record["outcome"] = f"would {verb}"
    desk.write_record(record, CHANGE_COLUMNS, now_ms=now_ms)


@app.command()
@command(shape=CHANGE_SCHEMA, changes=True)
def remove(
    desk: CommandContext,
    queue: Queue,
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY...", help="Which schedules.", autocompletion=complete_schedule_keys),
    ],
) -> None:
    """Remove schedules with their counters; jobs they made already stay. `undo` puts them back."""
    from chasqui import Keys
    from chasqui.schedule import repeatable
    from chasqui.undo import changed_schedules

    with desk.session() as session:
        now_ms = session.server_now_ms()
        found = find_schedules(session, queue, keys)
        records = [schedule_record(one, now_ms) for one, _ in found]
        plan = ChangePlan("remove", queue, "schedules", records, COLUMNS[:4], "", ["they make no more jobs"])
        outcomes = ["would remove"] * len(found)
        if desk.confirm(plan, now_ms=now_ms):
            with desk.journal_operation("repeatable remove", queue) as pen:
                pen.write_items([changed_schedules.item(one.raw_key, held, b"") for one, held in found])
                removed = [session.run(repeatable.remove_spec, Keys(queue), one.raw_key) for one, _ in found]
                pen.set_result(removed=sum(removed), gone=len(removed) - sum(removed))
            outcomes = ["removed" if one else "gone" for one in removed]
    told = [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)]
    desk.write_records(told, CHANGE_COLUMNS, now_ms=now_ms)
    if "gone" in outcomes:
        raise typer.Exit(PARTLY)


@app.command()
@command(shape=ADD_SCHEMA, many=False, changes=True)
def run(desk: CommandContext, queue: Queue, key: ScheduleKeyArgument) -> None:
    """Make one job of a schedule now; the schedule itself is not touched. `undo` takes the job back while it waits."""
    from chasqui import Keys
    from chasqui.schedule import repeatable
    from chasqui.undo import added_jobs, stream_search

    with desk.session() as session:
        now_ms = session.server_now_ms()
        [(listed, _)] = find_schedules(session, queue, [key])
        spec = require_readable(listed)
        record = schedule_record(listed, now_ms)
        effects = ["one job now; when it fires next, and how often it fired, stays as it is"]
        plan = ChangePlan("run", queue, "schedule", [record], COLUMNS[:3], "", effects)
        told = added_record(queue, None, None) | {"outcome": "would run"}
        if desk.confirm(plan, now_ms=now_ms):
            with desk.journal_operation("repeatable run", queue) as pen:
                end = session.run(stream_search.stream_end, Keys(queue))
                job = repeatable.new_job_stamp(end.now_ms)
                pen.write_items([added_jobs.item(job, end)])
                entry_id = session.run(repeatable.run_spec_once, Keys(queue), spec, job)
                pen.set_result(added=1)
            told = added_record(queue, job.job_id, entry_id)
    desk.write_record(told, RUN_COLUMNS if "outcome" not in told else DRY_RUN_COLUMNS, now_ms=now_ms)


@app.command()
@command(shape=FIRE_SCHEMA)
def preview(
    desk: CommandContext,
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
            "say which schedule",
            hint="QUEUE KEY for a stored one, or --cron EXPR [--tz ZONE], or --every TIME",
        )
    if key is not None:
        with desk.session() as session:
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
        now_ms = _now_ms(desk, queue)
        pattern = arguments.parse_pattern(parse_pattern(cron, tz, every))
        begin = parse_time_ms(start, now_ms, "future") if start else now_ms
        times = fire_times.upcoming_fires(pattern, fire_times.first_fire(pattern, begin), count)
    desk.info(pattern_text(pattern))
    desk.write_records(fire_records(pattern, times), FIRE_COLUMNS, now_ms=now_ms)


def _now_ms(desk: CommandContext, queue: str | None) -> int:
    """The server's time if one was named; a calendar can be read without any server."""
    from chasqui import SystemClock

    if queue is None and not desk.connection.names_a_server:
        return SystemClock().now_ms()
    with desk.session() as session:
        return session.server_now_ms()


def parse_pattern(cron: str | None, tz: str | None, every: str | None) -> dict[str, Any]:
    from chasqui.errors import ArgumentError

    if (cron is None) == (every is None):
        raise ArgumentError("say when", hint="either --cron '0 9 * * MON-FRI' or --every 60s")
    if every is not None:
        if tz is not None:
            raise ArgumentError("an interval has no time zone", hint="--tz goes with --cron")
        return {"kind": "every", "interval_ms": parse_duration_ms(every)}
    return {"kind": "cron", "expression": cron, "tz": tz}


def find_schedules(session: Session, queue: str, names: Sequence[str]) -> list[tuple[ListedSpec, RawSpec]]:
    """The schedules with these keys. One that is no text is found by how `list` shows it."""
    from chasqui import Keys
    from chasqui.errors import NotFound
    from chasqui.schedule import repeatable
    from chasqui.undo import changed_schedules

    found = session.query(changed_schedules.read_raw_specs, Keys(queue), names)
    chosen = [
        (repeatable.decode_raw_spec(name, held), held) for name, held in zip(names, found, strict=True) if held.exists
    ]
    if missing := [name for name, held in zip(names, found, strict=True) if not held.exists]:
        odd = {one.key: one.raw_key for one in session.query(repeatable.list_specs, Keys(queue), 10_000)}
        raw = [odd[name] for name in missing if name in odd]
        if len(raw) < len(missing):
            shown = ", ".join(name for name in missing if name not in odd)
            raise NotFound(f"{queue} has no schedule {shown}", hint=f"chasqui repeatable list {queue}")
        more = session.query(changed_schedules.read_raw_specs, Keys(queue), raw)
        chosen += [(repeatable.decode_raw_spec(name, held), held) for name, held in zip(raw, more, strict=True)]
    return chosen


def require_readable(listed: ListedSpec) -> RepeatSpec:
    from chasqui import Undecodable
    from chasqui.errors import WireError

    if isinstance(listed.spec, Undecodable):
        raise WireError(f"schedule {listed.key} cannot be read: {listed.spec.reason}", listed.spec.raw)
    return listed.spec
