"""The options of the data source, checked: Kafka's names where Kafka has one. And how to reach the server they name.

Passwords cannot be options: Spark shows those in plans, logs and its web page. They come from a file or the environment
of the machine that connects.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chasqui.errors import ArgumentError, ConfigError, ServerError
from pyspark_chasqui import error_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chasqui.server.link import Link

T = TypeVar("T")

DEFAULT_URL = "redis://127.0.0.1:6379"
URL_VARIABLES = ("CHASQUI_REDIS_URL", "REDIS_URL")
PASSWORD_VARIABLE = "REDISCLI_AUTH"  # noqa: S105 - the name of a variable, not a password

_SERVER_OPTIONS = (
    "redis.url", "redis.username", "redis.passwordFile", "redis.tls.ca", "redis.tls.cert", "redis.tls.key",
    "redis.tls.serverName", "redis.tls.insecure", "retryFor",
)  # fmt: skip
_READ_OPTIONS = (
    "subscribe", "subscribePattern", "table", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "failOnDataLoss", "allowRecreated", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
    "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "fetchCount", "pushdown",
)  # fmt: skip
_WRITE_OPTIONS = (
    "queue", "runId", "idempotence", "ledgerTtl", "pipelineSize", "maxBacklog", "maxRate", "createdAtMs",
)  # fmt: skip
_SPARK_OPTIONS = {"path", "checkpointlocation", "queryname", "outputmode", "asyncprogresstrackingenabled"}


@dataclass(frozen=True, slots=True)
class ServerLocation:
    """Which server, without any password. retry_s: how long a server that is away is waited for."""

    url: str | None = None
    username: str | None = None
    password_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None
    insecure: bool = False
    retry_s: int = 60

    @classmethod
    def from_options(cls, given: _OptionParser) -> ServerLocation:
        """From the options that begin with `redis.`."""
        from chasqui.server.secret import redact

        url = given.text("redis.url")
        if url is not None and redact(url) != url:
            raise ConfigError(
                "redis.url holds a user or password, and Spark shows options to everybody",
                hint="put the password into redis.passwordFile or REDISCLI_AUTH, "
                "or the whole URL into CHASQUI_REDIS_URL",
            )
        return cls(
            url,
            given.text("redis.username"),
            given.text("redis.passwordFile"),
            given.text("redis.tls.ca"),
            given.text("redis.tls.cert"),
            given.text("redis.tls.key"),
            given.text("redis.tls.serverName"),
            given.flag("redis.tls.insecure"),
            given.number("retryFor", 60, least=0) or 0,
        )


@cache
def open_link(place: ServerLocation) -> Link:
    """The process's link to a place; a worker process that Spark forks makes connections of its own."""
    from chasqui.server.address import Tls, parse_address
    from chasqui.server.link import Link
    from chasqui.server.secret import Secret, read_password_file

    url = place.url or next((os.environ[name] for name in URL_VARIABLES if os.environ.get(name)), DEFAULT_URL)
    own = parse_address(url).login.password if "@" in url or "password=" in url else None
    password = (
        read_password_file(Path(place.password_file)) if place.password_file
        else own or Secret.wrap(os.environ.get(PASSWORD_VARIABLE))
    )  # fmt: skip
    asked = Tls(
        ca=Path(place.ca) if place.ca else None,
        cert=Path(place.cert) if place.cert else None,
        key=Path(place.key) if place.key else None,
        server_name=place.server_name,
        insecure=place.insecure,
    )
    tls = None if asked == Tls() else asked
    address = parse_address(url, username=place.username, password=password, tls=tls)
    return Link.open(address, timeout=30.0)


