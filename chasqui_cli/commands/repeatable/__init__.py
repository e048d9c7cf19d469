"""`chasqui repeatable`: jobs that come again, with their schedules in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.commands.add import ADDED, added_record
from chasqui_cli.commands.repeatable.records import (
    ADD_COLUMNS,
    CHANGE_COLUMNS,
    CHANGED,
    COLUMNS,
    FIRE,
    FIRE_COLUMNS,
    INTENDED_COLUMNS,
    SPEC,
    fire_records,
    instead,
    listed_record,
    new_record,
    next_words,
    pattern_words,
    words_of,
)
from chasqui_cli.completing import queue_names, schedule_keys
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.finding import warn_where_there_is_no
from chasqui_cli.taking import json_value, missed_fires
from chasqui_cli.times import duration_ms, moment_ms

if TYPE_CHECKING:
    from chasqui import RepeatSpec
    from chasqui.repeatable import Held, Listed
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PARTLY = 3

Queue = Annotated[str, typer.Argument(help="Which queue.", autocompletion=queue_names)]
Key = Annotated[
    str, typer.Argument(help="The schedule's key, as `list` shows it.", autocompletion=schedule_keys)
]
CronText = Annotated[
    str | None, typer.Option("--cron", metavar="EXPR", help="By the calendar, as in '0 9 * * MON-FRI'.")
]
Zone = Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="Its zone, as in Europe/Madrid; UTC.")]
Every = Annotated[
    str | None, typer.Option("--every", metavar="TIME", help="Each time so long has passed: 60s.")
]


@app.callback(invoke_without_command=True)
def repeatable(ctx: typer.Context) -> None:
    """Jobs that come again: list, store, remove, run out of turn, preview in words and local time."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list")
@at_desk(shape=SPEC)
def list_specs(
    desk: Desk,
    queue: Queue,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = 1000,
) -> None:
    """Every schedule, the next to fire first; those that are overdue or cannot be read say so."""
    from chasqui import Keys, repeatable

    with desk.session() as session:
        now_ms = session.now_ms()
        found = session.look(repeatable.listing, Keys(queue), limit)
        if not found:
            warn_where_there_is_no(desk, session, queue)
    desk.emit([listed_record(one, now_ms) for one in found], COLUMNS, now_ms=now_ms)
    if len(found) == limit:
        desk.say(f"the first {limit:,} only; --limit shows more")


@app.command()
@at_desk(shape=CHANGED, many=False, changes=True)
def upsert(
    desk: Desk,
    queue: Queue,
    name: Annotated[str, typer.Argument(help="The name of the jobs it makes.")],
    cron: CronText = None,
    tz: Zone = None,
    every: Every = None,
    data: Annotated[
        str, typer.Option("--data", metavar="JSON", help="What each job carries; `-`: stdin.")
    ] = "null",
    key: Annotated[
        str,
        typer.Option(
            "--key", help="Its key; by itself made of name and pattern.", autocompletion=schedule_keys
        ),
    ] = "",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Fire so often at most.")
    ] = None,
    start_after: Annotated[
        str | None, typer.Option("--start-after", metavar="TIME", help="Not before.")
    ] = None,
    end_before: Annotated[str | None, typer.Option("--end-before", metavar="TIME", help="Not after.")] = None,
    missed: Annotated[
        str,
        typer.Option(
            "--missed", metavar="RULE", help="Fires nobody was there for: skip, fire-once, fire-all:N."
        ),
    ] = "skip",
) -> None:
    """Store a schedule, or replace the one with its key; how often it fired is kept. `undo` puts back what was there."""
    from dataclasses import replace

    from chasqui import Keys, arguments, fires, repeatable

    pattern, rule, carried = _pattern(cron, tz, every), missed_fires(missed), json_value(data, "--data")
    with desk.session() as session:
        now_ms = session.now_ms()
        bounds = {
            "start_after_ms": moment_ms(start_after, now_ms, "future") if start_after else None,
            "end_before_ms": moment_ms(end_before, now_ms, "future") if end_before else None,
        }
        spec = replace(arguments.spec_of(name, carried, pattern, rule, limit=limit, **bounds), key=key)
        spec, raw = repeatable.prepared(spec)
        next_ms = fires.first_fire(spec.pattern, now_ms, spec.start_after_ms, spec.end_before_ms)
        [before] = session.look(repeatable.held, Keys(queue), [spec.key])
        record = new_record(spec, next_ms, before)
        verb, word = ("replace", "replaced") if before.is_there else ("create", "created")
        effects = [
            f"fires {words_of(record)}",
            *next_words(spec, next_ms),
            *instead(spec.key, before, now_ms),
        ]
        plan = Plan(verb, queue, "schedule", [record], [column("key")], "", effects)
        if desk.agrees(plan, now_ms=now_ms):
            with desk.written_down("repeatable upsert", queue) as pen:
                pen.keep([before.item(spec.key.encode("utf-8", "surrogateescape"), raw)])
                stored = session.run(repeatable.upsert, Keys(queue), spec)
                pen.tell(**{word: 1})
            record |= {"next_fire_ms": stored.next_ms, "outcome": "created" if stored.created else "replaced"}
        else:
            record["outcome"] = f"would {verb}"
    desk.emit_one(record, CHANGE_COLUMNS, now_ms=now_ms)


