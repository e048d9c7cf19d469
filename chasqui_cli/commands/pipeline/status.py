"""`chasqui pipeline status`: whether a Spark is running, and how far the archive is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_cli.commands.pipeline._spark import SERVER_SCHEMA, ArchiveOption, open_archive, server_record
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.settings import state_directory

if TYPE_CHECKING:
    from chasqui_cli.output.columns import Record

STATUS_SCHEMA = SERVER_SCHEMA | {
    "archive": "str",
    "tables": [{"table": "str", "batch": "int?", "rows": "int?", "lost": "int?"}],
}


@command("pipeline status", server=False, schema=STATUS_SCHEMA, many=False, effect=Effect.READS_LOCAL)
def status(ctx: CommandContext, path: ArchiveOption = None) -> None:
    """Say whether a Spark is kept warm, and how far the archive is."""
    from chasqui.spark import archiver as archiver
    from chasqui.spark import connect_server
    from chasqui.spark.layout import TABLES

    archive = open_archive(path)
    tables = []
    for table in TABLES:
        newest = archiver.newest_totals(archive, table)
        record: Record = {"table": table, "batch": None, "rows": None, "lost": None}
        if newest:
            record |= archiver.totals_up_to(archive, table, newest.batch)
        tables.append(record)
    ctx.write_record(
        server_record(connect_server.find_running(state_directory())) | {"archive": archive.root, "tables": tables}
    )
