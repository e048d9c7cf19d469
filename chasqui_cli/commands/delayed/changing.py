"""Delayed jobs run, cancelled or moved: shown first, written down next, then changed by their exact bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.commands.delayed.finding import found_jobs
from chasqui_cli.commands.delayed.records import CHANGE_COLUMNS, job_id, job_record
from chasqui_cli.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.delaying import Action, Member
    from chasqui_cli.desk import Desk
    from chasqui_cli.session import Session

PARTLY = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One way to change delayed jobs: what it is called before, after, and in a dry run.

    target: where a job is moved to, given the server's time.
    """

    action: Action
    verb: str
    done: str
    intended: str
    target: Callable[[Member, int], int] | None = None

    def fits(self, member: Member) -> bool:
        """What is no job can be cancelled and moved, but not run."""
        return self.action != "run" or job_id(member) is not None

    def effects(self, times: Sequence[int], unfit: int) -> list[str]:
        """What follows, in sentences."""
        told = {
            "run": "workers take them as soon as they come to them; `chasqui undo` helps until then",
            "cancelled": "they will not run; `chasqui undo` puts them back",
            "moved": f"due from {iso(min(times))} to {iso(max(times))}" if times else "",
        }
        left = (
            [f"{unfit} are no jobs and cannot be run; `chasqui delayed cancel` removes them"] if unfit else []
        )
        return [told[self.action], *left]

    def act(
        self, session: Session, queue: str, members: Sequence[Member], times: Sequence[int]
    ) -> list[dict[str, Any]]:
        """Do it; what came of each."""
        from chasqui import Keys, delaying

        keys = Keys(queue)
        if self.action == "run":
            entries = session.run(delaying.run_now, keys, members)
            return [{"outcome": self.done if one else "gone", "entry_id": one} for one in entries]
        if self.action == "cancelled":
            cut = session.run(delaying.cancel, keys, members)
            return [{"outcome": self.done if one else "gone"} for one in cut]
        moved = zip(session.run(delaying.move, keys, members, times), times, strict=True)
        return [{"outcome": self.done if one else "gone", "moved_to_ms": at} for one, at in moved]


def change_jobs(
    desk: Desk, queue: str, ids: Sequence[str], limit: int | None, change: Change, *, every: bool
) -> None:
    """Find what is meant, show it, change it if that is agreed to, and tell what came of each."""
    from chasqui.errors import ArgumentError

    if not (ids or every or limit) and desk.choice.is_everything:
        raise ArgumentError("that would be every delayed job", hint="name ids, give a filter, or say --all")
    with desk.session() as session:
        now_ms = session.now_ms()
        found = found_jobs(desk, session, queue, ids, now_ms, limit)
        members = [one for one in found if change.fits(one)]
        records = [job_record(desk, queue, one) for one in members]
        unfit = [job_record(desk, queue, one) for one in found if not change.fits(one)]
        times = [change.target(one, now_ms) for one in members] if change.target else []
        effects = change.effects(times, len(unfit))
        plan = Plan(
            change.verb, queue, "delayed jobs", records, CHANGE_COLUMNS[:3], str(desk.choice), effects
        )
        told: list[dict[str, Any]] = [{"outcome": change.intended}] * len(members)
        if desk.agrees(plan, now_ms=now_ms):
            told = _carried_out(desk, session, queue, members, times, change)
    done = [record | one for record, one in zip(records, told, strict=True)]
    done += [record | {"outcome": "undecodable"} for record in unfit]
    desk.emit(done, CHANGE_COLUMNS, now_ms=now_ms)
    if any(record["outcome"] in ("gone", "undecodable") for record in done):
        raise typer.Exit(PARTLY)


def _carried_out(
    desk: Desk,
    session: Session,
    queue: str,
    members: Sequence[Member],
    times: Sequence[int],
    change: Change,
) -> list[dict[str, Any]]:
    """Write down and act, page by page: whatever interrupts it, what was changed is in the journal."""
    from chasqui import Keys, delaying, withdrawal

    told: list[dict[str, Any]] = []
    with (
        desk.written_down(f"delayed {change.verb}", queue) as pen,
        desk.progress(f"{change.verb} in {queue}", len(members)) as advance,
    ):
        for start in range(0, len(members), delaying.AT_ONCE):
            page = slice(start, start + delaying.AT_ONCE)
            footing = session.run(withdrawal.footing, Keys(queue))
            known = session.run(delaying.known, Keys(queue), members[page])
            pen.keep(delaying.items(known, change.action, footing=footing, times=times[page]))
            told += change.act(session, queue, members[page], times[page])
            advance(len(told))
            pen.tell(**Counter(one["outcome"] for one in told))
    return told