@app.command()
@at_desk(shape=CHANGED, changes=True)
def remove(
    desk: Desk,
    queue: Queue,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Which schedules.", autocompletion=schedule_keys)
    ],
) -> None:
    """Remove schedules with their counters; jobs they made already stay. `undo` puts them back."""
    from chasqui import Keys, repeatable

    with desk.session() as session:
        now_ms = session.now_ms()
        found = _chosen(session, queue, keys)
        records = [listed_record(one, now_ms) for one, _ in found]
        plan = Plan("remove", queue, "schedules", records, COLUMNS[:4], "", ["they make no more jobs"])
        outcomes = ["would remove"] * len(found)
        if desk.agrees(plan, now_ms=now_ms):
            with desk.written_down("repeatable remove", queue) as pen:
                pen.keep([held.item(one.raw_key, b"") for one, held in found])
                removed = [session.run(repeatable.remove, Keys(queue), one.raw_key) for one, _ in found]
                pen.tell(removed=sum(removed), gone=len(removed) - sum(removed))
            outcomes = ["removed" if one else "gone" for one in removed]
    told = [record | {"outcome": one} for record, one in zip(records, outcomes, strict=True)]
    desk.emit(told, CHANGE_COLUMNS, now_ms=now_ms)
    if "gone" in outcomes:
        raise typer.Exit(PARTLY)


@app.command()
@at_desk(shape=ADDED, many=False, changes=True)
def run(desk: Desk, queue: Queue, key: Key) -> None:
    """Make one job of a schedule now; the schedule itself is not touched. `undo` takes the job back while it waits."""
    from chasqui import Keys, repeatable, withdrawal

    with desk.session() as session:
        now_ms = session.now_ms()
        [(listed, _)] = _chosen(session, queue, [key])
        spec = _readable(listed)
        record = listed_record(listed, now_ms)
        effects = ["one job now; when it fires next, and how often it fired, stays as it is"]
        plan = Plan("run", queue, "schedule", [record], COLUMNS[:3], "", effects)
        told = added_record(queue, None, None) | {"outcome": "would run"}
        if desk.agrees(plan, now_ms=now_ms):
            with desk.written_down("repeatable run", queue) as pen:
                footing = session.run(withdrawal.footing, Keys(queue))
                job = repeatable.new_job(footing.now_ms)
                item = {"kind": "added", "id": job.job_id, "created_at_ms": job.created_at_ms}
                pen.keep([item | {"after": footing.last_id}])
                entry_id = session.run(repeatable.run_once, Keys(queue), spec, job)
                pen.tell(added=1)
            told = added_record(queue, job.job_id, entry_id)
    desk.emit_one(told, ADD_COLUMNS if "outcome" not in told else INTENDED_COLUMNS, now_ms=now_ms)


