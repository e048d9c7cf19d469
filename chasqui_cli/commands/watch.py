"""`chasqui watch`: snapshots again and again, with what changed between them; one line per queue and look."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.completing import place_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.options import OutputOrPiped
from chasqui_cli.output import Format, Running
from chasqui_cli.records import SNAPSHOT, snapshot_record
from chasqui_cli.shapes import Maybe
from chasqui_cli.times import duration_ms, iso, span

if TYPE_CHECKING:
    from chasqui import Link
    from chasqui.foreign import ForeignSnapshot
    from chasqui.pace import Pace
    from chasqui.snapshot import Snapshot
    from chasqui_cli.columns import Record

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SHAPE: dict[str, Any] = {
    **SNAPSHOT,
    "over_ms": "int?",
    "added": "int?",
    "read": "int?",
    "died": "int?",
    "in_per_s": "float?",
    "out_per_s": "float?",
    "forecast": Maybe({"word": "str", "clears_ms": "int?", "per_s": "float?"}),
}


def _forecast(record: Record) -> str | None:
    """The three words: clears, stalled, grows."""
    told = record["forecast"]
    if told is None:
        return None
    if told["word"] == "clears":
        return f"clears ~{span(told['clears_ms'])}"
    return f"grows {told['per_s']:.3g}/s" if told["word"] == "grows" else "stalled"


def _rate(name: str) -> Column:
    def value(record: Record) -> str | None:
        return None if record[name] is None else f"{record[name]:.3g}"

    return Column(name.removesuffix("_per_s") + "/s", value, "right")


COLUMNS: list[Column] = [
    column("queue"),
    Column("time", lambda record: iso(record["server_time_ms"])[11:19]),
    column("waiting", kind="count"),
    column("age", "oldest_waiting_ms", kind="span"),
    column("flight", "pending", kind="count"),
    _rate("in_per_s"),
    _rate("out_per_s"),
    Column("forecast", _forecast),
    column("dlq", "dlq_depth", kind="count"),
    Column("+dlq", lambda record: record["died"], "right"),
    column("delayed", "delayed_depth", kind="count"),
    column("due", "delayed_due", kind="count"),
    column("cron!", "repeatable_overdue", kind="count"),
    column("workers", "consumers", kind="count"),
]


@app.command()
@at_desk(shape=SHAPE)
def watch(
    desk: Desk,
    queues: Annotated[
        list[str], typer.Argument(metavar="QUEUE...", help="Which.", autocompletion=place_names)
    ],
    output: OutputOrPiped = None,
    interval: Annotated[
        str, typer.Option("--interval", "-n", metavar="TIME", help="How long between two looks.")
    ] = "2s",
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many looks; 0 for never.")] = 0,
) -> None:
    """Look at queues again and again: what comes in, what goes out, when the backlog clears.

    A line per queue and look; JSON lines where nobody watches. A server that is away is waited for: the lines stop,
    and how old the last ones are is said on stderr. rsmq:NAME and list:NAME name other systems' queues. Ctrl-C ends it.
    """
    import sys

    from chasqui import SystemClock
    from chasqui_cli.finding import warn_of_wrong_keys

    pause_ms = duration_ms(interval)
    if pause_ms < 100:
        raise typer.BadParameter("looking more often than every 100ms would be felt by the server")
    piped = Format.TABLE if sys.stdout.isatty() else Format.JSONL
    writer = Running.of(COLUMNS, replace(desk, output=output or piped).look(), ends=count > 0)
    clock, looks, before = SystemClock(), 0, dict[str, "Snapshot | ForeignSnapshot"]()
    with desk.link() as link:
        seen_at = clock.mono()
        while True:
            seen = _seen(link, queues, first=not looks)
            if seen:
                if not looks:
                    warn_of_wrong_keys(desk, seen)
                seen_at, looks = clock.mono(), looks + 1
                for one in seen:
                    writer.write(_record(before.get(one.queue), one), one.server_time_ms)
                before = {one.queue: one for one in seen}
            else:
                desk.say(f"reconnecting, data {round(clock.mono() - seen_at)} s old")
            if count and looks >= count:
                writer.end()
                return
            clock.pause(pause_ms / 1000)


def _seen(link: Link, queues: list[str], *, first: bool) -> list[Snapshot | ForeignSnapshot]:
    """The queues, or nothing while the server is away. One that was never there is an error."""
    from chasqui import ServerError
    from chasqui_cli.places import named, place_of
    from chasqui_cli.session import Session

    places = [place_of(name) for name in queues]
    try:
        seen = Session(link).fleet(places)
        return [named(one, place).or_raise() for one, place in zip(seen, places, strict=True)]
    except ServerError as error:
        if first or not error.transient:
            raise
        return []


def _record(before: Snapshot | ForeignSnapshot | None, after: Snapshot | ForeignSnapshot) -> Record:
    from chasqui_cli.judging import pace_between

    went = pace_between(before, after) if before else None
    return snapshot_record(after) | _pace(went)


def _pace(went: Pace | None) -> Record:
    if went is None:
        return dict.fromkeys(("over_ms", "added", "read", "died", "in_per_s", "out_per_s", "forecast"))
    return {
        "over_ms": went.over_ms,
        "added": went.added,
        "read": went.read,
        "died": went.died,
        "in_per_s": round(went.in_per_s, 3),
        "out_per_s": round(went.out_per_s, 3),
        "forecast": asdict(went.forecast) if went.forecast else None,
    }
