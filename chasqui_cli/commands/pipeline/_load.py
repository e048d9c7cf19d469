"""`chasqui pipeline produce` and `replay`: files and archived dead letters become jobs, each exactly once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.changes.confirm import PREVIEW_ROWS, ChangePlan, plural
from chasqui_cli.commands.pipeline._spark import (
    ArchiveOption,
    HeapOption,
    MasterOption,
    RemoteOption,
    data_source_options,
    open_archive,
    parse_past_time_ms,
    select_spark,
)
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui_cli.context.session import Session

WEEK_S = 7 * 86_400
YEAR_S = 365 * 86_400
LOAD_SCHEMA = {
    "queue": "str",
    "run_id": "str",
    "rows": "int",
    "added": "int",
    "repeated": "int",
    "outcome": "str",
}
DEAD_LETTER_COLUMNS: list[Column] = [
    column("ms", kind="moment"),
    column("name"),
    column("job_id"),
    column("reason"),
    column("detail"),
]
COLUMNS: list[Column] = [column("id"), column("name"), column("data")]
TargetQueueArgument = Annotated[str, typer.Argument(help="Where the jobs go.", autocompletion=complete_queues)]
RunIdOption = Annotated[
    str | None,
    typer.Option("--run-id", metavar="NAME", help="Name the load; under one name nothing is added twice."),
]
MaxBacklogOption = Annotated[
    int,
    typer.Option("--max-backlog", min=0, metavar="N", help="Wait while so many jobs are in the queue; 0: never."),
]
MaxRateOption = Annotated[
    int, typer.Option("--max-rate", min=0, metavar="N", help="Jobs a second at most; 0: no limit.")
]


@command(shape=LOAD_SCHEMA, many=False, changes=True)
def produce(
    desk: CommandContext,
    queue: TargetQueueArgument,
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
        typer.Option("--data-field", metavar="F", help="The field a job carries; the whole row, if not given."),
    ] = None,
    run_at_field: Annotated[
        str | None,
        typer.Option("--run-at-field", metavar="F", help="The field with the time to run at, in ms."),
    ] = None,
    run_id: RunIdOption = None,
    max_backlog: MaxBacklogOption = 800_000,
    max_rate: MaxRateOption = 0,
    master: MasterOption = None,
    remote: RemoteOption = None,
    heap: HeapOption = "1g",
) -> None:
    """Make a job of every row of files. Run again with the same files it adds only what is missing.

    Every row is looked at before the first is written. A full queue is waited for: nothing is ever trimmed for it.
    """
    from chasqui.errors import ArgumentError
    from chasqui.produce.bulk_load import check_name
    from chasqui.spark import bulk_jobs, spark_session
    from chasqui.spark.input_files import check_files

    _check_allowed(desk, "produce")
    spark_session.check_installed()
    paths = _resolve_files(files)
    kind = bulk_jobs.resolve_format(kind, paths)
    check_files(paths, kind)
    check_name(name)
    shape = bulk_jobs.RowMapping(name, id_field, name_field, data_field, run_at_field)
    run = run_id or bulk_jobs.load_run_id(queue, paths, shape)
    spark_at = select_spark(master, remote, heap)
    options = data_source_options(desk, spark_at) | {"maxBacklog": str(max_backlog), "maxRate": str(max_rate)}
    with desk.session() as asks:
        now_ms = asks.server_now_ms()  # and whether anybody answers, before Java is started
        with spark_session.open_session(spark_at) as spark:
            lines = bulk_jobs.read_json_lines(spark, paths, kind)
            found = bulk_jobs.check_rows(lines, shape, now_ms)
            if found.bad:
                raise ArgumentError(
                    f"{found.bad:,} of {found.rows:,} rows are no jobs, one of them: {found.sample}",
                    hint="nothing was written; mend the file, or name its fields",
                )

            def make() -> Any:
                return bulk_jobs.jobs_from_lines(lines, shape, run, asks.run(_begin_load, queue, run).since_ms)

            samples = [
                {"id": job_id, "name": job_name, "data": desk.redacted(data)}
                for job_id, job_name, data in bulk_jobs.sample_jobs(lines, shape, PREVIEW_ROWS)
            ]
            plan = ChangePlan("produce", queue, "jobs", SampledRecords(samples, found.rows), COLUMNS)
            load_jobs(desk, asks, plan, run, make, options)


@command(shape=LOAD_SCHEMA, many=False, by_reason=True, changes=True)
def replay(
    desk: CommandContext,
    queue: Annotated[str, typer.Argument(help="Whose dead letters.", autocompletion=complete_queues)],
    path: ArchiveOption = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="QUEUE", help="Another queue to put them into.", autocompletion=complete_queues),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="GLOB", help="Jobs of this name; * and ? allowed.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", "--why", metavar="REASON", help="What died of this.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="What died from then on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="What died up to then.")] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Any SQL condition: \"detail LIKE '%timeout%'\"."),
    ] = None,
    run_id: RunIdOption = None,
    max_backlog: MaxBacklogOption = 800_000,
    max_rate: MaxRateOption = 0,
    master: MasterOption = None,
    remote: RemoteOption = None,
    heap: HeapOption = "1g",
) -> None:
    """Put archived dead letters back to work, each once however often this is run, with all attempts before them.

    The letters that are still in Redis stay there: `chasqui dlq replay` is for those.
    """
    from chasqui.spark import bulk_jobs, spark_session

    _check_allowed(desk, "replay")
    spark_session.check_installed()
    spark_at = select_spark(master, remote, heap)
    options = data_source_options(desk, spark_at) | {"maxBacklog": str(max_backlog), "maxRate": str(max_rate)}
    options["ledgerTtl"] = str(YEAR_S)  # archives keep letters for long, and letters are few
    target = to or queue
    run = run_id or f"replay-of-{queue}"
    with desk.session() as asks:
        now_ms = asks.server_now_ms()
        bounds = [parse_past_time_ms(one, now_ms) for one in (since, until)]
        with spark_session.open_session(spark_at) as spark:
            found = bulk_jobs.archived_dead_letters(
                spark, open_archive(path, remote), queue, name=name, reason=reason, since_ms=bounds[0],
                until_ms=bounds[1], where=sql,
            )  # fmt: skip
            letters, dead = bulk_jobs.cache_and_count(found, sql)
            readable = bulk_jobs.jobs_from_dead_letters(letters)
            count = readable.count()
            if dead > count:
                desk.info(f"left out: {plural(dead - count, 'letters')} without a job that could run")
            chosen = {"name": name, "reason": reason, "since": since, "until": until, "sql": sql}
            plan = ChangePlan(
                "replay",
                target,
                "jobs",
                SampledRecords(
                    [row.asDict() for row in letters.orderBy("ms", "seq").limit(PREVIEW_ROWS).collect()],
                    count,
                ),
                DEAD_LETTER_COLUMNS,
                " and ".join(f"{word} {given}" for word, given in chosen.items() if given),
            )
            load_jobs(desk, asks, plan, run, lambda: readable, options)


def load_jobs(
    desk: CommandContext,
    asks: Session,
    plan: ChangePlan,
    run_id: str,
    make: Callable[[], Any],
    options: dict[str, str],
) -> None:
    """Ask, write, and say what became of it."""
    from chasqui.spark import bulk_jobs

    verb, queue, rows = plan.verb, plan.queue, len(plan.records)
    before = asks.run(_loaded_count, queue, run_id)
    known = f"{before:,} are there already from an earlier try, and stay as they are"
    plan = replace(plan, effects=[f"as load {run_id}", *([known] if before else [])])
    told = {"queue": queue, "run_id": run_id, "rows": rows}
    if not desk.confirm(plan):
        word = f"would {verb}" if desk.change_options.dry_run and rows else "nothing to do"
        desk.write_record(told | {"added": 0, "repeated": 0, "outcome": word})
        return
    with desk.journal_operation(f"pipeline {verb}", queue) as pen:
        jobs = make()
        with (
            desk.progress(f"writing to {queue}", rows) as advance,
            _track_progress(asks, queue, run_id, advance),
        ):
            bulk_jobs.write_jobs(jobs, queue, run_id, options)
        added = asks.run(_loaded_count, queue, run_id) - before
        pen.set_result(added=added, run_id=run_id)
    desk.write_record(
        told | {"added": added, "repeated": max(0, rows - added), "outcome": f"{verb}d".replace("yd", "yed")}
    )


class SampledRecords(Sequence[Any]):
    """So many records, of which only the first are known: the others are rows that stay in Spark."""

    def __init__(self, first: list[dict[str, Any]], count: int) -> None:
        self._first, self._count = first, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        return self._first[at]


@contextmanager
def _track_progress(asks: Session, queue: str, run_id: str, advance: Callable[[int], None]) -> Iterator[None]:
    """The load's ledger says how far it is. Spark writes from this thread, so another one looks."""
    over = threading.Event()

    def look() -> None:
        from chasqui.errors import ChasquiError

        while not over.wait(0.5):
            try:
                advance(asks.run(_loaded_count, queue, run_id))
            except ChasquiError:
                continue  # a bar that stands still for a moment

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _check_allowed(desk: CommandContext, verb: str) -> None:
    """That nothing may be written is told before Java is started."""
    from chasqui.errors import ChangeRefused

    if desk.settings().read_only and not desk.change_options.dry_run:
        raise ChangeRefused(
            f"this connection is read-only: it does not {verb}",
            hint="nothing was sent; repeat it without --read-only, or in a context that is not read_only",
        )


def _begin_load(commands: Any, queue: str, run_id: str) -> Any:
    from chasqui import Keys
    from chasqui.produce import bulk_load

    return bulk_load.start_load(commands, Keys(queue), run_id, "rows", ttl_s=WEEK_S)


def _loaded_count(commands: Any, queue: str, run_id: str) -> Any:
    from chasqui import Keys
    from chasqui.produce import bulk_load

    return bulk_load.count_written(commands, Keys(queue), run_id)


def _resolve_files(files: list[str]) -> list[str]:
    from pathlib import Path

    from chasqui.errors import ConfigError, NotFound

    for file in files:
        if "://" not in file and not Path(file).exists():
            raise NotFound(f"there is no file {file}", hint="give JSON lines, CSV or Parquet files")
        if "://" not in file and not os.access(file, os.R_OK):
            raise ConfigError(f"may not read {file}", hint="give files that you may read")
    return [file if "://" in file else str(Path(file).absolute()) for file in files]
