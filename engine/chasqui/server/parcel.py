"""What passes between deciding and doing: packed bytes for one node, and what came of them.

The steps a link can take are listed here; why they are taken is decided in `pilot.py` and the routes.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import hiredis

from chasqui.server.faults import ErrorReply

if TYPE_CHECKING:
    from chasqui.errors import ServerError
    from chasqui.server.address import Node
    from chasqui.server.call import Reply, Word

T = TypeVar("T")

_NOTHING = object()


class Parcel(NamedTuple):
    """Commands for one node, to be written at once; `silence` is how long the server may say nothing at all.

    more: bytes that follow the payload, made as they are written.
    """

    node: Node
    payload: bytes
    replies: int
    silence: float
    more: Iterable[bytes] = ()

    def pieces(self) -> Iterator[bytes]:
        """Everything to be written, in order."""
        yield self.payload
        yield from self.more


class Broken(NamedTuple):
    """A parcel without replies. `sent` is true when the server may have acted on it."""

    error: ServerError
    sent: bool


class Pause(NamedTuple):
    """Wait, then go on."""

    seconds: float


class Forget(NamedTuple):
    """Close the connections to a node: it is not what it was."""

    node: Node


@dataclass(slots=True)
class Traffic:
    """What went over the wire, logins aside."""

    round_trips: int = 0
    commands: int = 0
    bytes_out: int = 0
    bytes_in: int = 0

    def count(self, parcel: Parcel) -> None:
        """One more parcel leaves."""
        self.round_trips += 1
        self.commands += parcel.replies


Step = Sequence[Parcel] | Pause | Forget
Outcome = list[Any] | Broken
Steps = Generator[Step, Sequence[Outcome], T]


def pack(commands: Sequence[tuple[Word, ...]]) -> bytes:
    """The commands as the server reads them, one after the other."""
    pack_one: Any = hiredis.pack_command  # its stub allows for a single word only
    try:
        return b"".join([pack_one(words) for words in commands])
    except UnicodeEncodeError:
        return b"".join([pack_one(tuple(map(_octets, words))) for words in commands])


def _octets(word: Word) -> Word:
    """Names that are not UTF-8 are held as text with lone surrogates; here they become their own bytes again."""
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


class Inbox:
    """Collects the replies of one parcel from whatever bytes arrive."""

    __slots__ = ("_expected", "_reader", "replies")

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=_NOTHING)
        self.replies: list[Reply] = []

    def feed(self, data: bytes) -> bool:
        """Take bytes in; true once every reply is here. No bytes at all mean that the server hung up."""
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the server closed it")
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not _NOTHING:
            self.replies.append(reply)
        return len(self.replies) >= self._expected


def ask(node: Node, *words: Word, silence: float) -> Steps[Reply | Broken]:
    """One question of our own to one node; an error reply is a value, like everything else here."""
    [outcome] = yield [Parcel(node, pack([words]), 1, silence)]
    return outcome if isinstance(outcome, Broken) else outcome[0]
