"""`chasqui log`: what was changed from here, by whom and by which command, newest first."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.columns import column
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, offline
from chasqui_cli.shapes import Sometimes
from chasqui_cli.times import moment_ms

if TYPE_CHECKING:
    from chasqui_cli.columns import Record
    from chasqui_cli.journal import Entry

app = typer.Typer(add_completion=False, rich_markup_mode=None)

OPERATION = {
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
    "items": Sometimes(["any"]),
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
ITEM_COLUMNS = [column("number"), column("kind"), column("item")]


@app.command()
@offline(shape=OPERATION)
def log(
    desk: Desk,
    op: Annotated[
        str | None,
        typer.Argument(metavar="[OP]", help="One operation, with what it kept; its id may be cut short."),
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Changes to this queue.", autocompletion=queue_names)
    ] = None,
    verb: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Changes by this verb: 'dlq purge'.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 5m (ago), ISO-8601.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show so many at most.")] = 50,
) -> None:
    """List what was changed with chasqui from this account, newest first; or show one operation with its items.

    The journal is on this machine, so its times are this machine's. `result` is empty for an operation that was cut off.
    """
    from chasqui import SystemClock

    now_ms = SystemClock().now_ms()
    journal = desk.journal()
    if op is not None:
        entry = journal.entry(op)
        items = list(journal.items(entry))
        desk.emit_one(_record(entry) | {"items": items}, [*COLUMNS, column("items")], now_ms=now_ms)
        return
    since_ms = moment_ms(since, now_ms, "past") if since else 0
    found = [
        _record(entry)
        for entry in reversed(journal.entries())
        if entry.operation.at_ms >= since_ms
        and queue in (None, entry.operation.queue)
        and verb in (None, entry.operation.verb)
    ]
    desk.emit(found[:limit], COLUMNS, now_ms=now_ms)
    if len(found) > limit:
        desk.say(f"{len(found) - limit:,} older operations are not shown; --limit N shows more")


def _record(entry: Entry) -> Record:
    return asdict(entry.operation) | {"kept": entry.items, "result": entry.result, "undone": entry.undone}
