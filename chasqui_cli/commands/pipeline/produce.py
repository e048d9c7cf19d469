"""`chasqui pipeline produce`: the rows of files become jobs."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from chasqui_cli.changes.confirm import PREVIEW_ROWS, ChangePlan
from chasqui_cli.commands.pipeline._load import (
    LOAD_SCHEMA,
    WEEK_S,
    LoadOptions,
    SampledRecords,
    TargetQueueArgument,
    load_jobs,
)
from chasqui_cli.commands.pipeline._spark import SparkOptions
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.shared_options import options_from
from chasqui_cli.output.columns import Column, column

COLUMNS: list[Column] = [column("id"), column("name"), column("data")]


@command("pipeline produce", schema=LOAD_SCHEMA, many=False, changes=True, local_paths=("files", "master", "remote"))
@options_from(SparkOptions)
@options_from(LoadOptions)
def produce(
    ctx: CommandContext,
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
        str | None, typer.Option("--run-at-field", metavar="F", help="The field with the time to run at, in ms.")
    ] = None,
    *,
    load: LoadOptions,
    spark_options: SparkOptions,
) -> None:
    """Make a job of every row of files. Run again with the same files it adds only what is missing.

    Every row is looked at before the first is written. A full queue is waited for: nothing is ever trimmed for it.
    """
    from chasqui.errors import ArgumentError
    from chasqui.produce.bulk_load import check_name
    from chasqui.spark import bulk_jobs, spark_session
    from chasqui.spark.input_files import check_files

    spark_session.check_installed()
    paths = _resolve_files(files)
    kind = bulk_jobs.resolve_format(kind, paths)
    check_files(paths, kind)
    check_name(name)
    shape = bulk_jobs.RowMapping(name, id_field, name_field, data_field, run_at_field)
    run = load.run_id or bulk_jobs.load_run_id(queue, paths, shape)
    spark_at = spark_options.select()
    options = load.for_data_source(ctx, spark_at)
    with ctx.session() as asks:
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
                {"id": job_id, "name": job_name, "data": ctx.redacted(data)}
                for job_id, job_name, data in bulk_jobs.sample_jobs(lines, shape, PREVIEW_ROWS)
            ]
            plan = ChangePlan("produce", queue, "jobs", SampledRecords(samples, found.rows), COLUMNS)
            load_jobs(ctx, asks, plan, run, make, options)


def _begin_load(commands: Any, queue: str, run_id: str) -> Any:
    from chasqui import Keys
    from chasqui.produce import bulk_load

    return bulk_load.start_load(commands, Keys(queue), run_id, "rows", ttl_s=WEEK_S)


def _resolve_files(files: list[str]) -> list[str]:
    from pathlib import Path

    from chasqui.errors import ConfigError, NotFound

    for file in files:
        if "://" not in file and not Path(file).exists():
            raise NotFound(f"there is no file {file}", hint="give JSON lines, CSV or Parquet files")
        if "://" not in file and not os.access(file, os.R_OK):
            raise ConfigError(f"may not read {file}", hint="give files that you may read")
    return [file if "://" in file else str(Path(file).absolute()) for file in files]
