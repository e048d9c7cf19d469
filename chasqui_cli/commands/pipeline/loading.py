"""`chasqui pipeline produce` and `replay`: files and archived dead letters become jobs, each exactly once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes import SAMPLES, Plan, counted
from chasqui_cli.columns import Column, column
from chasqui_cli.commands.pipeline.place import (
    ArchivePath,
    Heap,
    Master,
    Remote,
    archive_at,
    moment_of,
    reach,
    where,
)
from chasqui_cli.completing import queue_names
from chasqui_cli.desk import Desk, at_desk

if TYPE_CHECKING:
    from chasqui_cli.session import Session

WEEK_S = 7 * 86_400
YEAR_S = 365 * 86_400
LOADED = {"queue": "str", "run_id": "str", "rows": "int", "added": "int", "repeated": "int", "outcome": "str"}
LETTERS: list[Column] = [
    column("ms", kind="moment"),
    column("name"),
    column("job_id"),
    column("reason"),
    column("detail"),
]
JOBS: list[Column] = [column("id"), column("name"), column("data")]
Queue = Annotated[str, typer.Argument(help="Where the jobs go.", autocompletion=queue_names)]
RunId = Annotated[
    str | None,
    typer.Option("--run-id", metavar="NAME", help="Name the load; under one name nothing is added twice."),
]
MaxBacklog = Annotated[
    int,
    typer.Option(
        "--max-backlog", min=0, metavar="N", help="Wait while so many jobs are in the queue; 0: never."
    ),
]
MaxRate = Annotated[
    int, typer.Option("--max-rate", min=0, metavar="N", help="Jobs a second at most; 0: no limit.")
]


@at_desk(shape=LOADED, many=False, changes=True)
def produce(
    desk: Desk,
    queue: Queue,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="JSON lines, CSV or Parquet.")],
    kind: Annotated[
        str | None, typer.Option("--format", metavar="jsonl|csv|parquet", help="What the files are.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the jobs.")] = "",
    name_field: Annotated[
        str | None, typer.Option("--name-field", metavar="F", help="The field that names a job.")
    ] = None,
    id_field: Annotated[
        str | None, typer.Option("--id-field", metavar="F", help="The field that is a job's id.")
    ] = None,
    data_field: Annotated[
        str | None,
        typer.Option(
            "--data-field", metavar="F", help="The field a job carries; the whole row, if not given."
        ),
    ] = None,
    run_at_field: Annotated[
        str | None,
        typer.Option("--run-at-field", metavar="F", help="The field with the time to run at, in ms."),
    ] = None,
    run_id: RunId = None,
    max_backlog: MaxBacklog = 800_000,
    max_rate: MaxRate = 0,
    master: Master = None,
    remote: Remote = None,
    heap: Heap = "1g",
) -> None:
    """Make a job of every row of files. Run again with the same files it adds only what is missing.

    Every row is looked at before the first is written. A full queue is waited for: nothing is ever trimmed for it.
    """
    from chasqui.errors import ArgumentError
    from chasqui.loading import check_name
    from chasqui.spark import bulk, session
    from chasqui.spark.files import check

    _check_allowed(desk, "produce")
    session.check_installed()
    paths = _existing(files)
    kind = bulk.check_format(kind, paths)
    check(paths, kind)
    check_name(name)
    shape = bulk.Shape(name, id_field, name_field, data_field, run_at_field)
    run = run_id or bulk.run_id_of(queue, paths, shape)
    spark_at = where(master, remote, heap)
    options = reach(desk, spark_at) | {"maxBacklog": str(max_backlog), "maxRate": str(max_rate)}
    with desk.session() as asks:
        now_ms = asks.now_ms()  # and whether anybody answers, before Java is started
        with session.opened(spark_at) as spark:
            lines = bulk.lines_of(spark, paths, kind)
            found = bulk.check(lines, shape, now_ms)
            if found.bad:
                raise ArgumentError(
                    f"{found.bad:,} of {found.rows:,} rows are no jobs, one of them: {found.sample}",
                    hint="nothing was written; mend the file, or name its fields",
                )

            def make() -> Any:
                return bulk.jobs_of(lines, shape, run, asks.run(_begin, queue, run).since_ms)

            samples = [
                {"id": job_id, "name": job_name, "data": desk.shown(data)}
                for job_id, job_name, data in bulk.samples(lines, shape, SAMPLES)
            ]
            plan = Plan("produce", queue, "jobs", _Sampled(samples, found.rows), JOBS)
            _load(desk, asks, plan, run, make, options)


@at_desk(shape=LOADED, many=False, by_reason=True, changes=True)
def replay(
    desk: Desk,
    queue: Annotated[str, typer.Argument(help="Whose dead letters.", autocompletion=queue_names)],
    path: ArchivePath = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="QUEUE", help="Another queue to put them into.", autocompletion=queue_names
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="GLOB", help="Jobs of this name; * and ? allowed.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", "--why", metavar="REASON", help="What died of this.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="What died from then on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="What died up to then.")
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Any SQL condition: \"detail LIKE '%timeout%'\"."),
    ] = None,
    run_id: RunId = None,
    max_backlog: MaxBacklog = 800_000,
    max_rate: MaxRate = 0,
    master: Master = None,
    remote: Remote = None,
    heap: Heap = "1g",
) -> None:
    """Put archived dead letters back to work, each once however often this is run, with all attempts before them.

    The letters that are still in Redis stay there: `chasqui dlq replay` is for those.
    """
    from chasqui.spark import bulk, session

    _check_allowed(desk, "replay")
    session.check_installed()
    spark_at = where(master, remote, heap)
    options = reach(desk, spark_at) | {"maxBacklog": str(max_backlog), "maxRate": str(max_rate)}
    options["ledgerTtl"] = str(YEAR_S)  # archives keep letters for long, and letters are few
    target = to or queue
    run = run_id or f"replay-of-{queue}"
    with desk.session() as asks:
        now_ms = asks.now_ms()
        bounds = [moment_of(one, now_ms) for one in (since, until)]
        with session.opened(spark_at) as spark:
            found = bulk.letters_of(
                spark, archive_at(path, remote), queue, name=name, reason=reason, since_ms=bounds[0],
                until_ms=bounds[1], where=sql,
            )  # fmt: skip
            letters, dead = bulk.held(found, sql)
            readable = bulk.revived(letters)
            count = readable.count()
            if dead > count:
                desk.say(f"left out: {counted(dead - count, 'letters')} without a job that could run")
            chosen = {"name": name, "reason": reason, "since": since, "until": until, "sql": sql}
            plan = Plan(
                "replay",
                target,
                "jobs",
                _Sampled(
                    [row.asDict() for row in letters.orderBy("ms", "seq").limit(SAMPLES).collect()], count
                ),
                LETTERS,
                " and ".join(f"{word} {given}" for word, given in chosen.items() if given),
            )
            _load(desk, asks, plan, run, lambda: readable, options)


def _load(
    desk: Desk,
    asks: Session,
    plan: Plan,
    run_id: str,
    make: Callable[[], Any],
    options: dict[str, str],
) -> None:
    """Ask, write, and say what became of it."""
    from chasqui.spark import bulk

    verb, queue, rows = plan.verb, plan.queue, len(plan.records)
    before = asks.run(_known, queue, run_id)
    known = f"{before:,} are there already from an earlier try, and stay as they are"
    plan = replace(plan, effects=[f"as load {run_id}", *([known] if before else [])])
    told = {"queue": queue, "run_id": run_id, "rows": rows}
    if not desk.agrees(plan):
        word = f"would {verb}" if desk.change.dry_run and rows else "nothing to do"
        desk.emit_one(told | {"added": 0, "repeated": 0, "outcome": word})
        return
    with desk.written_down(f"pipeline {verb}", queue) as pen:
        jobs = make()
        with desk.progress(f"writing to {queue}", rows) as advance, _watching(asks, queue, run_id, advance):
            bulk.write(jobs, queue, run_id, options)
        added = asks.run(_known, queue, run_id) - before
        pen.tell(added=added, run_id=run_id)
    desk.emit_one(
        told | {"added": added, "repeated": max(0, rows - added), "outcome": f"{verb}d".replace("yd", "yed")}
    )


class _Sampled(Sequence[Any]):
    """So many records, of which only the first are known: the others are rows that stay in Spark."""

    def __init__(self, first: list[dict[str, Any]], count: int) -> None:
        self._first, self._count = first, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        return self._first[at]


@contextmanager
def _watching(asks: Session, queue: str, run_id: str, advance: Callable[[int], None]) -> Iterator[None]:
    """The load's ledger says how far it is. Spark writes from this thread, so another one looks."""
    over = threading.Event()

    def look() -> None:
        from chasqui.errors import ChasquiError

        while not over.wait(0.5):
            try:
                advance(asks.run(_known, queue, run_id))
            except ChasquiError:
                continue  # a bar that stands still for a moment

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _check_allowed(desk: Desk, verb: str) -> None:
    """That nothing may be written is told before Java is started."""
    from chasqui.errors import Refused

    if desk.settings().read_only and not desk.change.dry_run:
        raise Refused(
            f"this connection is read-only: it does not {verb}",
            hint="nothing was sent; repeat it without --read-only, or in a context that is not read_only",
        )


def _begin(commands: Any, queue: str, run_id: str) -> Any:
    from chasqui import Keys, loading

    return loading.begin(commands, Keys(queue), run_id, "rows", ttl_s=WEEK_S)


def _known(commands: Any, queue: str, run_id: str) -> Any:
    from chasqui import Keys, loading

    return loading.known(commands, Keys(queue), run_id)


def _existing(files: list[str]) -> list[str]:
    from pathlib import Path

    from chasqui.errors import ConfigError, NotFound

    for file in files:
        if "://" not in file and not Path(file).exists():
            raise NotFound(f"there is no file {file}", hint="give JSON lines, CSV or Parquet files")
        if "://" not in file and not os.access(file, os.R_OK):
            raise ConfigError(f"may not read {file}", hint="give files that you may read")
    return [file if "://" in file else str(Path(file).absolute()) for file in files]
