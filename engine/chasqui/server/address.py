"""Where a server is and how to be let in: URLs to frozen `Address` values, and back to text without the password.

Nothing here opens a connection, and no error made here repeats a password, not even from a malformed URL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, unquote

from chasqui.errors import ConfigError
from chasqui.server.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path

ServerKind = Literal["server", "unix", "cluster", "sentinel", "embedded"]

SCHEMES: dict[str, tuple[ServerKind, bool]] = {
    "redis": ("server", False),
    "rediss": ("server", True),
    "unix": ("unix", False),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "embedded": ("embedded", False),
}
QUERY_OPTIONS = frozenset({"db", "username", "password", "sentinel_username", "sentinel_password"})
ENCODE_HINT = "percent-encode special characters of a user name or password: @ is %40, / is %2F, ? is %3F"

_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:\[\]/@]*))(?::(?P<port>\d*))?")


@dataclass(frozen=True, slots=True)
class Node:
    """One server process of a deployment. Without a port the host is the path of a unix socket."""

    host: str
    port: int = 0
    is_sentinel: bool = False

    def __str__(self) -> str:
        if not self.port:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates to trust and to present. The server's certificate is verified unless `insecure` is set."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are to a server."""

    username: str | None = None
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """One deployment. `str()` of it is a URL without user or password, fit for any message.

    nodes: the server, or the cluster's or sentinels' first contacts; none yet for an embedded server.
    name: the sentinels' service, or the embedded server.
    """

    kind: ServerKind
    nodes: tuple[Node, ...] = ()
    name: str = ""
    db: int = 0
    login: Login = field(default_factory=Login)
    sentinel_login: Login = field(default_factory=Login)
    tls: Tls | None = None

    def __str__(self) -> str:
        hosts = ",".join(map(str, self.nodes))
        db = f"/{self.db}" if self.db else ""
        match self.kind:
            case "unix":
                return f"unix://{hosts}" + (f"?db={self.db}" if self.db else "")
            case "embedded":
                return f"embedded://{self.name}"
            case "sentinel":
                return f"redis{self._tls_suffix}+sentinel://{hosts}/{self.name}{db}"
            case "cluster":
                return f"redis{self._tls_suffix}+cluster://{hosts}{db}"
            case "server":
                return f"redis{self._tls_suffix}://{hosts}{db}"

    @property
    def _tls_suffix(self) -> str:
        return "s" if self.tls else ""


def parse_address(
    url: str | Secret, *, username: str | None = None, password: str | Secret | None = None, tls: Tls | None = None
) -> Address:
    """The address a URL names. `username` and `password` win over what the URL carries.

    Raises `ConfigError` with a hint, and quotes nothing: in a malformed URL any part may be the password.
    For the same reason the URL is wrapped at once and errors leave from this frame only.
    """
    url, password = Secret.wrap(url) or Secret(""), Secret.wrap(password)
    try:
        return _parse_url(url.reveal().strip(), Login(username, password), tls)
    except ConfigError as problem:
        found = problem.with_traceback(None)
    raise found


def with_tls(url: str | Secret) -> Secret:
    """The same place over TLS: `redis` becomes `rediss`, whatever follows it; sockets have no need of it."""
    text = (Secret.wrap(url) or Secret("")).reveal().strip()
    scheme, colon, rest = text.partition("://")
    if scheme.lower() in ("unix", "embedded"):
        raise ConfigError(f"TLS is for networks, and {scheme}:// is not one", hint="leave out tls=True")
    if not colon:
        scheme, rest = "redis", text
    if scheme.lower().startswith("redis") and not scheme.lower().startswith("rediss"):
        scheme = f"rediss{scheme[5:]}"
    return Secret(f"{scheme}://{rest}")


def _parse_url(url: str, given: Login, tls: Tls | None) -> Address:
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.lower() not in SCHEMES:
        known = " ".join(f"{name}://" for name in SCHEMES)
        raise ConfigError("the URL does not say what kind of server it means", hint=f"start it with one of {known}")
    kind, secure = SCHEMES[scheme.lower()]
    if tls and not secure:
        raise ConfigError(f"TLS options need a rediss URL, not {scheme}://", hint="write rediss:// instead")
    rest, _, query = rest.partition("?")
    userinfo, _, place = rest.rpartition("@")
    options = _parse_query(query)
    login = Login(
        given.username or _parse_username(userinfo) or options.get("username"),
        given.password or _parse_password(userinfo) or Secret.wrap(options.get("password")),
    )
    sentinels = Login(options.get("sentinel_username"), Secret.wrap(options.get("sentinel_password")))
    where = _parse_location(kind, place, options.get("db"))
    return Address(kind, *where, login, sentinels, (tls or Tls()) if secure else None)


def _parse_location(kind: ServerKind, place: str, db: str | None) -> tuple[tuple[Node, ...], str, int]:
    """Nodes, name and database number of what follows the user part."""
    if kind == "unix":
        if not place.startswith("/"):
            raise ConfigError("the URL names no socket", hint="write three slashes: unix:///run/redis.sock")
        return (Node(unquote(place)),), "", _parse_db(db)
    if kind == "embedded":
        return (), unquote(place.strip("/")), _parse_db(db)
    hosts, _, path = place.partition("/")
    nodes = tuple(_parse_node(host, is_sentinel=kind == "sentinel") for host in hosts.split(","))
    if len(nodes) > 1 and kind == "server":
        raise ConfigError("the URL names several servers", hint="write redis+cluster:// or redis+sentinel://")
    name, path = _parse_service(path) if kind == "sentinel" else ("", path.strip("/"))
    return nodes, name, _parse_db(path or db)


def _parse_service(path: str) -> tuple[str, str]:
    name, _, db = path.strip("/").partition("/")
    if not name:
        raise ConfigError("the URL names no service", hint="write redis+sentinel://host:26379/service/db")
    return unquote(name), db


def _parse_node(text: str, *, is_sentinel: bool) -> Node:
    match = _HOST.fullmatch(text)
    port = (match["port"] or ("26379" if is_sentinel else "6379")).lstrip("0") if match else ""
    number = int(port) if 0 < len(port) < 6 else 0
    if not match or not 0 < number < 65536:
        raise ConfigError("the URL has no readable host and port", hint=f"write host:6379; {ENCODE_HINT}")
    return Node(match["v6"] or unquote(match["host"]) or "127.0.0.1", number, is_sentinel)


def _parse_query(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query.partition("#")[0], keep_blank_values=True))
    if not options.keys() <= QUERY_OPTIONS:
        known = ", ".join(sorted(QUERY_OPTIONS))
        raise ConfigError("the URL has an option nobody knows", hint=f"known are {known}; {ENCODE_HINT}")
    return options


def _parse_username(userinfo: str) -> str | None:
    return unquote(userinfo.partition(":")[0]) or None


def _parse_password(userinfo: str) -> Secret | None:
    return Secret.wrap(unquote(userinfo.partition(":")[2]) or None)


def _parse_db(text: str | None) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) < 100):
        raise ConfigError("the database in the URL is not a number", hint=f"write /0 to /15; {ENCODE_HINT}")
    return int(text or 0)
