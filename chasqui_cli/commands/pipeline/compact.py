"""`chasqui pipeline compact`: rewrites past days into few large files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from chasqui_cli.commands.pipeline._spark import ArchiveOption, SparkOptions, open_archive, parse_day
from chasqui_cli.commands.pipeline.archive import COLUMNS
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.shared_options import options_from

COMPACT_SCHEMA = {
    "table": "str", "day": "str", "rows": "int", "repeated": "int", "files_before": "int", "files_after": "int",
}  # fmt: skip


@command("pipeline compact", server=False, schema=COMPACT_SCHEMA, effect=Effect.LOCAL)
@options_from(SparkOptions)
def compact(
    ctx: CommandContext,
    path: ArchiveOption = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DAY", help="Days before this one (UTC); today, if not given.")
    ] = None,
    *,
    spark_options: SparkOptions,
) -> None:
    """Rewrite days that are over into few large files, without rows that were written twice.

    The archive is one on this machine's disks; a Spark behind --remote must see them, too.
    """
    from chasqui import SystemClock
    from chasqui.errors import NotFound
    from chasqui.spark import layout, maintenance
    from chasqui.spark import spark_session as session

    session.check_installed()
    archive = open_archive(path)
    if archive.local_root and not archive.local_root.exists():
        raise NotFound(f"there is no archive at {archive.root}", hint="--archive names another one")
    # No server's clock decides which days are over: the archive's directories are UTC days.
    day = parse_day(before) if before else layout.utc_day(SystemClock().now_ms())
    days = [one for table in layout.TABLES for one in archive.day_dirs(table)]
    with (
        session.open_session(spark_options.select(may_be_warm=True)) as spark,
        ctx.progress("compacting", len(days)) as advance,
    ):
        results: list[maintenance.CompactionResult] = []

        def on_day(one: maintenance.CompactionResult) -> None:
            results.append(one)
            advance(len(results))

        maintenance.compact_days(spark, archive, layout.TABLES, before=day, on_day=on_day)
    ctx.write_records([asdict(one) for one in results], COLUMNS)
