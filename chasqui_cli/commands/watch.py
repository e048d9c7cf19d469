"""`chasqui watch`: snapshots again and again, with what changed between them; one line per queue and look."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_any_queue
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.json_schema import Nullable
from chasqui_cli.output.records import SNAPSHOT_SCHEMA, snapshot_record
from chasqui_cli.output.times import format_duration, format_iso, parse_duration_ms
from chasqui_cli.output.writer import RecordStreamWriter

if TYPE_CHECKING:
    from chasqui import Link
    from chasqui.foreign import ForeignSnapshot
    from chasqui.inspect.snapshot import Snapshot
    from chasqui.inspect.throughput import Throughput
    from chasqui_cli.output.columns import Record


WATCH_SCHEMA: dict[str, Any] = {
    **SNAPSHOT_SCHEMA,
    "over_ms": "int?",
    "added": "int?",
    "read": "int?",
    "died": "int?",
    "in_per_s": "float?",
    "out_per_s": "float?",
    "forecast": Nullable({"word": "str", "clears_ms": "int?", "per_s": "float?"}),
}


def _forecast_text(record: Record) -> str | None:
    """The three words: clears, stalled, grows."""
    forecast = record["forecast"]
    if forecast is None:
        return None
    if forecast["word"] == "clears":
        return f"clears ~{format_duration(forecast['clears_ms'])}"
    return f"grows {forecast['per_s']:.3g}/s" if forecast["word"] == "grows" else "stalled"


def _rate_column(name: str) -> Column:
    def value(record: Record) -> str | None:
        return None if record[name] is None else f"{record[name]:.3g}"

    return Column(name.removesuffix("_per_s") + "/s", value, "right")


COLUMNS: list[Column] = [
    column("queue"),
    Column("time", lambda record: format_iso(record["server_time_ms"])[11:19]),
    column("waiting", kind="count"),
    column("age", "oldest_waiting_ms", kind="span"),
    column("flight", "pending", kind="count"),
    _rate_column("in_per_s"),
    _rate_column("out_per_s"),
    Column("forecast", _forecast_text),
    column("dlq", "dlq_depth", kind="count"),
    Column("+dlq", lambda record: record["died"], "right"),
    column("delayed", "delayed_depth", kind="count"),
    column("due", "delayed_due", kind="count"),
    column("cron!", "repeatable_overdue", kind="count"),
    column("workers", "consumers", kind="count"),
]


@command("watch", schema=WATCH_SCHEMA, effect=Effect.RUNS, streams=True)
def watch(
    ctx: CommandContext,
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Which.", autocompletion=complete_any_queue)],
    interval: Annotated[
        str, typer.Option("--interval", "-n", metavar="TIME", help="How long between two looks.")
    ] = "2s",
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many looks; 0 for never.")] = 0,
) -> None:
    """Look at queues again and again: what comes in, what goes out, when the backlog clears.

    A line per queue and look; JSON lines where nobody watches. A server that is away is waited for: the lines stop,
    and how old the last ones are is said on stderr. rsmq:NAME and list:NAME name other systems' queues. Ctrl-C ends it.
    """
    from chasqui import SystemClock
    from chasqui_cli.queues.targets import warn_wrong_types

    pause_ms = parse_duration_ms(interval)
    if pause_ms < 100:
        raise typer.BadParameter("looking more often than every 100ms would be felt by the server")
    writer = RecordStreamWriter.open(COLUMNS, ctx.output_style(), ends=count > 0)
    clock, looks, before = SystemClock(), 0, dict[str, "Snapshot | ForeignSnapshot"]()
    with ctx.link() as link:
        seen_at = clock.monotonic()
        while True:
            seen = _read_snapshots(link, queues, first=not looks)
            if seen:
                if not looks:
                    warn_wrong_types(ctx, seen)
                seen_at, looks = clock.monotonic(), looks + 1
                for one in seen:
                    writer.write(_watch_record(before.get(one.queue), one), one.server_time_ms)
                before = {one.queue: one for one in seen}
            else:
                ctx.info(f"reconnecting, data {round(clock.monotonic() - seen_at)} s old")
            if count and looks >= count:
                writer.close()
                return
            clock.sleep_sync(pause_ms / 1000)


def _read_snapshots(link: Link, queues: list[str], *, first: bool) -> list[Snapshot | ForeignSnapshot]:
    """The queues, or nothing while the server is away. One that was never there is an error."""
    from chasqui import ServerError
    from chasqui_cli.context.session import Session
    from chasqui_cli.queues.queue_names import parse_queue_ref, with_ref_name

    places = [parse_queue_ref(name) for name in queues]
    try:
        seen = Session(link).snapshots(places)
        return [with_ref_name(one, place).or_raise() for one, place in zip(seen, places, strict=True)]
    except ServerError as error:
        if first or not error.transient:
            raise
        return []


def _watch_record(before: Snapshot | ForeignSnapshot | None, after: Snapshot | ForeignSnapshot) -> Record:
    from chasqui_cli.queues.queue_health import throughput_between

    went = throughput_between(before, after) if before else None
    return snapshot_record(after) | _throughput_fields(went)


def _throughput_fields(went: Throughput | None) -> Record:
    if went is None:
        return dict.fromkeys(("over_ms", "added", "read", "died", "in_per_s", "out_per_s", "forecast"))
    return {
        "over_ms": went.window_ms,
        "added": went.added,
        "read": went.read,
        "died": went.died,
        "in_per_s": round(went.in_per_s, 3),
        "out_per_s": round(went.out_per_s, 3),
        "forecast": asdict(went.forecast) if went.forecast else None,
    }
