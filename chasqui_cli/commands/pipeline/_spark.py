"""Options of the pipeline: which Spark, which archive, and how Spark's processes connect to the server without a
password in any option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import MAX_SAFE_INTEGER
from chasqui_cli.context.completion import complete_queues
from chasqui_cli.context.settings import cache_directory, data_directory, state_directory
from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.stdio import print_stderr

if TYPE_CHECKING:
    from chasqui.spark.connect_server import ConnectServer
    from chasqui.spark.layout import Archive
    from chasqui.spark.spark_session import SparkTarget
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.output.columns import Record

MAX_NAMES_IN_HINT = 10
MIN_HEAP_MB = 512
"""Below some 470 MB Spark refuses to start."""

ArchiveOption = Annotated[
    str | None,
    typer.Option("--archive", metavar="PATH", help="Where the archive is: a directory, or a URL Spark can write to."),
]


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Options that select a Spark."""

    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Run on this Spark: local[2], spark://host:7077, yarn."),
    ] = None
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="URL", help="Run through a Spark Connect server: sc://host:15002.")
    ] = None
    heap: Annotated[str, typer.Option("--heap", metavar="SIZE", help="Memory for a Spark of our own, as in 2g.")] = "1g"

    def select(self, *, may_be_warm: bool = False, warn: Callable[[str], None] = print_stderr) -> SparkTarget:
        """The Spark to use. may_be_warm: the server of `chasqui pipeline up`, if it responds and no other is named."""
        from chasqui.errors import ConfigError
        from chasqui.spark import connect_server
        from chasqui.spark.spark_session import LOCAL_MASTER, SUBMITTED, SparkTarget, is_under_spark_submit

        if self.master and self.remote:
            raise ConfigError("--master and --remote name two different Sparks", hint="give one of them")
        _check_heap(self.heap)
        cache, state = cache_directory() or state_directory(), state_directory()
        found = connect_server.find_running(state) if may_be_warm and not (self.master or self.remote) else None
        if found and not found.is_reachable():
            warn(
                f"warning: the Spark that is kept warm (process {found.pid}) does not answer, so one is started for this alone; "
                "`chasqui pipeline down` ends the other"
            )
            found = None
        master = self.master or os.environ.get("CHASQUI_SPARK_MASTER", LOCAL_MASTER)
        return SparkTarget(
            cache / "spark",
            state / "spark.log",
            master=SUBMITTED if is_under_spark_submit() else master,
            remote=self.remote or (found.url if found else None),
            heap=self.heap,
        )


def _check_heap(heap: str) -> None:
    from chasqui.errors import ArgumentError

    found = re.fullmatch(r"(\d{1,6})([mg])", heap.lower())
    if not found or int(found[1]) * (1024 if found[2] == "g" else 1) < MIN_HEAP_MB:
        raise ArgumentError(
            f"--heap: {heap} is no memory to work with", hint=f"at least {MIN_HEAP_MB}m, as in 700m or 2g"
        )


def open_archive(path: str | None, remote: str | None = None) -> Archive:
    """The archive. With a remote Spark, a plain path is one of that machine."""
    from chasqui.errors import ConfigError
    from chasqui.spark.layout import Archive

    if path == "":
        raise ConfigError("--archive names nothing", hint="leave it out for the archive in your data directory")
    root = path or str(data_directory().parent / "archive")
    if "://" in root:
        return Archive(root.rstrip("/"))
    full = str(Path(root).expanduser().absolute())
    return Archive(f"file://{full}" if remote else full)


def archived_queues(archive: Archive) -> list[str]:
    """The archived queues, by their directories; none for an archive that is not on this machine."""
    from urllib.parse import unquote  # Spark escapes as URLs do

    from chasqui.spark.layout import TABLES

    root = archive.local_root
    found = [one.name for table in TABLES for one in (root / table).glob("queue=*")] if root else []
    return sorted({unquote(name.removeprefix("queue=")) for name in found})


