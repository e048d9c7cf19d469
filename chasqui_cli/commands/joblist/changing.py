"""`chasqui joblist enqueue`, `retry`, `cancel`, `move`, `purge` and `reclaim`: shown first, written down next, done then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes import Plan
from chasqui_cli.columns import column
from chasqui_cli.commands.joblist.naming import (
    All,
    History,
    HistoryLength,
    Ids,
    KeptFor,
    ListName,
    QueueName,
    Visibility,
    check_queue,
    keys_of,
    options_of,
)
from chasqui_cli.deeds import Deed, carry_out
from chasqui_cli.desk import Desk, at_desk
from chasqui_cli.shapes import Sometimes

if TYPE_CHECKING:
    from chasqui.foreign import JobListKeys
    from chasqui.foreign.joblist import Tended
    from chasqui_cli.columns import Record
    from chasqui_cli.session import Session

CHANGED: dict[str, Any] = {"id": "str", "list": "str", "outcome": "str", "why": "str?"}
COLUMNS = [column("id"), column("list"), column("outcome"), column("why")]
MOST = 100_000
To = Annotated[str, typer.Option("--to", metavar="QUEUE", help="The other queue.")]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to change jobs of a list: its words, what follows, how it is done, and whether it can be undone."""

    verb: str
    done: str
    which: ListName
    effect: str
    act: Callable[[Session, Sequence[str]], Tended]
    deletes: bool = False
    target: JobListKeys | None = None


ENQUEUED = {"queue": "str", "id": "str?", "outcome": Sometimes("str")}
"""`outcome` is told in a dry run: `would enqueue`."""


@at_desk(changes=True, shape=ENQUEUED, many=False)
def enqueue(
    desk: Desk,
    queue: QueueName,
    data: Annotated[str, typer.Argument(metavar="DATA", help="The payload as JSON; - reads stdin.")] = "{}",
    job_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="An id of one's own: adding it again adds nothing."),
    ] = None,
) -> None:
    """Enqueue a job; prints its id. `joblist cancel` takes it back while nobody has claimed it."""
    from chasqui.foreign import check_together, joblist
    from chasqui_cli.leading import check_may_write
    from chasqui_cli.output import Format, print_line
    from chasqui_cli.taking import json_value

    payload = json_value(data, "DATA")
    if desk.change.dry_run:
        desk.say(f"would enqueue 1 job to {queue}")
        desk.say("dry run: nothing was changed")
        desk.emit_one({"queue": queue, "id": job_id, "outcome": "would enqueue"})
        return
    check_may_write(desk, "enqueue")
    with desk.session() as session:
        check_together(session.link, keys_of(queue))
        added = session.link.run(
            joblist.enqueue(keys_of(queue), payload, now_ms=session.now_ms(), job_id=job_id)
        )
    if desk.output in (Format.TABLE, Format.WIDE, Format.NAME):
        from chasqui_cli.safe import safe

        print_line(safe(added))
    else:
        desk.emit_one({"queue": queue, "id": added})


@at_desk(shape=CHANGED, changes=True)
def retry(
    desk: Desk,
    queue: QueueName,
    ids: Ids = None,
    source: Annotated[History, typer.Option("--from", help="Which list.")] = "failed",
    at_once: Annotated[bool, typer.Option("--next", help="Before everything that waits.")] = False,
    keep_attempts: Annotated[
        bool, typer.Option("--keep-attempts", help="Let earlier attempts count; they begin anew by itself.")
    ] = False,
    every: All = False,
) -> None:
    """Put failed or completed jobs back to work; their hashes stop expiring. What has expired is refused and told."""
    from chasqui.foreign import joblist

    keys = keys_of(queue)

    def act(session: Session, some: Sequence[str]) -> Tended:
        flow = joblist.retry(keys, some, source=source, at_once=at_once, reset=not keep_attempts)
        return session.link.run(flow)

    effect = "workers take them as soon as they come to them; this cannot be undone, only cancelled"
    _change(desk, keys, ids, Way("retry", "retried", source, effect, act), every=every)


