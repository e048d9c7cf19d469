"""`chasqui events`: what happened to jobs, from the past or as it happens, of one queue or of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.columns import Column, column
from chasqui_cli.output.job_records import redacted_event
from chasqui_cli.output.records import EVENT_SCHEMA, event_record, gap_record
from chasqui_cli.output.times import format_duration
from chasqui_cli.output.writer import Format, RecordStreamWriter

if TYPE_CHECKING:
    from chasqui import ServerError
    from chasqui.inspect.events import Gap, StoredEvent
    from chasqui.server.commands import StreamExtent
    from chasqui_cli.context.session import Session
    from chasqui_cli.input.filters import RecordFilter
    from chasqui_cli.output.columns import Record


PAGE_SIZE = 500
MAX_REACH_LINES = 10
"""Of how many queues it is said how far back their events reach."""
NEWEST, OLDEST = "$", "0"


def _details(record: Record) -> str | None:
    """What only some events say, in one cell."""
    names = ("backoff_ms", "delay_ms", "duration_us", "lost_estimate", "reason")
    parts = [f"{name}={record[name]}" for name in names if record.get(name) is not None]
    return " ".join(parts) or None


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


@command("events", schema=EVENT_SCHEMA, chooses=True, payloads=True, streams=True, endless=("follow",))
def events(
    ctx: CommandContext,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[tail] [QUEUE]...",
            help="Which; none means all. The word tail in front changes nothing.",
            autocompletion=complete_queues,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="0|$|ID", help="After this event: 0 is the first there is, $ the last one now."),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="KIND", help="Only these kinds: completed, failed, dlq, …; repeatable."),
    ] = None,
) -> None:
    """What happened: past events, or as they come with --follow.

    Without --follow it begins with the oldest event there is, with it at the end. Events are trimmed by the workers;
    how far back they reach is said on stderr, and what is missing in between stands there as an event named gap.
    Without a queue, queues that appear while following join in.
    """
    names = queues[1:] if queues and queues[0] == "tail" else queues or []
    if start and ctx.filters.since:
        raise typer.BadParameter("--from and --since both say where to begin")
    if follow and ctx.filters.until:
        raise typer.BadParameter("--follow has no end, so --until makes no sense with it")
    if not follow:
        _print_past(ctx, names, start or OLDEST, event or [])
    else:
        import asyncio

        asyncio.run(_follow_events(ctx, names, start, event or []))


@dataclass(slots=True)
class EventPrinter:
    """Prints events that match. Gaps are always printed, also with filters."""

    ctx: CommandContext
    writer: RecordStreamWriter
    judge: RecordFilter
    kinds: list[str]
    scanned: int = 0

    def print_item(self, item: StoredEvent | Gap, now_ms: int | None = None) -> None:
        """One more event or gap."""
        from chasqui import entry_time_ms
        from chasqui.inspect.events import Gap

        if isinstance(item, Gap):
            self.writer.write(gap_record(item), now_ms)
            return
        self.scanned += 1
        record = event_record(item)
        if (not self.kinds or record["event"] in self.kinds) and self.judge(record):
            record = redacted_event(record, self.ctx)
            self.writer.write(_with_time_field(record, entry_time_ms(item.entry_id), self.writer.format), now_ms)


def _with_time_field(record: Record, at_ms: int, how: Format) -> Record:
    """When the server stored it, for tables; in JSON the entry's id has it."""
    return record if how in (Format.JSON, Format.JSONL, Format.YAML, Format.NAME) else {"at_ms": at_ms, **record}


def _event_printer(ctx: CommandContext, now_ms: int, kinds: list[str], *, ends: bool = False) -> EventPrinter:
    # Since and until are compared with the server's times, the entries' ids; an event's own time is its teller's.
    judge = ctx.filters.compile(now_ms)
    columns = [column("entry_id")] if ctx.output is Format.NAME else COLUMNS
    return EventPrinter(ctx, RecordStreamWriter.open(columns, ctx.output_style(now_ms), ends=ends), judge, kinds)


