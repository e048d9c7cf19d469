"""Find delayed jobs: by id where there is an index, else by a bounded search of the set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.commands.delayed._record import delayed_job_record
from chasqui_cli.output.records import job_id, job_ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.operate.delayed_jobs import DelayedJob
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.session import Session


def find_delayed(
    ctx: CommandContext, session: Session, queue: str, ids: Sequence[str], now_ms: int, limit: int | None
) -> list[DelayedJob]:
    """The jobs, soonest first. Ids that are not found are reported; if all are missing, `NotFound` is raised."""
    from chasqui import Keys
    from chasqui.errors import NotFound
    from chasqui.operate import delayed_jobs

    judge = ctx.filters.compile(now_ms, "run_at_ms", "future")
    keys, wanted = Keys(queue), set(ids)
    known = (
        session.query(delayed_jobs.delayed_jobs_by_id, keys, [one for one in ids if not one.startswith("~")])
        if ids
        else {}
    )
    rest = wanted - set(known)

    def is_wanted(member: DelayedJob) -> bool:
        if ids and job_ref(member) not in rest and job_id(member) not in rest:
            return False
        return judge(delayed_job_record(ctx, queue, member))

    found = [one for one in known.values() if judge(delayed_job_record(ctx, queue, one))]
    if rest or not ids:
        scanned = session.query(
            delayed_jobs.find_delayed_jobs,
            keys,
            is_wanted,
            from_ms=judge.since_ms,
            until_ms=judge.until_ms,
            max_scanned=ctx.filters.scan,
            max_matches=len(rest) if ids else limit,
        )
        if not scanned.complete and scanned.scanned >= ctx.filters.scan:
            ctx.info(f"looked at the first {scanned.scanned:,} delayed jobs only; --scan looks further")
        found += scanned.found
    missing = wanted - {job_ref(one) for one in found} - {job_id(one) for one in found}
    if missing and not found:
        raise NotFound(
            f"no delayed job {', '.join(sorted(missing))} in {queue}", hint=f"chasqui why {min(missing)} tells"
        )
    for one in sorted(missing):
        ctx.info(f"warning: there is no delayed job {one!r}")
    return sorted(found, key=lambda one: one.run_at_ms)[:limit]
