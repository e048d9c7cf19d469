"""What passes between deciding and doing: packed bytes for one node, and what came of them.

The steps a link can take are listed here; why they are taken is decided in `pilot.py` and the routes.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import hiredis

from chasqui.server.error_kinds import ErrorReply

if TYPE_CHECKING:
    from chasqui.errors import ServerError
    from chasqui.server.address import Node
    from chasqui.server.flow import Arg, Reply

T = TypeVar("T")

INCOMPLETE = object()


class NodeRequest(NamedTuple):
    """Commands for one node, to be written at once; `silence` is how long the server may say nothing at all.

    more: bytes that follow the payload, made as they are written.
    """

    node: Node
    payload: bytes
    reply_count: int
    read_timeout: float
    more_chunks: Iterable[bytes] = ()

    def chunks(self) -> Iterator[bytes]:
        """Everything to be written, in order."""
        yield self.payload
        yield from self.more_chunks


class FailedRequest(NamedTuple):
    """A parcel without replies. `sent` is true when the server may have acted on it."""

    error: ServerError
    sent: bool


class Pause(NamedTuple):
    """Wait, then go on."""

    seconds: float


class DropConnections(NamedTuple):
    """Close the connections to a node: it is not what it was."""

    node: Node


@dataclass(slots=True)
class TrafficCounters:
    """What went over the wire, logins aside."""

    round_trips: int = 0
    commands: int = 0
    bytes_out: int = 0
    bytes_in: int = 0

    def count_request(self, request: NodeRequest) -> None:
        """One more parcel leaves."""
        self.round_trips += 1
        self.commands += request.reply_count


Step = Sequence[NodeRequest] | Pause | DropConnections
RequestResult = list[Any] | FailedRequest
Steps = Generator[Step, Sequence[RequestResult], T]


def pack_commands(commands: Sequence[tuple[Arg, ...]]) -> bytes:
    """The commands as the server reads them, one after the other."""
    pack_one: Any = hiredis.pack_command  # its stub allows for a single word only
    try:
        return b"".join([pack_one(words) for words in commands])
    except UnicodeEncodeError:
        return b"".join([pack_one(tuple(map(_encode_word, words))) for words in commands])


def _encode_word(word: Arg) -> Arg:
    """Names that are not UTF-8 are held as text with lone surrogates; here they become their own bytes again."""
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


class ReplyCollector:
    """Collects the replies of one parcel from whatever bytes arrive."""

    __slots__ = ("_expected", "_reader", "replies")

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=INCOMPLETE)
        self.replies: list[Reply] = []

    def feed(self, data: bytes) -> bool:
        """Take bytes in; true once every reply is here. No bytes at all mean that the server hung up."""
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the server closed it")
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not INCOMPLETE:
            self.replies.append(reply)
        return len(self.replies) >= self._expected


def query_node(node: Node, *words: Arg, silence: float) -> Steps[Reply | FailedRequest]:
    """One question of our own to one node; an error reply is a value, like everything else here."""
    [outcome] = yield [NodeRequest(node, pack_commands([words]), 1, silence)]
    return outcome if isinstance(outcome, FailedRequest) else outcome[0]
