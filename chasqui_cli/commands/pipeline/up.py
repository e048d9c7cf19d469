"""`chasqui pipeline up`, `down`, `status` and `doctor`: a warm Spark of one's own, and whether all parts are there."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.commands.pipeline._spark import (
    ArchiveOption,
    HeapOption,
    MasterOption,
    RemoteOption,
    open_archive,
    parse_length_ms,
    require_writable_archive,
    select_spark,
)
from chasqui_cli.context.command_context import CommandContext, command, offline
from chasqui_cli.context.settings import state_directory
from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.spark.connect_server import ConnectServer
    from chasqui_cli.output.columns import Record

SERVER_SCHEMA = {"running": "bool", "url": "str?", "pid": "int?", "log": "str?"}
STATUS_SCHEMA = SERVER_SCHEMA | {
    "archive": "str",
    "tables": [{"table": "str", "batch": "int?", "rows": "int?", "lost": "int?"}],
}
CHECK_SCHEMA = {"check": "str", "ok": "bool", "detail": "str"}
COLUMNS: list[Column] = [column("check"), column("ok"), column("detail")]


@offline(shape=SERVER_SCHEMA, many=False)
def up(
    desk: CommandContext,
    warm_up: Annotated[
        str,
        typer.Option("--warm-up", metavar="SPAN", help="How long reports may be rehearsed; 0s for not at all."),
    ] = "60s",
    master: MasterOption = None,
    heap: HeapOption = "1g",
) -> None:
    """Keep a Spark running on this machine, so that reports take seconds. It listens on loopback, with a token.

    Every report is rehearsed on made-up events, so that the first real one takes seconds, too.
    """
    from dataclasses import replace

    from chasqui.spark import connect_server, spark_session
    from chasqui.spark.warm_up import warm_up_reports

    spark_session.check_installed()
    warm_up_s = parse_length_ms("--warm-up", warm_up, least=0) / 1000
    at, state = select_spark(master, None, heap), state_directory()
    before = connect_server.find_running(state)
    with desk.progress("starting Spark", None), _reliable_interrupt() as attend:
        server = connect_server.start_or_find(at, state)
        try:
            attend()
            with spark_session.open_session(replace(at, remote=server.url)) as spark:
                if at.is_local:
                    warm_up_reports(spark, warm_up_s, on_round=lambda _: attend())
            attend()
        except BaseException:
            if before is None:
                connect_server.stop(state)  # whoever interrupts `up` wants none
            raise
    desk.info("reports use it from now on; `chasqui pipeline down` ends it")
    desk.write_record(server_record(server))


@offline(shape=SERVER_SCHEMA, many=False)
def down(desk: CommandContext) -> None:
    """End the Spark that `up` started."""
    from chasqui.spark import connect_server

    found = connect_server.stop(state_directory())
    desk.info(f"ended {found.address}" if found else "none was running")
    desk.write_record(server_record(None))


@offline(shape=STATUS_SCHEMA, many=False)
def status(desk: CommandContext, path: ArchiveOption = None) -> None:
    """Say whether a Spark is kept warm, and how far the archive is."""
    from chasqui.spark import archiver as archiver
    from chasqui.spark import connect_server
    from chasqui.spark.layout import TABLES

    archive = open_archive(path)
    tables = []
    for table in TABLES:
        newest = archiver.newest_totals(archive, table)
        told: Record = {"table": table, "batch": None, "rows": None, "lost": None}
        if newest:
            told |= archiver.totals_up_to(archive, table, newest.batch)
        tables.append(told)
    desk.write_record(
        server_record(connect_server.find_running(state_directory())) | {"archive": archive.root, "tables": tables}
    )


@command(shape=CHECK_SCHEMA)
def doctor(
    desk: CommandContext,
    path: ArchiveOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    heap: HeapOption = "1g",
) -> None:
    """Try the pipeline's parts one by one: packages, Java, server, Spark, data source, archive."""
    at = select_spark(master, remote, heap)
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
        with desk.session() as asks:
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
        {
            "check": "python",
            "ok": sys.version_info >= (3, 11),
            "detail": f"{sys.version.split()[0]} ({sys.executable})",
        }
    ]
    found += [_run_check(name, part) for name, part in parts.items()]
    desk.write_records(found, COLUMNS)
    if not all(one["ok"] for one in found):
        raise typer.Exit(1)


@contextmanager
def _reliable_interrupt() -> Iterator[Callable[[], None]]:
    """Ctrl-C, also one that Python lost: in a callback of its own, as while it imports, it only prints that it ignores it.
    What this yields raises it again.
    """
    heard: list[int] = []

    def note(number: int, _: object) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    def attend() -> None:
        if heard:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield attend
    finally:
        signal.signal(signal.SIGINT, before)


def _run_check(name: str, part: Callable[[], str]) -> Record:
    from chasqui.errors import ChasquiError

    try:
        return {"check": name, "ok": True, "detail": part()}
    except ChasquiError as error:
        return {"check": name, "ok": False, "detail": "; ".join(filter(None, (str(error), error.hint)))}
    except ImportError as error:
        return {"check": name, "ok": False, "detail": f"{error}; pip install 'chasqui-cli[spark]' mends it"}


def server_record(server: ConnectServer | None) -> Record:
    if server is None:
        return {"running": False, "url": None, "pid": None, "log": None}
    return {"running": True, "url": server.address, "pid": server.pid, "log": server.log}
