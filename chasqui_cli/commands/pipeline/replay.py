"""`chasqui pipeline replay`: archived dead letters become jobs again."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.changes.confirm import PREVIEW_ROWS, ChangePlan, plural
from chasqui_cli.commands.pipeline._load import LOAD_SCHEMA, LoadOptions, SampledRecords, load_jobs
from chasqui_cli.commands.pipeline._spark import ArchiveOption, SparkOptions, open_archive, parse_past_time_ms
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.context.shared_options import options_from
from chasqui_cli.output.columns import Column, column

YEAR_S = 365 * 86_400


DEAD_LETTER_COLUMNS: list[Column] = [
    column("ms", kind="moment"),
    column("name"),
    column("job_id"),
    column("reason"),
    column("detail"),
]


@command(
    "pipeline replay",
    schema=LOAD_SCHEMA,
    many=False,
    by_reason=True,
    changes=True,
    local_paths=("path", "sql", "master", "remote"),
)
@options_from(SparkOptions)
@options_from(LoadOptions)
def replay(
    ctx: CommandContext,
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
        str | None, typer.Option("--sql", metavar="CONDITION", help="Any SQL condition: \"detail LIKE '%timeout%'\".")
    ] = None,
    *,
    load: LoadOptions,
    spark_options: SparkOptions,
) -> None:
    """Put archived dead letters back to work, each once however often this is run, with all attempts before them.

    The letters that are still in Redis stay there: `chasqui dlq replay` is for those.
    """
    from chasqui.spark import bulk_jobs, spark_session

    spark_session.check_installed()
    spark_at = spark_options.select()
    options = load.for_data_source(ctx, spark_at)
    options["ledgerTtl"] = str(YEAR_S)  # archives keep dead letters for long, and there are few
    target = to or queue
    run = load.run_id or f"replay-of-{queue}"
    with ctx.session() as asks:
        now_ms = asks.server_now_ms()
        bounds = [parse_past_time_ms(one, now_ms) for one in (since, until)]
        with spark_session.open_session(spark_at) as spark:
            found = bulk_jobs.archived_dead_letters(
                spark, open_archive(path, spark_options.remote), queue, name=name, reason=reason, since_ms=bounds[0],
                until_ms=bounds[1], where=sql,
            )  # fmt: skip
            letters, dead = bulk_jobs.cache_and_count(found, sql)
            readable = bulk_jobs.jobs_from_dead_letters(letters)
            count = readable.count()
            if dead > count:
                ctx.info(f"left out: {plural(dead - count, 'letters')} without a job that could run")
            chosen = {"name": name, "reason": reason, "since": since, "until": until, "sql": sql}
            plan = ChangePlan(
                "replay",
                target,
                "jobs",
                SampledRecords(
                    [row.asDict() for row in letters.orderBy("ms", "seq").limit(PREVIEW_ROWS).collect()], count
                ),
                DEAD_LETTER_COLUMNS,
                " and ".join(f"{word} {given}" for word, given in chosen.items() if given),
            )
            load_jobs(ctx, asks, plan, run, lambda: readable, options)