@app.command()
@at_desk(shape=FIRE)
def preview(
    desk: Desk,
    queue: Annotated[
        str | None, typer.Argument(help="Which queue, for a stored schedule.", autocompletion=queue_names)
    ] = None,
    key: Annotated[
        str | None, typer.Argument(help="The stored schedule's key.", autocompletion=schedule_keys)
    ] = None,
    cron: CronText = None,
    tz: Zone = None,
    every: Every = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=10_000, metavar="N", help="So many fires.")
    ] = 10,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="From then on instead of now; not for a KEY.")
    ] = None,
) -> None:
    """The next fires of a schedule, stored or given, in words and local time, with remarks where clocks change."""
    from chasqui import arguments, fires
    from chasqui.errors import ArgumentError

    if (key is None) == (cron is None and every is None):
        raise ArgumentError(
            "say which schedule",
            hint="QUEUE KEY for a stored one, or --cron EXPR [--tz ZONE], or --every TIME",
        )
    if key is not None:
        with desk.session() as session:
            now_ms = session.now_ms()
            [(listed, _)] = _chosen(session, queue or "", [key])
        spec = _readable(listed)
        pattern, next_ms, left = spec.pattern, listed.next_ms, count
        if spec.limit:
            left = min(count, max(0, spec.limit - listed.fired))
        times = fires.upcoming(
            pattern, next_ms, left, start_after_ms=spec.start_after_ms, end_before_ms=spec.end_before_ms
        )
    else:
        now_ms = _now(desk, queue)
        pattern = arguments.pattern_of(_pattern(cron, tz, every))
        begin = moment_ms(start, now_ms, "future") if start else now_ms
        times = fires.upcoming(pattern, fires.first_fire(pattern, begin), count)
    desk.say(pattern_words(pattern))
    desk.emit(fire_records(pattern, times), FIRE_COLUMNS, now_ms=now_ms)


def _now(desk: Desk, queue: str | None) -> int:
    """The server's time if one was named; a calendar can be read without any server."""
    from chasqui import SystemClock

    if queue is None and not desk.given.names_a_server:
        return SystemClock().now_ms()
    with desk.session() as session:
        return session.now_ms()


def _pattern(cron: str | None, tz: str | None, every: str | None) -> dict[str, Any]:
    from chasqui.errors import ArgumentError

    if (cron is None) == (every is None):
        raise ArgumentError("say when", hint="either --cron '0 9 * * MON-FRI' or --every 60s")
    if every is not None:
        if tz is not None:
            raise ArgumentError("an interval has no time zone", hint="--tz goes with --cron")
        return {"kind": "every", "interval_ms": duration_ms(every)}
    return {"kind": "cron", "expression": cron, "tz": tz}


def _chosen(session: Session, queue: str, names: Sequence[str]) -> list[tuple[Listed, Held]]:
    """The schedules with these keys. One that is no text is found by how `list` shows it."""
    from chasqui import Keys, repeatable
    from chasqui.errors import NotFound

    found = session.look(repeatable.held, Keys(queue), names)
    chosen = [
        (repeatable.listed(name, held), held)
        for name, held in zip(names, found, strict=True)
        if held.is_there
    ]
    if missing := [name for name, held in zip(names, found, strict=True) if not held.is_there]:
        odd = {one.key: one.raw_key for one in session.look(repeatable.listing, Keys(queue), 10_000)}
        raw = [odd[name] for name in missing if name in odd]
        if len(raw) < len(missing):
            shown = ", ".join(name for name in missing if name not in odd)
            raise NotFound(f"{queue} has no schedule {shown}", hint=f"chasqui repeatable list {queue}")
        more = session.look(repeatable.held, Keys(queue), raw)
        chosen += [(repeatable.listed(name, held), held) for name, held in zip(raw, more, strict=True)]
    return chosen


def _readable(listed: Listed) -> RepeatSpec:
    from chasqui import Undecodable
    from chasqui.errors import WireError

    if isinstance(listed.spec, Undecodable):
        raise WireError(f"schedule {listed.key} cannot be read: {listed.spec.reason}", listed.spec.raw)
    return listed.spec