@at_desk(shape=CHANGED, changes=True)
def cancel(desk: Desk, queue: QueueName, ids: Ids = None, every: All = False) -> None:
    """Delete pending jobs; what was claimed meanwhile runs. `chasqui undo` brings them back."""
    from chasqui.foreign import joblist

    keys = keys_of(queue)

    def act(session: Session, some: Sequence[str]) -> Tended:
        return session.link.run(joblist.cancel(keys, some))

    effect = "they will not run; `chasqui undo` puts them at the end of the queue"
    _change(desk, keys, ids, Way("cancel", "cancelled", "pending", effect, act, deletes=True), every=every)


@at_desk(shape=CHANGED, changes=True)
def move(
    desk: Desk,
    queue: QueueName,
    to: To,
    ids: Ids = None,
    which: Annotated[
        ListName, typer.Option("--list", help="Which of the lists; not processing.")
    ] = "pending",
    every: All = False,
) -> None:
    """Move jobs to the same list of another queue, whole. Moving them back is the undo."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import joblist

    keys, target = keys_of(queue), keys_of(to)
    if keys == target:
        raise ArgumentError(f"{queue!r} cannot be moved to itself", hint="--to names another queue")
    if which == "processing":
        raise ArgumentError(
            "a claimed job is its worker's", hint="wait for it, or take it back: chasqui joblist reclaim"
        )

    def act(session: Session, some: Sequence[str]) -> Tended:
        return session.link.run(joblist.move(keys, target, some, source=which))

    effect = f"they go to {to}; to undo it, move them back"
    _change(desk, keys, ids, Way("move", "moved", which, effect, act, target=target), every=every)


@at_desk(shape=CHANGED, changes=True)
def purge(
    desk: Desk,
    queue: QueueName,
    which: Annotated[ListName, typer.Option("--list", help="Which of the four lists.")],
    held: Annotated[
        bool, typer.Option("--held", help="Also what workers hold: with --list processing that must be said.")
    ] = False,
    ids: Ids = None,
) -> None:
    """Delete the jobs of one list, or some of them. `chasqui undo` brings them back."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import joblist

    if which == "processing" and not held:
        raise ArgumentError("workers hold these jobs", hint="add --held if they are meant")
    keys = keys_of(queue)

    def act(session: Session, some: Sequence[str]) -> Tended:
        return session.link.run(joblist.discard(keys, some, source=which))

    effect = "jobs that did not run will not; `chasqui undo` puts them at the end of their list"
    _change(desk, keys, ids, Way("purge", "purged", which, effect, act, deletes=True), every=True)


def _change(desk: Desk, keys: JobListKeys, ids: Sequence[str] | None, way: Way, *, every: bool) -> None:
    """Find what is meant, show it, change it if that is agreed to, and tell what came of each."""
    from chasqui.errors import ArgumentError
    from chasqui.foreign import check_together, joblist

    if not ids and not every:
        raise ArgumentError(f"that would be every {way.which} job", hint="name ids, or say --all")
    with desk.session() as session:
        check_together(session.link, keys, *([way.target] if way.target else []))
        check_queue(session, keys)
        found = ids or session.link.run(joblist.ids(keys, way.which, limit=MOST))
        if not ids and len(found) == MOST:
            desk.say(f"looked at {MOST:,} ids and no further; repeat it for the rest")
        chosen = list(dict.fromkeys(found))
        rows: list[Record] = [{"id": one, "list": way.which} for one in chosen]
        by = "ids" if ids else ""
        plan = Plan(way.verb, keys.queue, f"{way.which} jobs", rows, COLUMNS[:1], by, [way.effect])
        told = carry_out(desk, plan, chosen, _deed(session, keys, way))
    rows = [row | {"outcome": word, "why": _WHY.get(word)} for row, word in zip(rows, told, strict=True)]
    desk.emit(rows, COLUMNS)
    if any(word in _WHY for word in told):
        raise typer.Exit(3)


def _deed(session: Session, keys: JobListKeys, way: Way) -> Deed[str]:
    from chasqui.foreign import joblist

    def act(some: Sequence[str]) -> list[str]:
        told = way.act(session, some)
        words = dict.fromkeys(told.done, way.done) | dict.fromkeys(told.missing, "missing")
        words |= dict.fromkeys(told.expired, "expired") | dict.fromkeys(told.there, "there already")
        return [words[one] for one in some]

    def keep(some: Sequence[str]) -> list[dict[str, Any]]:
        return session.link.run(joblist.kept_items(keys, way.which, some))

    return Deed(f"joblist {way.verb}", way.done, act, keep if way.deletes else None)


