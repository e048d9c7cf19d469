"""`chasqui pipeline up`, `down`, `status` and `doctor`: a warm Spark of one's own, and whether all parts are there."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.columns import Column, column
from chasqui_cli.commands.pipeline.place import (
    ArchivePath,
    Heap,
    Master,
    Remote,
    archive_at,
    check_writable,
    length_ms,
    where,
)
from chasqui_cli.desk import Desk, at_desk, offline
from chasqui_cli.settings import state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.spark.connect import Server
    from chasqui_cli.columns import Record

SERVER = {"running": "bool", "url": "str?", "pid": "int?", "log": "str?"}
STATUS = SERVER | {
    "archive": "str",
    "tables": [{"table": "str", "batch": "int?", "rows": "int?", "lost": "int?"}],
}
CHECK = {"check": "str", "ok": "bool", "detail": "str"}
CHECKS: list[Column] = [column("check"), column("ok"), column("detail")]


@offline(shape=SERVER, many=False)
def up(
    desk: Desk,
    warm_up: Annotated[
        str,
        typer.Option(
            "--warm-up", metavar="SPAN", help="How long reports may be rehearsed; 0s for not at all."
        ),
    ] = "60s",
    master: Master = None,
    heap: Heap = "1g",
) -> None:
    """Keep a Spark running on this machine, so that reports take seconds. It listens on loopback, with a token.

    Every report is rehearsed on made-up events, so that the first real one takes seconds, too.
    """
    from dataclasses import replace

    from chasqui.spark import connect, rehearsal, session

    session.check_installed()
    warm_up_s = length_ms("--warm-up", warm_up, least=0) / 1000
    at, state = where(master, None, heap), state_directory()
    before = connect.running(state)
    with desk.progress("starting Spark", None), _attentive() as attend:
        server = connect.up(at, state)
        try:
            attend()
            with session.opened(replace(at, remote=server.url)) as spark:
                if at.is_local:
                    rehearsal.rehearse(spark, warm_up_s, tell=lambda _: attend())
            attend()
        except BaseException:
            if before is None:
                connect.down(state)  # whoever interrupts `up` wants none
            raise
    desk.say("reports use it from now on; `chasqui pipeline down` ends it")
    desk.emit_one(_record(server))


@offline(shape=SERVER, many=False)
def down(desk: Desk) -> None:
    """End the Spark that `up` started."""
    from chasqui.spark import connect

    found = connect.down(state_directory())
    desk.say(f"ended {found.address}" if found else "none was running")
    desk.emit_one(_record(None))


@offline(shape=STATUS, many=False)
def status(desk: Desk, path: ArchivePath = None) -> None:
    """Say whether a Spark is kept warm, and how far the archive is."""
    from chasqui.spark import archive as archiver
    from chasqui.spark import connect
    from chasqui.spark.layout import TABLES

    archive = archive_at(path)
    tables = []
    for table in TABLES:
        newest = archiver.latest(archive, table)
        told: Record = {"table": table, "batch": None, "rows": None, "lost": None}
        if newest:
            told |= archiver.sums(archive, table, newest.batch)
        tables.append(told)
    desk.emit_one(_record(connect.running(state_directory())) | {"archive": archive.root, "tables": tables})


@at_desk(shape=CHECK)
def doctor(
    desk: Desk,
    path: ArchivePath = None,
    master: Master = None,
    remote: Remote = None,
    heap: Heap = "1g",
) -> None:
    """Try the pipeline's parts one by one: packages, Java, server, Spark, data source, archive."""
    at = where(master, remote, heap)
    archive = archive_at(path)

    def packages() -> str:
        from importlib import import_module
        from importlib.metadata import version

        from chasqui.spark import session

        session.check_installed(connect=True)
        needed = session.PACKAGES | session.CONNECT_PACKAGES
        for module in needed:
            import_module(module)  # one that is there may still be broken
        return ", ".join(f"{name} {version(name)}" for name in needed.values())

    def java() -> str:
        from chasqui.spark.java import find

        found = find(at.cache)
        return f"Java {found.version} from {found.origin} ({found.home})"

    def server() -> str:
        with desk.session() as asks:
            asks.now_ms()
            return str(asks.link.address)

    def spark() -> str:
        from chasqui.spark import session

        with session.opened(at) as running:
            total = running.range(10).groupBy().sum("id").collect()[0][0]
            rows = running.read.format("chasqui").option("subscribe", "any").load()
            rows.columns  # noqa: B018 - through Connect it is looked for only now
            return f"Spark {running.version} on {at.address} counts to {total} and finds the data source"

    def writable() -> str:
        check_writable(archive)
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
    found += [_tried(name, part) for name, part in parts.items()]
    desk.emit(found, CHECKS)
    if not all(one["ok"] for one in found):
        raise typer.Exit(1)


@contextmanager
def _attentive() -> Iterator[Callable[[], None]]:
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


def _tried(name: str, part: Callable[[], str]) -> Record:
    from chasqui.errors import ChasquiError

    try:
        return {"check": name, "ok": True, "detail": part()}
    except ChasquiError as error:
        return {"check": name, "ok": False, "detail": "; ".join(filter(None, (str(error), error.hint)))}
    except ImportError as error:
        return {"check": name, "ok": False, "detail": f"{error}; pip install 'chasqui-cli[spark]' mends it"}


def _record(server: Server | None) -> Record:
    if server is None:
        return {"running": False, "url": None, "pid": None, "log": None}
    return {"running": True, "url": server.address, "pid": server.pid, "log": server.log}
