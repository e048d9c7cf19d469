"""`chasqui pipeline doctor`: checks that all parts of the pipeline are there and work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from chasqui_cli.commands.pipeline._spark import ArchiveOption, SparkOptions, open_archive, require_writable_archive
from chasqui_cli.commands.pipeline.up import COLUMNS
from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.command_spec import Effect
from chasqui_cli.context.shared_options import options_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_cli.output.columns import Record

CHECK_SCHEMA = {"check": "str", "ok": "bool", "detail": "str"}


@command("pipeline doctor", schema=CHECK_SCHEMA, effect=Effect.READS_LOCAL)
@options_from(SparkOptions)
def doctor(ctx: CommandContext, path: ArchiveOption = None, *, spark_options: SparkOptions) -> None:
    """Try the pipeline's parts one by one: packages, Java, server, Spark, data source, archive."""
    at = spark_options.select()
    archive = open_archive(path)

    def packages() -> str:
        from importlib import import_module
        from importlib.metadata import version

        from chasqui.spark import spark_session

        spark_session.check_installed(connect=True)
        needed = spark_session.PACKAGES | spark_session.CONNECT_PACKAGES
        for module in needed:
            import_module(module)  # one that is there may still be broken
        return ", ".join(f"{name} {version(name)}" for name in needed.values())

    def java() -> str:
        from chasqui.spark.java import find_java

        found = find_java(at.cache)
        return f"Java {found.version} from {found.origin} ({found.home})"

    def server() -> str:
        with ctx.session() as asks:
            asks.server_now_ms()
            return str(asks.link.address)

    def spark() -> str:
        from chasqui.spark import spark_session

        with spark_session.open_session(at) as running:
            total = running.range(10).groupBy().sum("id").collect()[0][0]
            rows = running.read.format("chasqui").option("subscribe", "any").load()
            rows.columns  # noqa: B018 - through Connect it is looked for only now
            return f"Spark {running.version} on {at.address} counts to {total} and finds the data source"

    def writable() -> str:
        require_writable_archive(archive)
        return archive.root

    parts = {"packages": packages, "java": java, "server": server, "spark": spark, "archive": writable}
    if at.remote:
        del parts["java"]  # theirs, if Spark answers
    found = [
        {"check": "python", "ok": sys.version_info >= (3, 11), "detail": f"{sys.version.split()[0]} ({sys.executable})"}
    ]
    found += [_run_check(name, part) for name, part in parts.items()]
    ctx.write_records(found, COLUMNS)
    if not all(one["ok"] for one in found):
        raise typer.Exit(1)


def _run_check(name: str, part: Callable[[], str]) -> Record:
    from chasqui.errors import ChasquiError

    try:
        return {"check": name, "ok": True, "detail": part()}
    except ChasquiError as error:
        return {"check": name, "ok": False, "detail": "; ".join(filter(None, (str(error), error.hint)))}
    except ImportError as error:
        return {"check": name, "ok": False, "detail": f"{error}; pip install 'chasqui-cli[spark]' mends it"}
