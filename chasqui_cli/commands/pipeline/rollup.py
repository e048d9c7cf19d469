"""`chasqui pipeline rollup`: counts and sketches per minute, for reports over months."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_cli.commands.pipeline._spark import ArchiveOption, QueuesArgument, SparkOptions, open_archive, parse_day
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.shared_options import options_from


@command("pipeline rollup", server=False, schema={"archive": "str", "minutes": "int"}, many=False, effect=Effect.LOCAL)
@options_from(SparkOptions)
def rollup(
    ctx: CommandContext,
    queues: QueuesArgument = None,
    path: ArchiveOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DAY", help="Only days from this one on, as in 2026-11-18.")
    ] = None,
    *,
    spark_options: SparkOptions,
) -> None:
    """Add minutes up: counts and sketches per queue and job name, so that reports over months take seconds."""
    from chasqui.spark import maintenance
    from chasqui.spark import spark_session as session
    from chasqui_cli.commands.pipeline._spark import require_archive
    from chasqui_cli.output.times import parse_time_ms

    session.check_installed()
    archive = open_archive(path, spark_options.remote)
    require_archive(archive, queues or ())
    since_ms = parse_time_ms(parse_day(since), 0, "past") if since else None
    with session.open_session(spark_options.select(may_be_warm=True)) as spark:
        minutes = maintenance.roll_up(spark, archive, queues=queues or (), since_ms=since_ms)
    ctx.write_record({"archive": archive.root, "minutes": minutes})