def _start_id(judge: RecordFilter, start: str) -> str:
    """Where reading begins: after the last id of the millisecond before."""
    return start if judge.since_ms is None else f"{max(0, judge.since_ms - 1)}-18446744073709551615"


def _print_past(ctx: CommandContext, names: list[str], start: str, kinds: list[str]) -> None:
    import heapq

    from chasqui_cli.queues.targets import discover_native_queues

    with ctx.session() as session:
        now_ms = session.server_now_ms()
        press = _event_printer(ctx, now_ms, kinds, ends=True)
        queues = names or discover_native_queues(ctx, session)
        _print_reach(ctx, session, queues, now_ms)
        streams = [_read_events(session, queue, _start_id(press.judge, start)) for queue in queues]
        for order, _, item in heapq.merge(*streams, key=lambda one: one[:2]):
            if press.judge.until_ms is not None and order[0] > press.judge.until_ms:
                break
            if press.scanned >= ctx.filters.scan:
                ctx.info(f"stopped after {press.scanned:,} events; --scan looks at more")
                break
            press.print_item(item, now_ms)
        press.writer.close()


def _read_events(session: Session, queue: str, start: str) -> Iterator[tuple[tuple[int, int], int, StoredEvent | Gap]]:
    """A queue's events up to the last one there is now, page by page; each with its order."""
    from chasqui import Keys, entry_order
    from chasqui.inspect import events as asks
    from chasqui.inspect.events import Gap

    [end] = session.query(asks.read_extents, [Keys(queue)])
    [position] = session.query(asks.start_positions, [Keys(queue)], start)
    last = entry_order(getattr(end, "last_id", None) or "0-0")
    more = True
    while more:
        [haul] = session.query(asks.read_after, [position], count=PAGE_SIZE)
        if haul.error:
            raise haul.error
        for number, item in enumerate(haul.items):
            at = entry_order(item.to_id if isinstance(item, Gap) else item.entry_id)
            if at > last:
                return
            yield at, number, item
        position, more = haul.position, haul.more


def _print_reach(ctx: CommandContext, session: Session, queues: list[str], now_ms: int) -> None:
    from chasqui import Keys
    from chasqui.inspect import events as asks

    shown = queues[:MAX_REACH_LINES]
    reaches = session.query(asks.read_extents, [Keys(queue) for queue in shown]) if shown else []
    for queue, found in zip(shown, reaches, strict=True):
        ctx.info(f"{queue}: {_reach_text(found, now_ms)}")
    if len(queues) > MAX_REACH_LINES:
        ctx.info(f"… and {len(queues) - MAX_REACH_LINES} more queues")


def _reach_text(found: StreamExtent | ServerError, now_ms: int) -> str:
    from chasqui import ServerError, entry_time_ms

    if isinstance(found, ServerError):
        return str(found)
    if found.first_id is None:
        return "no events are kept"
    return (
        f"events reach back {format_duration(max(0, now_ms - entry_time_ms(found.first_id)))}, {found.length:,} of them"
    )


async def _follow_events(ctx: CommandContext, names: list[str], start: str | None, kinds: list[str]) -> None:
    """Every event from there on, until interrupted."""
    import asyncio

    from chasqui.queue_events import EventFollower
    from chasqui_cli.queues.follow_new_queues import follow_new_queues
    from chasqui_cli.queues.targets import discover_native_queues

    with ctx.session() as session:
        now_ms = session.server_now_ms()
        press = _event_printer(ctx, now_ms, kinds)
        queues = names or discover_native_queues(ctx, session)
        _print_reach(ctx, session, queues, now_ms)
    async with ctx.async_link() as link:
        begin = _start_id(press.judge, start or NEWEST)
        tail = EventFollower(link, queues, last_event_id=begin)
        await tail.start()
        watcher = None if names else asyncio.ensure_future(follow_new_queues(link, tail, set(queues)))
        try:
            async for item in tail:
                press.print_item(item)
        finally:
            if watcher:
                watcher.cancel()
