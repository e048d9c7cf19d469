"""`chasqui events`: what happened to jobs, from the past or as it happens, of one queue or of all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.options import OutputOrPiped
from chasqui_cli.output import Format, Running
from chasqui_cli.records import EVENT, event_record, gap_record
from chasqui_cli.times import span
from chasqui_cli.verdicts import shown_event

if TYPE_CHECKING:
    from chasqui import ServerError
    from chasqui.events import Gap, Told
    from chasqui.server.commands import Reach
    from chasqui_cli.choosing import Judge
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PAGE = 500
MOST_TOLD = 10
"""Of how many queues it is said how far back their events reach."""
NEWEST, OLDEST = "$", "0"


def _details(record: Record) -> str | None:
    """What only some events say, in one cell."""
    names = ("backoff_ms", "delay_ms", "duration_us", "lost_estimate", "reason")
    told = [f"{name}={record[name]}" for name in names if record.get(name) is not None]
    return " ".join(told) or None


COLUMNS: list[Column] = [
    column("when", "at_ms", kind="moment"),
    column("queue"),
    column("event"),
    column("id"),
    column("name"),
    column("attempt", align="right"),
    Column("details", _details),
    column("entry id", "entry_id", wide=True),
]


@app.command()
@at_desk(shape=EVENT, chooses=True, payloads=True)
def events(
    desk: Desk,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[tail] [QUEUE]...",
            help="Which; none means all. The word tail in front changes nothing.",
            autocompletion=queue_names,
        ),
    ] = None,
    output: OutputOrPiped = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="0|$|ID", help="After this event: 0 is the first there is, $ the last one now."
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event", metavar="KIND", help="Only these kinds: completed, failed, dlq, …; repeatable."
        ),
    ] = None,
) -> None:
    """What happened: past events, or as they come with --follow.

    Without --follow it begins with the oldest event there is, with it at the end. Events are trimmed by the workers;
    how far back they reach is said on stderr, and what is missing in between stands there as an event named gap.
    Without a queue, queues that appear while following join in.
    """
    names = queues[1:] if queues and queues[0] == "tail" else queues or []
    if start and desk.choice.since:
        raise typer.BadParameter("--from and --since both say where to begin")
    if follow and desk.choice.until:
        raise typer.BadParameter("--follow has no end, so --until makes no sense with it")
    piped = Format.TABLE if sys.stdout.isatty() else Format.JSONL
    desk = replace(desk, output=output or piped)
    if not follow:
        _past(desk, names, start or OLDEST, event or [])
    else:
        import asyncio

        asyncio.run(_followed(desk, names, start, event or []))


@dataclass(slots=True)
class Press:
    """Prints what is wanted. Gaps always are: whoever filters still wants to know that something is missing."""

    desk: Desk
    writer: Running
    judge: Judge
    kinds: list[str]
    looked: int = 0

    def take(self, item: Told | Gap, now_ms: int | None = None) -> None:
        """One more event or gap."""
        from chasqui.events import Gap
        from chasqui.snapshot import id_ms

        if isinstance(item, Gap):
            self.writer.write(gap_record(item), now_ms)
            return
        self.looked += 1
        record = event_record(item)
        if (not self.kinds or record["event"] in self.kinds) and self.judge(record):
            record = shown_event(record, self.desk)
            self.writer.write(_with_time(record, id_ms(item.entry_id), self.writer.format), now_ms)


def _with_time(record: Record, at_ms: int, how: Format) -> Record:
    """When the server heard of it, for tables; in JSON the entry's id says it."""
    return (
        record if how in (Format.JSON, Format.JSONL, Format.YAML, Format.NAME) else {"at_ms": at_ms, **record}
    )


def _press(desk: Desk, now_ms: int, kinds: list[str], *, ends: bool = False) -> Press:
    # Since and until are compared with the server's times, the entries' ids; an event's own time is its teller's.
    judge = desk.choice.judge(now_ms, "no field of an event")
    columns = [column("entry_id")] if desk.output is Format.NAME else COLUMNS
    return Press(desk, Running.of(columns, desk.look(now_ms), ends=ends), judge, kinds)