_WHY = {
    "missing": "it is not in that list, or not any more",
    "expired": "its hash is gone: there is nothing to run",
    "there already": "the other queue has a job of this id",
}


@at_desk(shape=CHANGED, changes=True)
def reclaim(
    desk: Desk,
    queue: QueueName,
    visibility: Visibility = "5s",
    max_attempts: Annotated[
        int | None,
        typer.Option(
            "--max-attempts", min=1, metavar="N", help="Jobs claimed so often go to failed instead."
        ),
    ] = None,
    drop_orphans: Annotated[
        bool, typer.Option("--drop-orphans", help="Remove ids without a job from the processing list.")
    ] = False,
    ttl: KeptFor = "5m",
    history: HistoryLength = 50,
) -> None:
    """Put jobs whose workers are gone back on the pending list. Ids that cannot be judged are skipped and told.

    A claim must still be the one that was shown; what became stale since is left for the next time. It cannot be
    undone: the next worker claims the job.
    """
    from chasqui.foreign import check_together, joblist

    keys, options = keys_of(queue), options_of(visibility, ttl, history)
    with desk.session() as session:
        check_together(session.link, keys)
        check_queue(session, keys)
        planned = session.link.run(
            joblist.reclaim(
                keys, options=options, dry_run=True, give_up_at=max_attempts, drop_orphans=drop_orphans
            )
        )
        meant = {*planned.moved, *planned.failed, *planned.dropped}
        why = _reasons(session, keys, options.visibility_ms)
        rows = _reclaim_rows(planned, why, would=True)
        changes = [row for row in rows if row["id"] in meant]
        effects = [
            f"{len(planned.skipped)} ids cannot be judged and stay; see chasqui joblist doctor {queue}"
        ]
        plan = Plan(
            "reclaim",
            queue,
            "claims",
            changes,
            COLUMNS,
            f"--visibility {visibility}",
            effects[: len(planned.skipped)],
        )
        if desk.agrees(plan):

            def rule(held: Any, now_ms: int, visibility_ms: int) -> Any:
                verdict = joblist.by_the_guide(held, now_ms, visibility_ms)
                return verdict if held.id in meant or verdict == "broken" else "live"

            with desk.written_down("joblist reclaim", queue) as pen:
                done = session.link.run(
                    joblist.reclaim(
                        keys, options=options, rule=rule, give_up_at=max_attempts, drop_orphans=drop_orphans
                    )
                )
                rows = _reclaim_rows(done, why, would=False)
                known = {row["id"] for row in rows}
                rows += [_row(one, "changed", why.get(one)) for one in sorted(meant - known)]
                rows += [
                    _row(one.held.id, "skipped", one.why)
                    for one in planned.skipped
                    if one.held.id not in known
                ]
                pen.tell(**Counter(row["outcome"] for row in rows))
    if planned.skipped:
        desk.say(
            f"skipped {len(planned.skipped)} ids that cannot be judged; see chasqui joblist doctor {queue}"
        )
    desk.emit(rows, COLUMNS)
    if any(row["outcome"] == "changed" for row in rows):
        raise typer.Exit(3)


def _reasons(session: Session, keys: JobListKeys, visibility_ms: int) -> dict[str, str]:
    from chasqui.foreign import joblist

    judged, _ = session.link.run(joblist.judge(keys, visibility_ms=visibility_ms))
    return {one.held.id: one.why for one in judged}


def _reclaim_rows(told: Any, why: dict[str, str], *, would: bool) -> list[Record]:
    words = {
        "moved": "would reclaim" if would else "reclaimed",
        "failed": "would fail" if would else "failed",
        "dropped": "would drop" if would else "dropped",
        "changed": "changed",
    }
    rows = [_row(one, word, why.get(one)) for name, word in words.items() for one in getattr(told, name)]
    return rows + [_row(one.held.id, "skipped", one.why) for one in told.skipped]


def _row(job_id: str, outcome: str, why: str | None) -> Record:
    return {"id": job_id, "list": "processing", "outcome": outcome, "why": why}
