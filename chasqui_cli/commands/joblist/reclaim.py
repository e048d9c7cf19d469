"""`chasqui joblist reclaim`: puts jobs of workers that are gone back on the pending list."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.joblist._change import CHANGE_SCHEMA, COLUMNS
from chasqui_cli.commands.joblist._options import (
    HistoryOption,
    QueueArgument,
    TtlOption,
    VisibilityOption,
    joblist_keys,
    joblist_options,
    require_queue,
)
from chasqui_cli.context.command_context import CommandContext, command

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record


@command("joblist reclaim", schema=CHANGE_SCHEMA, changes=True, failed=("changed",))
def reclaim(
    ctx: CommandContext,
    queue: QueueArgument,
    visibility: VisibilityOption = "5s",
    max_attempts: Annotated[
        int | None,
        typer.Option("--max-attempts", min=1, metavar="N", help="Jobs claimed so often go to failed instead."),
    ] = None,
    drop_orphans: Annotated[
        bool, typer.Option("--drop-orphans", help="Remove ids without a job from the processing list.")
    ] = False,
    ttl: TtlOption = "5m",
    history: HistoryOption = 50,
) -> None:
    """Put jobs whose workers are gone back on the pending list. Ids that cannot be judged are skipped and told.

    A claim must still be the one that was shown; what became stale since is left for the next time. It cannot be
    undone: the next worker claims the job.
    """
    from chasqui.foreign import check_same_slot, joblist

    keys, options = joblist_keys(queue), joblist_options(visibility, ttl, history)
    with ctx.session() as session:
        check_same_slot(session.link, keys)
        require_queue(session, keys)
        planned = session.link.run(
            joblist.reclaim(keys, options=options, dry_run=True, give_up_at=max_attempts, drop_orphans=drop_orphans)
        )
        meant = {*planned.moved, *planned.failed, *planned.dropped}
        why = _stale_reasons(session, keys, options.visibility_ms)
        rows = _records(planned, why, would=True)
        changes = [row for row in rows if row["id"] in meant]
        effects = [f"{len(planned.skipped)} ids cannot be judged and stay; see chasqui joblist doctor {queue}"]
        plan = ChangePlan(
            "reclaim", queue, "claims", changes, COLUMNS, f"--visibility {visibility}", effects[: len(planned.skipped)]
        )
        if ctx.confirm(plan):

            def rule(held: Any, now_ms: int, visibility_ms: int) -> Any:
                decision = joblist.guide_rule(held, now_ms, visibility_ms)
                return decision if held.id in meant or decision == "broken" else "live"

            with ctx.journal_operation(queue) as journal:
                done = session.link.run(
                    joblist.reclaim(
                        keys, options=options, rule=rule, give_up_at=max_attempts, drop_orphans=drop_orphans
                    )
                )
                rows = _records(done, why, would=False)
                known = {row["id"] for row in rows}
                rows += [_record(one, "changed", why.get(one)) for one in sorted(meant - known)]
                rows += [
                    _record(one.claim.id, "skipped", one.reason) for one in planned.skipped if one.claim.id not in known
                ]
                journal.done = sum(map(len, (done.moved, done.failed, done.dropped)))
                journal.set_result(**Counter(row["outcome"] for row in rows))
    if planned.skipped:
        ctx.info(f"skipped {len(planned.skipped)} ids that cannot be judged; see chasqui joblist doctor {queue}")
    ctx.write_outcomes(rows, COLUMNS)


def _stale_reasons(session: Session, keys: JobListKeys, visibility_ms: int) -> dict[str, str]:
    from chasqui.foreign import joblist

    judged, _ = session.link.run(joblist.judge_claims(keys, visibility_ms=visibility_ms))
    return {one.claim.id: one.reason for one in judged}


def _records(result: Any, why: dict[str, str], *, would: bool) -> list[Record]:
    words = {
        "moved": "would reclaim" if would else "reclaimed",
        "failed": "would fail" if would else "failed",
        "dropped": "would drop" if would else "dropped",
        "changed": "changed",
    }
    rows = [_record(one, word, why.get(one)) for name, word in words.items() for one in getattr(result, name)]
    return rows + [_record(one.claim.id, "skipped", one.reason) for one in result.skipped]


def _record(job_id: str, outcome: str, why: str | None) -> Record:
    return {"id": job_id, "list": "processing", "outcome": outcome, "why": why}
