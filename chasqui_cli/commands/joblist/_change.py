"""`chasqui joblist enqueue`, `retry`, `cancel`, `move`, `purge` and `reclaim`: shown first, written down next, done then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.apply import BatchChange, apply_change
from chasqui_cli.changes.confirm import ChangePlan
from chasqui_cli.commands.joblist._options import (
    AllOption,
    HistoryName,
    HistoryOption,
    JobIdsArgument,
    ListName,
    QueueArgument,
    TtlOption,
    VisibilityOption,
    joblist_keys,
    joblist_options,
    require_queue,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.columns import column
from chasqui_cli.output.json_schema import OptionalKey

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import JobChanges
    from chasqui_cli.context.session import Session
    from chasqui_cli.output.columns import Record

CHANGE_SCHEMA: dict[str, Any] = {"id": "str", "list": "str", "outcome": "str", "why": "str?"}
COLUMNS = [column("id"), column("list"), column("outcome"), column("why")]
MAX_IDS = 100_000
TargetOption = Annotated[str, typer.Option("--to", metavar="QUEUE", help="The other queue.")]


@dataclass(frozen=True, slots=True)
class JobChange:
    """One way to change jobs of a list: its words, what follows, how it is done, and whether it can be undone."""

    verb: str
    success_word: str
    list_name: ListName
    effect: str
    apply: Callable[[Session, Sequence[str]], JobChanges]
    deletes: bool = False
    target: JobListKeys | None = None


ENQUEUE_SCHEMA = {"queue": "str", "id": "str?", "outcome": OptionalKey("str")}
"""`outcome` is told in a dry run: `would enqueue`."""


@command(changes=True, shape=ENQUEUE_SCHEMA, many=False)
def enqueue(
    desk: CommandContext,
    queue: QueueArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help="The payload as JSON; - reads stdin.")] = "{}",
    job_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="An id of one's own: adding it again adds nothing."),
    ] = None,
) -> None:
    """Enqueue a job; prints its id. `joblist cancel` takes it back while nobody has claimed it."""
    from chasqui.foreign import check_same_slot, joblist
    from chasqui_cli.commands._run_leader import require_writable
    from chasqui_cli.input.values import parse_json_argument
    from chasqui_cli.output.writer import Format, print_line

    payload = parse_json_argument(data, "DATA")
    if desk.change_options.dry_run:
        desk.info(f"would enqueue 1 job to {queue}")
        desk.info("dry run: nothing was changed")
        desk.write_record({"queue": queue, "id": job_id, "outcome": "would enqueue"})
        return
    require_writable(desk, "enqueue")
    with desk.session() as session:
        check_same_slot(session.link, joblist_keys(queue))
        added = session.link.run(
            joblist.enqueue(joblist_keys(queue), payload, now_ms=session.server_now_ms(), job_id=job_id)
        )
    if desk.output in (Format.TABLE, Format.WIDE, Format.NAME):
        from chasqui_cli.output.escape_text import safe

        print_line(safe(added))
    else:
        desk.write_record({"queue": queue, "id": added})


@command(shape=CHANGE_SCHEMA, changes=True)
def retry(
    desk: CommandContext,
    queue: QueueArgument,
    ids: JobIdsArgument = None,
    source: Annotated[HistoryName, typer.Option("--from", help="Which list.")] = "failed",
    at_once: Annotated[bool, typer.Option("--next", help="Before everything that waits.")] = False,
    keep_attempts: Annotated[
        bool, typer.Option("--keep-attempts", help="Let earlier attempts count; they begin anew by itself.")
    ] = False,
    every: AllOption = False,
) -> None:
    """Put failed or completed jobs back to work; their hashes stop expiring. What has expired is refused and told."""
    from chasqui.foreign import joblist

    keys = joblist_keys(queue)

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        flow = joblist.retry(keys, some, source=source, at_once=at_once, reset=not keep_attempts)
        return session.link.run(flow)

    effect = "workers take them as soon as they come to them; this cannot be undone, only cancelled"
    change_jobs(desk, keys, ids, JobChange("retry", "retried", source, effect, act), every=every)


@command(shape=CHANGE_SCHEMA, changes=True)
def cancel(desk: CommandContext, queue: QueueArgument, ids: JobIdsArgument = None, every: AllOption = False) -> None:
    """Delete pending jobs; what was claimed meanwhile runs. `chasqui undo` brings them back."""
    from chasqui.foreign import joblist

    keys = joblist_keys(queue)

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        return session.link.run(joblist.cancel(keys, some))

    effect = "they will not run; `chasqui undo` puts them at the end of the queue"
    change_jobs(desk, keys, ids, JobChange("cancel", "cancelled", "pending", effect, act, deletes=True), every=every)


@command(shape=CHANGE_SCHEMA, changes=True)
def move(
    desk: CommandContext,
    queue: QueueArgument,
    to: TargetOption,
    ids: JobIdsArgument = None,
    which: Annotated[ListName, typer.Option("--list", help="Which of the lists; not processing.")] = "pending",
    every: AllOption = False,
) -> None:
    """Move jobs to the same list of another queue, whole. Moving them back is the undo."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import joblist

    keys, target = joblist_keys(queue), joblist_keys(to)
    if keys == target:
        raise ArgumentError(f"{queue!r} cannot be moved to itself", hint="--to names another queue")
    if which == "processing":
        raise ArgumentError(
            "a claimed job is its worker's", hint="wait for it, or take it back: chasqui joblist reclaim"
        )

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        return session.link.run(joblist.move(keys, target, some, source=which))

    effect = f"they go to {to}; to undo it, move them back"
    change_jobs(desk, keys, ids, JobChange("move", "moved", which, effect, act, target=target), every=every)


