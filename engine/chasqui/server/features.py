"""What the server can do, found out by trying; version texts mislead (Valkey 9.1 calls itself Redis 7.2.4).

Only `commands/` may act on the answer: nothing else in the code base asks what kind of server it talks to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.errors import ServerError
from chasqui.server.commands.replies import parse_info
from chasqui.server.flow import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.server.flow import Flow, Reply

PROBE_KEY = "{chasqui:}:nowhere"
PROBE_COMMANDS = (
    ("XADD", PROBE_KEY, "NOMKSTREAM", "IDMP", "p", "i", "*", "f", "v"),
    ("XACKDEL", PROBE_KEY, "g", "IDS", 1, "0-1"),
    ("XREADGROUP", "GROUP", "g", "c", "CLAIM", 1000, "STREAMS", PROBE_KEY, ">"),
)
PROBED_WORDS = (b"IDMP", b"XACKDEL", b"CLAIM")


@dataclass(frozen=True, slots=True)
class Features:
    """Three commands that only newer servers have, and the server's own kind and version, for people to read.

    idmp: XADD IDMP. ackdel: XACKDEL. claim: XREADGROUP CLAIM. version: empty when INFO is not allowed.
    """

    idmp: bool
    ackdel: bool
    claim: bool
    kind: str
    version: str

    @property
    def missing(self) -> list[str]:
        """The words this server has not; scripts of ours stand in for them."""
        known = {"XADD IDMP": self.idmp, "XACKDEL": self.ackdel, "XREADGROUP CLAIM": self.claim}
        return [word for word, has in known.items() if not has]


def no_features() -> Features:
    """For asks that are said alike to every server: nothing is believed to be there, and nothing was asked."""
    return Features(idmp=False, ackdel=False, claim=False, kind="unknown", version="")


def probe_features(*, read_only: bool = False) -> Flow[Features]:
    """One round trip. The three calls are tried on a key that does not exist, so nothing is ever written.

    A read-only link sends no write, not even a harmless one: there the server's own command table is believed. It
    is believed too where a try shows nothing: the user may not, the server is full, a replica or still loading.
    """
    tries = [] if read_only else [Call(words, keys=(PROBE_KEY,), tolerant=True) for words in PROBE_COMMANDS]
    *tried, table, info = yield [
        *tries,
        Call(("COMMAND", "DOCS", "XADD", "XACKDEL", "XREADGROUP"), tolerant=True),
        Call(("INFO", "server"), tolerant=True),
    ]
    listed = [word in set(_table_words(table)) for word in PROBED_WORDS]
    has = [_is_supported(reply, known) for reply, known in zip(tried, listed, strict=True)] if tried else listed
    idmp, ackdel, claim = has
    kind, version = _identity(info)
    return Features(idmp, ackdel, claim, kind, version)


def _is_supported(reply: Reply, listed: bool) -> bool:
    """Only a plain ERR is a no: the words were not understood. That there is no such group was understood."""
    code = reply.code if isinstance(reply, ServerError) else None
    return code in {None, "NOGROUP"} or (code != "ERR" and listed)


def _table_words(table: Reply) -> Iterator[bytes]:
    """Every word of the nested command table, as commands are written."""
    if isinstance(table, bytes):
        yield table.upper()
    elif isinstance(table, list):
        for part in table:
            yield from _table_words(part)


def _identity(info: Reply) -> tuple[str, str]:
    """Kind and version as the server reports them; forks report their own next to the one they imitate."""
    if not isinstance(info, bytes):
        return "unknown", ""
    lines = parse_info(info)
    kind = lines.get("server_name") or next((k for k in ("dragonfly", "valkey") if f"{k}_version" in lines), "redis")
    return kind, lines.get(f"{kind}_version") or lines.get("redis_version", "")
