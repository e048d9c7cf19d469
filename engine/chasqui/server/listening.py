"""Listening to a channel: a connection of its own that only hears. What was told while nobody listened is lost.

Who speaks there and what the words mean is not known here.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import hiredis

from chasqui.errors import Unreachable
from chasqui.server import faults
from chasqui.server.faults import ErrorReply
from chasqui.server.lines import CHUNK, INTERRUPTIONS, NO_CONNECTION
from chasqui.server.parcel import pack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chasqui.server.address import Node
    from chasqui.server.pools import Setup

QUIET_S = 15.0
"""After so long a silence the server is asked for a sign of life; after twice as long it is given up."""
_PING = pack([("PING",)])


class _Ear:
    """Sorts what is heard: payloads from the server's own words."""

    def __init__(self, setup: Setup, node: Node, channel: str) -> None:
        self.greeting = pack([("SUBSCRIBE", channel)])
        self._where = str(node)
        self._tls = setup.address.tls
        self._reader = hiredis.Reader(replyError=ErrorReply)
        self._asked = False

    def heard(self, data: bytes) -> Iterator[bytes]:
        """The payloads in these bytes."""
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the server closed it")
        self._asked = False
        self._reader.feed(data)
        while (words := self._reader.gets()) is not False:
            if isinstance(words, ErrorReply):
                raise Unreachable(f"{self._where}: SUBSCRIBE: {words}")
            if isinstance(words, list) and words[0] == b"message":
                yield words[2]

    def quiet(self) -> bytes:
        """What to say after a silence; the second time there is nothing left to say."""
        if self._asked:
            raise TimeoutError
        self._asked = True
        return _PING

    def meaning(self, problem: BaseException) -> Exception:
        """What a broken connection means."""
        return faults.from_exception(problem, self._where, self._tls)


def listen(setup: Setup, pool: Any, node: Node, channel: str, quiet_s: float = QUIET_S) -> Iterator[bytes]:
    """Payloads as they are published, for ever; a `ServerError` ends it."""
    ear, connection = _Ear(setup, node, channel), None
    try:
        connection = pool.get_connection()
        wire = connection._sock
        wire.settimeout(quiet_s)
        wire.sendall(ear.greeting)
        while True:
            try:
                data = wire.recv(CHUNK)
            except TimeoutError:
                wire.sendall(ear.quiet())
                continue
            yield from ear.heard(data)
    except NO_CONNECTION as problem:
        raise ear.meaning(problem) from None
    except INTERRUPTIONS as interruption:
        raise interruption.with_traceback(None) from None
    finally:
        if connection:
            connection.disconnect()
            pool.release(connection)


async def listen_async(
    setup: Setup, pool: Any, node: Node, channel: str, quiet_s: float = QUIET_S
) -> AsyncIterator[bytes]:
    """The same, awaited."""
    import asyncio  # a caller who blocks should not pay for it

    ear, connection = _Ear(setup, node, channel), None
    try:
        connection = await pool.get_connection()
        connection._writer.write(ear.greeting)
        while True:
            try:
                async with asyncio.timeout(quiet_s):
                    data = await connection._reader.read(CHUNK)
            except TimeoutError:
                connection._writer.write(ear.quiet())
                continue
            for payload in ear.heard(data):
                yield payload
    except NO_CONNECTION as problem:
        raise ear.meaning(problem) from None
    finally:
        if connection:
            await connection.disconnect(nowait=True)
            await pool.release(connection)
