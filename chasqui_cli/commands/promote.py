"""`chasqui promote`: move due jobs to the stream, once or for as long as it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands._run_leader import confirm_leading, force_unlock, run_leader
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record


PROMOTE_SCHEMA = {"queue": "str", "promoted": "int", "quarantined": "int", "left": "int", "lag_ms": "int"}
COLUMNS: list[Column] = [
    column("queue"),
    column("promoted", kind="count"),
    column("quarantined", kind="count"),
    column("left", kind="count"),
    column("lag", "lag_ms", kind="span"),
]


@command("promote", schema=PROMOTE_SCHEMA, many=False, changes=True, asks="protected", endless=("forever",))
def promote(
    ctx: CommandContext,
    queue: Annotated[str, typer.Argument(help="Which queue.", autocompletion=complete_queues)],
    forever: Annotated[bool, typer.Option("--follow", help="Stay, and promote while no other promoter leads.")] = False,
    unlock: Annotated[
        bool, typer.Option("--force-unlock", help="First take away a lock that would never end.")
    ] = False,
) -> None:
    """Move all jobs that are due to the stream, and say how many; with --follow, until SIGTERM or Ctrl-C.

    It does what every worker does. What is due is decided by the server's clock.
    """
    from chasqui import Keys

    keys = Keys(queue)
    with ctx.session() as session:
        if unlock:
            force_unlock(ctx, session, queue, keys.promoter_lock, "promoter")
        if ctx.change_options.dry_run:
            record = _count_due(session, queue)
            ctx.change_result.queue, ctx.change_result.planned = queue, record["promoted"]
            ctx.write_record(record, COLUMNS)
            ctx.info("dry run: so many would be promoted; nothing was changed")
            return
        if not confirm_leading(ctx, queue, "promoter", lambda: _plan(session, queue), forever=forever):
            ctx.write_record(_count_due(session, queue) | {"promoted": 0}, COLUMNS)
            return
        if not forever:
            _run_journaled(ctx, queue, lambda: _promote_due(session, queue))
            return
    _run_journaled(ctx, queue, lambda: _follow(ctx, queue))


def _run_journaled(ctx: CommandContext, queue: str, run: Callable[[], Record]) -> None:
    with ctx.optional_journal_operation(queue) as journal:
        record = run()
        ctx.change_result.done = record["promoted"]
        if journal:
            journal.set_result(promoted=record["promoted"], quarantined=record["quarantined"])
    ctx.write_record(record, COLUMNS)


def _plan(session: Session, queue: str) -> ChangePlan:
    return ChangePlan("promote", queue, "delayed jobs", [{}] * _count_due(session, queue)["promoted"], chosen_by="due")


def _follow(ctx: CommandContext, queue: str) -> Record:
    from chasqui import Keys
    from chasqui.schedule.promoter import Promoter

    state = run_leader(ctx, queue, lambda link: Promoter(link, Keys(queue)))
    with ctx.session() as session:
        return _count_due(session, queue) | {name: state.counts.get(name, 0) for name in ("promoted", "quarantined")}


def _promote_due(session: Session, queue: str) -> Record:
    """Batch after batch, until nothing is due."""
    from chasqui import Keys
    from chasqui.defaults import PromoterOptions as Options
    from chasqui.schedule.promoter import promote

    options, moved, quarantined = Options(), 0, 0
    while True:
        done = session.run(promote, Keys(queue), options, event_ts_ms=session.server_now_ms())
        moved, quarantined = moved + done.count, quarantined + done.quarantined
        if done.count + done.quarantined < options.batch:
            values = (queue, moved, quarantined, done.depth, done.lag_ms)
            return dict(zip(PROMOTE_SCHEMA, values, strict=True))


def _count_due(session: Session, queue: str) -> Record:
    """How many are due, without moving one."""
    from chasqui import Keys
    from chasqui.inspect import snapshot

    seen = session.query(snapshot.take_snapshot, Keys(queue))
    values = (queue, seen.delayed_due, 0, seen.delayed_depth, seen.oldest_delayed_lag_ms)
    return dict(zip(PROMOTE_SCHEMA, values, strict=True))
