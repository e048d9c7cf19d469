"""`chasqui promote`: move due jobs to the stream, once or for as long as it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.leading import check_may_write, follow, force_unlock

if TYPE_CHECKING:
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PROMOTED = {"queue": "str", "promoted": "int", "quarantined": "int", "left": "int", "lag_ms": "int"}
COLUMNS: list[Column] = [
    column("queue"),
    column("promoted", kind="count"),
    column("quarantined", kind="count"),
    column("left", kind="count"),
    column("lag", "lag_ms", kind="span"),
]


@app.command()
@at_desk(shape=PROMOTED, many=False, changes=True)
def promote(
    desk: Desk,
    queue: Annotated[str, typer.Argument(help="Which queue.", autocompletion=queue_names)],
    forever: Annotated[
        bool, typer.Option("--follow", help="Stay, and promote while no other promoter leads.")
    ] = False,
    unlock: Annotated[
        bool, typer.Option("--force-unlock", help="First take away a lock that would never end.")
    ] = False,
) -> None:
    """Move all jobs that are due to the stream, and say how many; with --follow, until SIGTERM or Ctrl-C.

    It does what every worker does. What is due is decided by the server's clock.
    """
    from chasqui import Keys

    if not desk.change.dry_run:
        check_may_write(desk, "promote")
    keys = Keys(queue)
    with desk.session() as session:
        if unlock:
            force_unlock(desk, session, queue, keys.promoter_lock, "promoter")
        if desk.change.dry_run or not forever:
            desk.emit_one(_look(session, queue) if desk.change.dry_run else _tick(session, queue), COLUMNS)
            if desk.change.dry_run:
                desk.say("dry run: so many would be promoted; nothing was changed")
            return
    from chasqui.promoter import Promoter

    state = follow(desk, queue, lambda link: Promoter(link, keys))
    with desk.session() as session:
        done = {name: state.counts.get(name, 0) for name in ("promoted", "quarantined")}
        desk.emit_one(_look(session, queue) | done, COLUMNS)


def _tick(session: Session, queue: str) -> Record:
    """Batch after batch, until nothing is due."""
    from chasqui import Keys
    from chasqui.options import Promoter as Options
    from chasqui.promoter import promote

    options, moved, quarantined = Options(), 0, 0
    while True:
        done = session.run(promote, Keys(queue), options, told_ms=session.now_ms())
        moved, quarantined = moved + done.count, quarantined + done.quarantined
        if done.count + done.quarantined < options.batch:
            told = (queue, moved, quarantined, done.depth, done.lag_ms)
            return dict(zip(PROMOTED, told, strict=True))


def _look(session: Session, queue: str) -> Record:
    """How many are due, without moving one."""
    from chasqui import Keys, snapshot

    seen = session.look(snapshot.one, Keys(queue))
    told = (queue, seen.delayed_due, 0, seen.delayed_depth, seen.oldest_delayed_lag_ms)
    return dict(zip(PROMOTED, told, strict=True))
