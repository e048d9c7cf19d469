"""`chasqui log`: what was changed from here, by whom and by which command, newest first."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.journal_items import item_label, readable_item, redacted_command
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.columns import column
from chasqui_cli.output.json_schema import OptionalKey
from chasqui_cli.output.times import parse_time_ms
from chasqui_cli.output.writer import Format

if TYPE_CHECKING:
    from chasqui_cli.changes.journal import JournalEntry, JournalItem
    from chasqui_cli.output.columns import Record


OPERATION_SCHEMA = {
    "op": "str",
    "at_ms": "int",
    "user": "str",
    "host": "str",
    "verb": "str",
    "queue": "str",
    "url": "str",
    "context": "str?",
    "note": "str?",
    "command": "str",
    "kept": "int",
    "result": "any",
    "undone": "bool",
    "items": OptionalKey(["any"]),
}
COLUMNS = [
    column("op"),
    column("when", "at_ms", kind="moment"),
    column("verb"),
    column("queue"),
    column("kept", kind="count"),
    column("result"),
    column("undone"),
    column("note"),
    column("user", wide=True),
    column("host", wide=True),
    column("context", wide=True),
    column("url", wide=True),
    column("command", wide=True),
]
ITEM_COLUMNS = [column("number"), column("kind"), column("what"), column("item")]


@command("log", server=False, schema=OPERATION_SCHEMA, payloads=True, effect=Effect.READS_LOCAL)
def log(
    ctx: CommandContext,
    op: Annotated[
        str | None, typer.Argument(metavar="[OP]", help="One operation, with what it kept; its id may be cut short.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Changes to this queue.", autocompletion=complete_queues)
    ] = None,
    verb: Annotated[str | None, typer.Option(metavar="WORDS", help="Changes by this verb: 'dlq purge'.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="From then on: 5m (ago), ISO-8601.")] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show so many at most.")] = 50,
) -> None:
    """List what was changed with chasqui from this account, newest first; or show one operation with its items.

    The journal is on this machine, so its times are this machine's. `result` is empty for an operation that was cut off.
    """
    from chasqui import SystemClock

    now_ms = SystemClock().now_ms()
    journal = ctx.journal()
    if op is not None:
        entry = journal.entry(op)
        _print_operation(ctx, _operation_record(ctx, entry), list(journal.items(entry)), limit, now_ms)
        return
    since_ms = parse_time_ms(since, now_ms, "past") if since else 0
    found = [
        _operation_record(ctx, entry)
        for entry in reversed(journal.entries())
        if entry.operation.at_ms >= since_ms
        and queue in (None, entry.operation.queue)
        and verb in (None, entry.operation.verb)
    ]
    ctx.write_records(found[:limit], COLUMNS, now_ms=now_ms)
    if len(found) > limit:
        ctx.info(f"{len(found) - limit:,} older operations are not shown; --limit N shows more")


def _print_operation(ctx: CommandContext, record: Record, items: list[JournalItem], limit: int, now_ms: int) -> None:
    """One operation: an object for programs, for people two tables."""
    if ctx.output not in (Format.TABLE, Format.WIDE):
        shown = [readable_item(ctx, item) for item in items]
        ctx.write_record(record | {"items": shown}, [*COLUMNS, column("items")], now_ms=now_ms)
        return
    ctx.write_record(record, COLUMNS, now_ms=now_ms)
    rows = [
        {
            "number": number,
            "kind": item.get("kind"),
            "what": item_label(item),
            "item": {name: value for name, value in readable_item(ctx, item).items() if name != "kind"},
        }
        for number, item in enumerate(items[:limit])
    ]
    if rows:
        ctx.write_records(rows, ITEM_COLUMNS)
    if len(items) > limit:
        ctx.info(f"{len(items) - limit:,} more items are not shown; --limit N shows more, -o json shows all")


def _operation_record(ctx: CommandContext, entry: JournalEntry) -> Record:
    """An operation. Its command line is a text as any other: a payload may stand in it."""
    fields = asdict(entry.operation)
    return fields | {
        "note": ctx.redacted(entry.operation.note),
        "command": redacted_command(ctx, entry.operation.command),
        "kept": entry.items,
        "result": ctx.redacted(entry.result),
        "undone": entry.undone,
    }
