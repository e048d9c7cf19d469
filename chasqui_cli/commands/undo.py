"""`chasqui undo`: take a change back, item by item. How an item is taken back is the engine's to know, by its kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.kept import command_line, what
from chasqui_cli.safe import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui import Flow, Keys
    from chasqui_cli.columns import Record
    from chasqui_cli.journal import Entry, Item
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

FLOWS = {
    "dead": "chasqui.restoring:put_back",
    "replayed": "chasqui.restoring:take_back",
    "imported": "chasqui.restoring:take_out",
    "delayed": "chasqui.delaying:put_back",
    "spec": "chasqui.repeatable:put_back",
    "added": "chasqui.withdrawal:take_back",
    "rsmq": "chasqui.foreign.rsmq.deeds:put_back",
    "joblist": "chasqui.foreign.joblist.restoring:put_back",
}
"""Each takes commands, keys, the operation and items, and answers a word for each; running it twice is running it once."""
DONE = ("restored", "removed", "cancelled", "already", "untouched")
WHY_NOT = {
    "gone": "it is not where the change put it: a worker has had it, or somebody else changed it",
    "started": "a worker has read it already",
    "changed": "it is not as the change left it; what stands there now is newer, and stays",
    "unknown kind": "another version of chasqui wrote it down",
}
UNDONE = {"number": "int", "kind": "str", "what": "str", "outcome": "str"}
COLUMNS = [column("number"), column("kind"), column("what"), column("outcome")]
AT_ONCE = 200
LINE_SHOWN = 200
"""Of the command line that is taken back, so many characters: it may name thousands of ids."""


@app.command()
@at_desk(shape=UNDONE, changes=True)
def undo(
    desk: Desk,
    op: Annotated[
        str,
        typer.Argument(metavar="OP", help="Which operation, as `chasqui log` lists it; may be cut short."),
    ],
    here: Annotated[
        bool, typer.Option("--here", help="On this server, though the operation was made at another URL.")
    ] = False,
) -> None:
    """Take an operation back, as far as that is still possible: deleted letters return, replayed jobs that nobody has
    read are dead letters again.

    Each item is restored once, also when an undo is killed and run again. What could not be taken back is told with the
    reason, and the exit code is 3.
    """
    from chasqui import Keys

    entry = desk.journal().entry(op)
    _refuse_undone(desk, entry)
    desk = _at_its_server(desk, entry, here=here)
    items = list(enumerate(desk.journal().items(entry)))
    records = [_record(number, item) for number, item in items]
    made = entry.operation
    plan = Plan(
        "undo",
        made.queue,
        f"items of {made.op} ({made.verb})",
        records,
        COLUMNS[:-1],
        effects=[
            f"it was: {safe(command_line(desk, made.command), LINE_SHOWN)}",
            "what has moved on in the meantime stays as it is, and is told",
        ],
    )
    if not desk.agrees(plan):
        desk.emit([one | {"outcome": "would undo"} for one in records], COLUMNS)
        return
    with desk.session() as session, desk.written_down("undo", made.queue) as pen:
        told = _undone(desk, session, Keys(made.queue), entry, items)
        counts = Counter(one["outcome"] for one in told)
        pen.tell(undoes=made.op, **counts)
        if any(one["outcome"] in DONE for one in told):
            desk.journal().mark_undone(entry, pen.operation.op)
    desk.say("  ".join(f"{outcome} {count:,}" for outcome, count in counts.items()))
    for outcome in counts.keys() & WHY_NOT.keys():
        desk.say(f"{outcome}: {WHY_NOT[outcome]}")
    desk.emit(told, COLUMNS)
    if any(one["outcome"] not in DONE for one in told):
        raise typer.Exit(3)


def _refuse_undone(desk: Desk, entry: Entry) -> None:
    from chasqui.errors import Refused

    if entry.undone:
        command = command_line(desk, entry.operation.command)
        raise Refused(
            f"{entry.operation.op} was undone already",
            hint=f"`chasqui log {entry.operation.op}` tells more; to change it again, repeat: {command}",
        )


def _at_its_server(desk: Desk, entry: Entry, *, here: bool) -> Desk:
    """The desk, at the server the operation was made on: its context is used where no other server was named."""
    from chasqui import redact
    from chasqui.errors import Refused

    made = entry.operation
    if made.context and not desk.given.names_a_server:
        desk = replace(desk, given=replace(desk.given, context=made.context))
    url = redact(desk.settings().url)
    if url != made.url and not here:
        raise Refused(
            f"{made.op} was made at {made.url}, and this is {url}",
            hint=f"name that server: -u {made.url}; or say --here if it is the same one",
        )
    return desk


def _record(number: int, item: Item) -> Record:
    return {"number": number, "kind": item.get("kind", ""), "what": what(item)}


def _undone(
    desk: Desk, session: Session, keys: Keys, entry: Entry, items: Sequence[tuple[int, Item]]
) -> list[Record]:
    """What became of each item, in the order they were kept."""
    outcomes = {number: "untouched" for number, item in items if "untouched" in item}
    with desk.progress("undoing", len(items)) as advance:
        for kind in dict.fromkeys(item.get("kind", "") for _, item in items):
            flow = _flow(kind)
            mine = [(n, item) for n, item in items if item.get("kind", "") == kind and n not in outcomes]
            for start in range(0, len(mine), AT_ONCE):
                some = mine[start : start + AT_ONCE]
                answers = (
                    session.run(flow, keys, entry.operation.op, [item for _, item in some])
                    if flow
                    else ["unknown kind"] * len(some)
                )
                outcomes |= {number: answer for (number, _), answer in zip(some, answers, strict=True)}
                advance(len(outcomes))
    return [_record(number, item) | {"outcome": outcomes[number]} for number, item in items]


def _flow(kind: str) -> Callable[..., Flow[list[str]]] | None:
    """How items of this kind are taken back; None for one that another chasqui may have written."""
    module, _, name = FLOWS.get(kind, "").partition(":")
    try:
        return getattr(import_module(module), name, None) if module else None
    except ModuleNotFoundError:
        return None