def retry_while_away(place: ServerLocation, ask: Callable[[], T]) -> T:
    """Ask, and while the server is away ask again: a planner error would end a streaming query at once."""
    from chasqui.clock import SystemClock

    clock = SystemClock()
    deadline, pause = clock.monotonic() + place.retry_s, 0.1
    while True:
        try:
            return ask()
        except ServerError as error:
            if not error_marks.is_transient(error) or clock.monotonic() + pause > deadline:
                raise
        clock.sleep_sync(pause)
        pause = min(2.0, pause * 2)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read. Offsets are "earliest", "latest", or an id per queue.

    min_per_trigger: a queue with fewer new entries is left for a later batch, but not longer than max_delay_s.
    """

    place: ServerLocation
    table: str = "events"
    queues: tuple[str, ...] = ()
    pattern: str | None = None
    starting: str | dict[str, str] = "earliest"
    ending: str | dict[str, str] = "latest"
    starting_ms: int | None = None
    ending_ms: int | None = None
    fail_on_loss: bool = True
    allow_recreated: bool = False
    max_per_trigger: int | None = None
    min_per_trigger: int = 0
    max_delay_s: int = 0
    min_partitions: int = 4
    max_per_partition: int = 250_000
    fetch_count: int = 10_000
    pushdown: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Checked, with unknown names refused: a misspelt option must not be a silent default."""
        given = _OptionParser(options, _READ_OPTIONS + _SERVER_OPTIONS)
        queues = given.names("subscribe")
        pattern = given.text("subscribePattern")
        if bool(queues) == bool(pattern):
            raise ArgumentError(
                "say which queues to read: either subscribe or subscribePattern",
                hint='as in .option("subscribe", "emails,orders"), or ["odd, name"] for odd ones, '
                'or .option("subscribePattern", ".*")',
            )
        if pattern:
            _check_pattern(pattern)
        return cls(
            ServerLocation.from_options(given),
            given.choice("table", ("events", "dlq", "stream")),
            queues,
            pattern,
            given.offsets("startingOffsets", "earliest"),
            given.offsets("endingOffsets", "latest"),
            given.number("startingTimestamp", None, least=0),
            given.number("endingTimestamp", None, least=0),
            given.flag("failOnDataLoss", default=True),
            given.flag("allowRecreated"),
            given.number("maxOffsetsPerTrigger", None, least=1),
            given.number("minOffsetsPerTrigger", 0, least=0) or 0,
            given.number("maxTriggerDelay", 900, least=0) or 0,
            given.number("minPartitions", 4, least=1) or 4,
            given.number("maxRecordsPerPartition", 250_000, least=1) or 250_000,
            given.number("fetchCount", 10_000, least=1) or 10_000,
            given.flag("pushdown"),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where jobs go, and how they come there once."""

    place: ServerLocation
    queue: str
    run_id: str
    idempotence: str = "rows"
    ttl_s: int = 7 * 86_400
    pipeline: int = 1000
    max_backlog: int = 800_000
    max_rate: int = 0
    created_at_ms: int | None = None
    since_ms: int = field(default=0)
    now_ms: int = field(default=0)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
        """Checked, with unknown names refused."""
        given = _OptionParser(options, _WRITE_OPTIONS + _SERVER_OPTIONS)
        idempotence = given.choice("idempotence", ("rows", "chunks", "idmp", "none"))
        run_id = given.text("runId")
        if not given.text("queue"):
            raise ArgumentError("say which queue the jobs go to: option queue", hint='.option("queue", "emails")')
        if not run_id and idempotence != "none":
            raise ArgumentError(
                "option runId is missing: without it a retried task would add its jobs twice",
                hint="name the load, and use the same name when you run it again; or say idempotence=none",
            )
        if idempotence == "idmp" and given.number("maxRate", 0, least=0):
            raise ArgumentError(
                "idempotence=idmp knows no maxRate: its jobs are added one by one, and nothing counts them together",
                hint="use idempotence=rows, or leave maxRate out",
            )
        if streaming and idempotence == "chunks":
            raise ArgumentError(
                "idempotence=chunks needs one batch with a fixed order, and a stream has many",
                hint="use idempotence=rows",
            )
        return cls(
            ServerLocation.from_options(given),
            given.text("queue") or "",
            run_id or "none",
            idempotence,
            given.number("ledgerTtl", 7 * 86_400, least=1) or 1,
            given.number("pipelineSize", 1000, least=1, most=1500) or 1000,
            given.number("maxBacklog", 800_000, least=0) or 0,
            given.number("maxRate", 0, least=0) or 0,
            given.number("createdAtMs", None, least=0),
        )


class _OptionParser:
    """The given options, parsed strictly; errors spell names as people write them, whatever their case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._options = {name.lower(): str(value) for name, value in options.items()}
        unknown = sorted(self._options.keys() - {name.lower() for name in known} - _SPARK_OPTIONS)
        if unknown:
            raise ArgumentError(
                f"the data source chasqui has no option {unknown[0]!r}", hint=f"known: {', '.join(known)}"
            )

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower()) or None

    def names(self, name: str) -> tuple[str, ...]:
        """Names between commas; or, as a name may have any character in it, a JSON list of them."""
        given = self.text(name) or ""
        try:
            listed = json.loads(given)
        except ValueError:
            listed = None
        if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
            return tuple(listed)
        return tuple(one.strip() for one in given.split(",") if one.strip())

    def number(self, name: str, default: int | None, *, least: int, most: int = 2**53) -> int | None:
        given = self.text(name)
        if given is None:
            return default
        if not re.fullmatch(r"\d{1,16}", given) or not least <= int(given) <= most:
            raise ArgumentError(f"option {name} is {given!r}", hint=f"give a whole number from {least} to {most}")
        return int(given)

    def flag(self, name: str, *, default: bool = False) -> bool:
        given = (self.text(name) or str(default)).lower()
        if given not in ("true", "false"):
            raise ArgumentError(f"option {name} is {given!r}", hint="give true or false")
        return given == "true"

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        given = self.text(name) or known[0]
        if given not in known:
            raise ArgumentError(f"option {name} is {given!r}", hint=f"give one of {', '.join(known)}")
        return given

    def offsets(self, name: str, default: str) -> str | dict[str, str]:
        given = self.text(name) or default
        if given in ("earliest", "latest"):
            return given
        try:
            found: Any = json.loads(given)
        except ValueError:
            found = None
        ids = found.values() if isinstance(found, dict) else [None]
        if not all(isinstance(one, str) and re.fullmatch(r"\d{1,20}-\d{1,20}", one) for one in ids):
            raise ArgumentError(
                f"option {name} is {given!r}",
                hint='give earliest, latest, or an id per queue: {"emails": "1794741208048-0"}',
            )
        return dict(found)


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as fault:
        raise ArgumentError(
            f"option subscribePattern is no regular expression: {fault}", hint='as in "mail.*", or ".*" for all'
        ) from None