@command(shape=CHANGE_SCHEMA, changes=True)
def purge(
    desk: CommandContext,
    queue: QueueArgument,
    which: Annotated[ListName, typer.Option("--list", help="Which of the four lists.")],
    held: Annotated[
        bool, typer.Option("--held", help="Also what workers hold: with --list processing that must be said.")
    ] = False,
    ids: JobIdsArgument = None,
) -> None:
    """Delete the jobs of one list, or some of them. `chasqui undo` brings them back."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import joblist

    if which == "processing" and not held:
        raise ArgumentError("workers hold these jobs", hint="add --held if they are meant")
    keys = joblist_keys(queue)

    def act(session: Session, some: Sequence[str]) -> JobChanges:
        return session.link.run(joblist.delete_jobs(keys, some, source=which))

    effect = "jobs that did not run will not; `chasqui undo` puts them at the end of their list"
    change_jobs(desk, keys, ids, JobChange("purge", "purged", which, effect, act, deletes=True), every=True)


def change_jobs(
    desk: CommandContext, keys: JobListKeys, ids: Sequence[str] | None, way: JobChange, *, every: bool
) -> None:
    """Find what is meant, show it, change it if that is agreed to, and tell what came of each."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import check_same_slot, joblist

    if not ids and not every:
        raise ArgumentError(f"that would be every {way.list_name} job", hint="name ids, or say --all")
    with desk.session() as session:
        check_same_slot(session.link, keys, *([way.target] if way.target else []))
        require_queue(session, keys)
        found = ids or session.link.run(joblist.list_ids(keys, way.list_name, limit=MAX_IDS))
        if not ids and len(found) == MAX_IDS:
            desk.info(f"looked at {MAX_IDS:,} ids and no further; repeat it for the rest")
        chosen = list(dict.fromkeys(found))
        rows: list[Record] = [{"id": one, "list": way.list_name} for one in chosen]
        by = "ids" if ids else ""
        plan = ChangePlan(way.verb, keys.queue, f"{way.list_name} jobs", rows, COLUMNS[:1], by, [way.effect])
        told = apply_change(desk, plan, chosen, _batch_change(session, keys, way))
    rows = [row | {"outcome": word, "why": _OUTCOME_REASONS.get(word)} for row, word in zip(rows, told, strict=True)]
    desk.write_records(rows, COLUMNS)
    if any(word in _OUTCOME_REASONS for word in told):
        raise typer.Exit(3)


def _batch_change(session: Session, keys: JobListKeys, way: JobChange) -> BatchChange[str]:
    from chasqui.foreign import joblist

    def act(some: Sequence[str]) -> list[str]:
        told = way.apply(session, some)
        words = dict.fromkeys(told.done, way.success_word) | dict.fromkeys(told.missing, "missing")
        words |= dict.fromkeys(told.expired, "expired") | dict.fromkeys(told.there, "there already")
        return [words[one] for one in some]

    def keep(some: Sequence[str]) -> list[dict[str, Any]]:
        return session.link.run(joblist.journal_items(keys, way.list_name, some))

    return BatchChange(f"joblist {way.verb}", way.success_word, act, keep if way.deletes else None)


_OUTCOME_REASONS = {
    "missing": "it is not in that list, or not any more",
    "expired": "its hash is gone: there is nothing to run",
    "there already": "the other queue has a job of this id",
}


@command(shape=CHANGE_SCHEMA, changes=True)
def reclaim(
    desk: CommandContext,
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
    with desk.session() as session:
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
            "reclaim",
            queue,
            "claims",
            changes,
            COLUMNS,
            f"--visibility {visibility}",
            effects[: len(planned.skipped)],
        )
        if desk.confirm(plan):

            def rule(held: Any, now_ms: int, visibility_ms: int) -> Any:
                verdict = joblist.guide_rule(held, now_ms, visibility_ms)
                return verdict if held.id in meant or verdict == "broken" else "live"

            with desk.journal_operation("joblist reclaim", queue) as pen:
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
                pen.set_result(**Counter(row["outcome"] for row in rows))
    if planned.skipped:
        desk.info(f"skipped {len(planned.skipped)} ids that cannot be judged; see chasqui joblist doctor {queue}")
    desk.write_records(rows, COLUMNS)
    if any(row["outcome"] == "changed" for row in rows):
        raise typer.Exit(3)


def _stale_reasons(session: Session, keys: JobListKeys, visibility_ms: int) -> dict[str, str]:
    from chasqui.foreign import joblist

    judged, _ = session.link.run(joblist.judge_claims(keys, visibility_ms=visibility_ms))
    return {one.claim.id: one.reason for one in judged}


def _records(told: Any, why: dict[str, str], *, would: bool) -> list[Record]:
    words = {
        "moved": "would reclaim" if would else "reclaimed",
        "failed": "would fail" if would else "failed",
        "dropped": "would drop" if would else "dropped",
        "changed": "changed",
    }
    rows = [_record(one, word, why.get(one)) for name, word in words.items() for one in getattr(told, name)]
    return rows + [_record(one.claim.id, "skipped", one.reason) for one in told.skipped]


def _record(job_id: str, outcome: str, why: str | None) -> Record:
    return {"id": job_id, "list": "processing", "outcome": outcome, "why": why}
