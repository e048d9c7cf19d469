"""`chasqui schedule`: fire repeatable jobs that are due, once or for as long as it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands._run_leader import confirm_leading, force_unlock, run_leader
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.exit_codes import ExitCode
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui import AsyncLink
    from chasqui.schedule.scheduler import Scheduler, TickResult
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record


SCHEDULE_SCHEMA = {
    "queue": "str",
    "fired": "int",
    "missed": "int",
    "removed": "int",
    "overdue": "int",
    "bad": [{"key": "str", "why": "str"}],
}
COLUMNS: list[Column] = [
    column("queue"),
    column("fired", kind="count"),
    column("missed", kind="count"),
    column("removed", kind="count"),
    column("overdue", kind="count"),
    column("bad"),
]


@command("schedule", schema=SCHEDULE_SCHEMA, many=False, changes=True, asks="protected", endless=("forever",))
def schedule(
    ctx: CommandContext,
    queue: Annotated[str, typer.Argument(help="Which queue.", autocompletion=complete_queues)],
    forever: Annotated[
        bool, typer.Option("--follow", help="Stay, and schedule while no other scheduler leads.")
    ] = False,
    unlock: Annotated[
        bool, typer.Option("--force-unlock", help="First take away a lock that would never end.")
    ] = False,
) -> None:
    """Fire all repeatable jobs that are due, and say how many; with --follow, until SIGTERM or Ctrl-C.

    Times that have passed are treated by each schedule's own rule for missed fires. What cannot be fired is told, and
    stays as it is: then the exit code is 3.
    """
    from chasqui import Keys

    keys = Keys(queue)
    with ctx.session() as session:
        if unlock:
            force_unlock(ctx, session, queue, keys.scheduler_lock, "scheduler")
        if ctx.change_options.dry_run:
            record = _count_overdue(session, queue)
            ctx.change_result.queue, ctx.change_result.planned = queue, record["overdue"]
            ctx.write_record(record, COLUMNS)
            ctx.info("dry run: so many schedules would fire, being overdue; nothing was changed")
            return
        if not confirm_leading(ctx, queue, "scheduler", lambda: _plan(session, queue), forever=forever):
            ctx.write_record(_count_overdue(session, queue), COLUMNS)
            return
    with ctx.optional_journal_operation(queue) as journal:
        counts, bad = _follow(ctx, queue) if forever else _fire_due(ctx, queue)
        fired_counts = {name: counts.get(name, 0) for name in ("fired", "missed", "removed")}
        ctx.change_result.done = fired_counts["fired"]
        if journal:
            journal.set_result(**fired_counts)
    with ctx.session() as session:
        record = _count_overdue(session, queue) | fired_counts
    ctx.write_record(record | {"bad": [{"key": one.key, "why": one.reason} for one in bad]}, COLUMNS)
    if bad:
        raise typer.Exit(ExitCode.PARTLY)


def _plan(session: Session, queue: str) -> ChangePlan:
    return ChangePlan("fire", queue, "schedules", [{}] * _count_overdue(session, queue)["overdue"], chosen_by="due")


def _follow(ctx: CommandContext, queue: str) -> tuple[dict[str, int], tuple[Any, ...]]:
    from chasqui import Keys
    from chasqui.schedule.scheduler import Scheduler

    made: list[Scheduler] = []

    def make(link: AsyncLink) -> Scheduler:
        made.append(Scheduler(link, Keys(queue)))
        return made[0]

    counts = dict(run_leader(ctx, queue, make).counts)
    return counts, made[0].bad_specs if made else ()


def _fire_due(ctx: CommandContext, queue: str) -> tuple[dict[str, int], tuple[Any, ...]]:
    """Page after page, until nothing is due."""
    import asyncio

    return asyncio.run(_fire_due_async(ctx, queue))


async def _fire_due_async(ctx: CommandContext, queue: str) -> tuple[dict[str, int], tuple[Any, ...]]:
    from chasqui import Keys
    from chasqui.schedule.scheduler import Scheduler

    link = ctx.async_link()
    try:
        scheduler = Scheduler(link, Keys(queue))
        ticked: TickResult = await scheduler.tick()
        while ticked.has_more:
            ticked = await scheduler.tick()
        return dict(scheduler.state.counts), scheduler.bad_specs
    finally:
        await link.close()


def _count_overdue(session: Session, queue: str) -> Record:
    """How many are due, without firing one."""
    from chasqui import Keys
    from chasqui.inspect import snapshot

    seen = session.query(snapshot.take_snapshot, Keys(queue))
    return dict(zip(SCHEDULE_SCHEMA, (queue, 0, 0, 0, seen.repeatable_overdue, []), strict=True))
