"""Delayed jobs run, cancelled or moved: shown first, written down next, then changed by their exact bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.delayed._record import CHANGE_COLUMNS, delayed_job_record
from chasqui_cli.commands.delayed._search import find_delayed
from chasqui_cli.output.records import job_id
from chasqui_cli.output.times import format_iso

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui import Keys
    from chasqui.operate.delayed_jobs import DelayedJob
    from chasqui.undo.changed_delayed_jobs import DelayedAction
    from chasqui_cli.changes.apply import Item, Outcome
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session

    TimedJob = tuple[DelayedJob, int]


@dataclass(frozen=True, slots=True)
class DelayedChange:
    """One way to change delayed jobs: what it is called before, after, and in a dry run.

    target: where a job is moved to, given the server's time.
    """

    action: DelayedAction
    headline_verb: str
    done: str
    intended: str = ""
    target: Callable[[DelayedJob, int], int] | None = None

    def applies_to(self, member: DelayedJob) -> bool:
        """Bytes that are not a job can be cancelled and moved, but not run."""
        return self.action != "run" or job_id(member) is not None

    def effects(self, times: Sequence[int], unfit: int) -> list[str]:
        """What follows, in sentences."""
        sentences = {
            "run": "workers take them as soon as they come to them; `chasqui undo` helps until then",
            "cancelled": "they will not run; `chasqui undo` puts them back",
            "moved": f"due from {format_iso(min(times))} to {format_iso(max(times))}" if self.target and times else "",
        }
        left = [f"{unfit} are no jobs and cannot be run; `chasqui delayed cancel` removes them"] if unfit else []
        return [sentences[self.action], *left]

    def batch_change(self, session: Session, keys: Keys) -> BatchChange[TimedJob]:
        """How it is done to jobs, each with the time it is moved to."""
        from chasqui.operate import delayed_jobs
        from chasqui.undo import changed_delayed_jobs, stream_search

        def journal_items(some: Sequence[TimedJob]) -> Sequence[Item]:
            end = session.run(stream_search.stream_end, keys)
            saved = session.run(changed_delayed_jobs.read_saved_jobs, keys, [one for one, _ in some])
            times = [at_ms for _, at_ms in some] if self.target else []
            return changed_delayed_jobs.items(saved, self.action, end=end, times=times)

        def apply(some: Sequence[TimedJob]) -> list[Outcome]:
            members, times = [one for one, _ in some], [at_ms for _, at_ms in some]
            if self.action == "run":
                entries = session.run(delayed_jobs.run_now, keys, members)
                return [{"outcome": self.done if one else "gone", "entry_id": one} for one in entries]
            if self.action == "cancelled":
                removed = session.run(delayed_jobs.cancel_delayed_jobs, keys, members)
                return [{"outcome": self.done if one else "gone"} for one in removed]
            moved = zip(session.run(delayed_jobs.move_delayed_jobs, keys, members, times), times, strict=True)
            return [{"outcome": self.done if one else "gone", "moved_to_ms": at_ms} for one, at_ms in moved]

        return BatchChange(
            self.done,
            apply,
            journal_items,
            title=f"{self.headline_verb} in {keys.queue}",
            dry_run_word=self.intended,
            page_size=delayed_jobs.PAGE_SIZE,
        )


def change_delayed(
    ctx: CommandContext, queue: str, ids: Sequence[str], limit: int | None, change: DelayedChange, *, every: bool
) -> None:
    """Find what is meant, show it, change it if that is confirmed, and report what became of each."""
    from chasqui import Keys
    from chasqui.errors import ArgumentError

    if not (ids or every or limit) and ctx.filters.matches_everything:
        raise ArgumentError("that would be every delayed job", hint="name ids, give a filter, or say --all")
    with ctx.session() as session:
        now_ms = session.server_now_ms()
        found = find_delayed(ctx, session, queue, ids, now_ms, limit)
        members = [one for one in found if change.applies_to(one)]
        records = [delayed_job_record(ctx, queue, one) for one in members]
        unfit = [delayed_job_record(ctx, queue, one) for one in found if not change.applies_to(one)]
        times = [change.target(one, now_ms) if change.target else 0 for one in members]
        effects = change.effects(times, len(unfit))
        plan = ChangePlan(
            change.headline_verb, queue, "delayed jobs", records, CHANGE_COLUMNS[:3], str(ctx.filters), effects
        )
        timed = list(zip(members, times, strict=True))
        outcomes = apply_change(ctx, plan, timed, change.batch_change(session, Keys(queue)), now_ms=now_ms)
    done = [record | one for record, one in zip(records, outcomes, strict=True)]
    done += [record | {"outcome": "undecodable"} for record in unfit]
    ctx.write_outcomes(done, CHANGE_COLUMNS, now_ms=now_ms)


JobIdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Which jobs; those that are no jobs by the `~` and digits of `list`."),
]


AllOption = Annotated[bool, typer.Option("--all", help="Every delayed job, if neither ids nor a filter say which.")]


LimitOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The first N that match only.")]