def complete_archived_queues(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """For the shell: queues of the archive that the command line, so far as it is typed, means."""
    with suppress(Exception):
        found = archived_queues(open_archive(ctx.params.get("path")))
        yield from (name for name in found if name.startswith(incomplete) and safe(name) == name)


def parse_length_ms(option: str, text: str, *, least: int = 1, most: int = MAX_SAFE_INTEGER) -> int:
    """An option's duration in ms, within bounds."""
    from chasqui.errors import ArgumentError
    from chasqui_cli.output.times import format_duration, parse_duration_ms

    found = parse_duration_ms(text)
    if not least <= found <= most:
        above = "" if most == MAX_SAFE_INTEGER else f", at most {format_duration(most)}"
        raise ArgumentError(f"{option}: {text} is no length to count with", hint=f"write it as 30s, 5m or 1h{above}")
    return found


def parse_past_time_ms(text: str | None, now_ms: int) -> int | None:
    """A past time, limited to what a calendar can represent."""
    from chasqui_cli.output.times import MAX_ISO_MS, parse_time_ms

    return min(max(0, parse_time_ms(text, now_ms, "past")), MAX_ISO_MS) if text else None


def require_writable_archive(archive: Archive) -> None:
    """Raise `ConfigError` for an archive that cannot be written; called before Java is started."""
    from chasqui.errors import ConfigError

    root = archive.local_root
    if root is None:
        return
    there = next(one for one in (root, *root.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(
            f"cannot write the archive at {root}: {there} is not a directory of yours",
            hint="give another place: --archive",
        )


def data_source_options(ctx: CommandContext, spark: SparkTarget) -> dict[str, str]:
    """Options of the data source for the server that was chosen.

    A password travels in the environment of processes on this machine, or as the name of a file; never as an option.
    """
    from chasqui.errors import ConfigError

    settings, address = ctx.settings, ctx.address
    if address.kind == "embedded":
        with ctx.link(address) as link:
            return {"redis.url": str(link.address)}
    paths = {"ca": settings.tls_ca, "cert": settings.tls_cert, "key": settings.tls_key}
    found = {f"redis.tls.{name}": str(path) for name, path in paths.items() if path}
    if settings.tls_server_name:
        found["redis.tls.serverName"] = settings.tls_server_name
    if settings.tls_insecure:
        found["redis.tls.insecure"] = "true"
    is_secret = address.login.password or address.login.username or address.sentinel_login.password
    if not is_secret:
        return found | {"redis.url": settings.url}
    if settings.password_file and address.login.password and not address.sentinel_login.password:
        named = {"redis.username": address.login.username} if address.login.username else {}
        return found | named | {"redis.url": str(address), "redis.passwordFile": str(settings.password_file)}
    if not spark.is_local:
        raise ConfigError(
            "the password would have to travel through Spark, which shows options to everybody",
            hint="put it into a file that Spark's machines can read, and give --password-file",
        )
    os.environ["CHASQUI_REDIS_URL"] = settings.url
    return found


QueuesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUEUE]...", help="Which; none means all.", autocompletion=complete_queues),
]


def parse_day(text: str) -> str:
    """A day in the form of the archive's directory names."""
    from datetime import date

    from chasqui.errors import ArgumentError

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ArgumentError(f"{text!r} is no day", hint="write it as 2026-11-18") from None


def require_archive(archive: Archive, queues: Iterable[str]) -> None:
    """Raise `NotFound` where nothing is archived, of these queues or at all; called before Java is started."""
    from chasqui.errors import NotFound
    from chasqui.spark import maintenance
    from chasqui.spark.layout import directory_name

    maintenance.recover_swaps(archive)
    if not archive.has_rows("events"):
        raise NotFound(
            f"there is nothing archived at {archive.root}",
            hint="`chasqui pipeline archive` fills it; --archive names another one",
        )
    known = archived_queues(archive)
    for queue in queues:
        if known and directory_name(queue) not in known:
            more = ", …" if len(known) > MAX_NAMES_IN_HINT else ""
            raise NotFound(
                f"there is nothing archived of a queue named {queue!r}",
                hint=f"archived there: {', '.join(known[:MAX_NAMES_IN_HINT])}{more}",
            )


SERVER_SCHEMA = {"running": "bool", "url": "str?", "pid": "int?", "log": "str?"}


def server_record(server: ConnectServer | None) -> Record:
    if server is None:
        return {"running": False, "url": None, "pid": None, "log": None}
    return {"running": True, "url": server.address, "pid": server.pid, "log": server.log}
