"""Listening to a channel: a connection of its own that only receives. What was published while it was away is lost.

Who speaks there and what the words mean is not known here.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import hiredis

from chasqui.errors import Unreachable
from chasqui.server import error_kinds
from chasqui.server.error_kinds import ErrorReply
from chasqui.server.request import pack_commands
from chasqui.server.round_trip import CONNECT_ERRORS, INTERRUPTS, READ_SIZE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chasqui.server.address import Node
    from chasqui.server.connection_setup import PoolFactory

PING_AFTER_S = 15.0
"""After so long a silence the server is asked for a sign of life; after twice as long it is given up."""
_PING = pack_commands([("PING",)])


class _Subscription:
    """Sorts what is heard: payloads from the server's own words."""

    def __init__(self, setup: PoolFactory, node: Node, channel: str) -> None:
        self.subscribe_command = pack_commands([("SUBSCRIBE", channel)])
        self._where = str(node)
        self._tls = setup.address.tls
        self._reader = hiredis.Reader(replyError=ErrorReply)
        self._asked = False

    def payloads_in(self, data: bytes) -> Iterator[bytes]:
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

    def on_silence(self) -> bytes:
        """What to say after a silence; the second time there is nothing left to say."""
        if self._asked:
            raise TimeoutError
        self._asked = True
        return _PING

    def to_error(self, problem: BaseException) -> Exception:
        """What a broken connection means."""
        return error_kinds.error_from_exception(problem, self._where, self._tls)


def subscribe(
    setup: PoolFactory, pool: Any, node: Node, channel: str, quiet_s: float = PING_AFTER_S
) -> Iterator[bytes]:
    """Payloads as they are published, for ever; a `ServerError` ends it."""
    ear, connection = _Subscription(setup, node, channel), None
    try:
        connection = pool.get_connection()
        wire = connection._sock
        wire.settimeout(quiet_s)
        wire.sendall(ear.subscribe_command)
        while True:
            try:
                data = wire.recv(READ_SIZE)
            except TimeoutError:
                wire.sendall(ear.on_silence())
                continue
            yield from ear.payloads_in(data)
    except CONNECT_ERRORS as problem:
        raise ear.to_error(problem) from None
    except INTERRUPTS as interruption:
        raise interruption.with_traceback(None) from None
    finally:
        if connection:
            connection.disconnect()
            pool.release(connection)


async def subscribe_async(
    setup: PoolFactory, pool: Any, node: Node, channel: str, quiet_s: float = PING_AFTER_S
) -> AsyncIterator[bytes]:
    """The same, awaited."""
    import asyncio  # a caller who blocks should not pay for it

    ear, connection = _Subscription(setup, node, channel), None
    try:
        connection = await pool.get_connection()
        connection._writer.write(ear.subscribe_command)
        while True:
            try:
                async with asyncio.timeout(quiet_s):
                    data = await connection._reader.read(READ_SIZE)
            except TimeoutError:
                connection._writer.write(ear.on_silence())
                continue
            for payload in ear.payloads_in(data):
                yield payload
    except CONNECT_ERRORS as problem:
        raise ear.to_error(problem) from None
    except INTERRUPTS as interruption:
        raise interruption.with_traceback(None) from None
    finally:
        if connection:
            await connection.disconnect(nowait=True)
            await pool.release(connection)