def _after(judge: Judge, start: str) -> str:
    """Where reading begins: after the last id of the millisecond before."""
    return start if judge.since_ms is None else f"{max(0, judge.since_ms - 1)}-18446744073709551615"


def _past(desk: Desk, names: list[str], start: str, kinds: list[str]) -> None:
    import heapq

    from chasqui_cli.finding import found_queues

    with desk.session() as session:
        now_ms = session.now_ms()
        press = _press(desk, now_ms, kinds, ends=True)
        queues = names or found_queues(desk, session)
        _tell_reach(desk, session, queues, now_ms)
        streams = [_read(session, queue, _after(press.judge, start)) for queue in queues]
        for order, _, item in heapq.merge(*streams, key=lambda one: one[:2]):
            if press.judge.until_ms is not None and order[0] > press.judge.until_ms:
                break
            if press.looked >= desk.choice.scan:
                desk.say(f"stopped after {press.looked:,} events; --scan looks at more")
                break
            press.take(item, now_ms)
        press.writer.end()


def _read(session: Session, queue: str, start: str) -> Iterator[tuple[tuple[int, int], int, Told | Gap]]:
    """A queue's events up to the last one there is now, page by page; each with its order."""
    from chasqui import Keys
    from chasqui import events as asks
    from chasqui.events import Gap

    [end] = session.look(asks.reach, [Keys(queue)])
    [position] = session.look(asks.begin, [Keys(queue)], start)
    last = _order(getattr(end, "last_id", None) or "0-0")
    more = True
    while more:
        [haul] = session.look(asks.read_after, [position], count=PAGE)
        if haul.error:
            raise haul.error
        for number, item in enumerate(haul.items):
            at = _order(item.to_id if isinstance(item, Gap) else item.entry_id)
            if at > last:
                return
            yield at, number, item
        position, more = haul.position, haul.more


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, nth = entry_id.partition("-")
    return int(ms), int(nth or 0)


def _tell_reach(desk: Desk, session: Session, queues: list[str], now_ms: int) -> None:
    from chasqui import Keys
    from chasqui import events as asks

    told = queues[:MOST_TOLD]
    reaches = session.look(asks.reach, [Keys(queue) for queue in told]) if told else []
    for queue, found in zip(told, reaches, strict=True):
        desk.say(f"{queue}: {_reach(found, now_ms)}")
    if len(queues) > MOST_TOLD:
        desk.say(f"… and {len(queues) - MOST_TOLD} more queues")


def _reach(found: Reach | ServerError, now_ms: int) -> str:
    from chasqui import ServerError
    from chasqui.snapshot import id_ms

    if isinstance(found, ServerError):
        return str(found)
    if found.first_id is None:
        return "no events are kept"
    return f"events reach back {span(max(0, now_ms - id_ms(found.first_id)))}, {found.length:,} of them"


async def _followed(desk: Desk, names: list[str], start: str | None, kinds: list[str]) -> None:
    """Everything from there on, until somebody ends it."""
    import asyncio

    from chasqui.queue_events import Tail
    from chasqui_cli.finding import found_queues
    from chasqui_cli.following import join_new

    with desk.session() as session:
        now_ms = session.now_ms()
        press = _press(desk, now_ms, kinds)
        queues = names or found_queues(desk, session)
        _tell_reach(desk, session, queues, now_ms)
    async with desk.async_link() as link:
        begin = _after(press.judge, start or NEWEST)
        tail = Tail(link, queues, last_event_id=begin)
        await tail.start()
        watcher = None if names else asyncio.ensure_future(join_new(link, tail, set(queues)))
        try:
            async for item in tail:
                press.take(item)
        finally:
            if watcher:
                watcher.cancel()
