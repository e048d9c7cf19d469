"""One parcel's way over one connection: connect, write, read, and give the connection back or close it.

A connection with a reply still to come is never used again. Which parcels there are is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import hiredis
import redis.exceptions

from chasqui.errors import Unreachable
from chasqui.server import error_kinds
from chasqui.server.request import FailedRequest, ReplyCollector

if TYPE_CHECKING:
    from chasqui.server.connection_setup import PoolFactory
    from chasqui.server.request import NodeRequest, RequestResult, TrafficCounters

READ_SIZE = 1 << 16
INTERRUPTS = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
CONNECTION_ERRORS = (redis.exceptions.RedisError, hiredis.HiredisError, OSError)
CONNECT_ERRORS = (*CONNECTION_ERRORS, UnicodeError)
"""A host's name that no name resolution can take is a `UnicodeError`."""


class _Exchange:
    """The part that does no I/O. `pool` and its connections are redis-py's, of whose inside only three names are
    used: `_sock`, `_reader`, `_writer`.
    """

    def __init__(self, setup: PoolFactory, pool: Any, request: NodeRequest, traffic: TrafficCounters) -> None:
        self._setup = setup
        self._pool = pool
        self._request = request
        self._traffic = traffic
        self._pauses = setup.reconnect_pauses()
        self._connection: Any = None
        self._is_idle = True
        self._broken: FailedRequest | None = None

    def _start(self) -> None:
        self._is_idle = False
        self._traffic.count_request(self._request)

    def _fail(self, problem: BaseException, *, sent: bool) -> FailedRequest:
        where, tls = str(self._request.node), self._setup.address.tls
        error = error_kinds.error_from_exception(problem, where, tls)
        if isinstance(error, Unreachable):
            error.sent = sent
        self._broken = FailedRequest(error, sent)
        return self._broken

    def _retry_pause(self, problem: BaseException) -> float | None:
        """How long to wait before the next try to connect; None when there should be none."""
        failed = self._fail(problem, sent=False)
        return next(self._pauses, None) if isinstance(failed.error, Unreachable) else None

    def _feed(self, inbox: ReplyCollector, data: bytes) -> bool:
        self._traffic.bytes_in += len(data)
        self._is_idle = inbox.feed(data)
        return self._is_idle


class RoundTrip(_Exchange):
    """The blocking kind."""

    def __enter__(self) -> Self:
        pause: float | None = 0.0
        while pause is not None and not self._connection:
            if pause:
                self._setup.clock.sleep_sync(pause)
            pause = self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection:
            if not self._is_idle:
                self._connection.disconnect()
            self._pool.release(self._connection)

    def _connect(self) -> float | None:
        try:
            self._connection = self._pool.get_connection()
            self._broken = None
        except CONNECT_ERRORS as problem:
            return self._retry_pause(problem)
        except INTERRUPTS as interruption:
            # the frames below hold the password in their local variables
            raise interruption.with_traceback(None) from None
        return None

    def write(self) -> None:
        """All at once; what the kernel does not take in time breaks the line."""
        if self._broken:
            return
        self._start()
        wire = self._connection._sock
        try:
            wire.settimeout(self._request.read_timeout)
            for piece in self._request.chunks():
                self._traffic.bytes_out += len(piece)
                rest = memoryview(piece)
                while rest:
                    rest = rest[wire.send(rest) :]
        except CONNECTION_ERRORS as problem:
            self._fail(problem, sent=True)

    def read(self) -> RequestResult:
        """Every reply, or the reason why not."""
        if self._broken:
            return self._broken
        inbox = ReplyCollector(self._request.reply_count)
        try:
            while not self._feed(inbox, self._connection._sock.recv(READ_SIZE)):
                pass
        except CONNECTION_ERRORS as problem:
            return self._fail(problem, sent=True)
        return inbox.replies


class AsyncRoundTrip(_Exchange):
    """The awaiting kind. It may be cancelled anywhere: then the connection is closed on the way out."""

    async def __aenter__(self) -> Self:
        pause: float | None = 0.0
        while pause is not None and not self._connection:
            if pause:
                await self._setup.clock.sleep(pause)
            pause = await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection:
            if not self._is_idle:
                await self._connection.disconnect(nowait=True)
            await self._pool.release(self._connection)

    async def _connect(self) -> float | None:
        try:
            self._connection = await self._pool.get_connection()
            self._broken = None
        except CONNECT_ERRORS as problem:
            return self._retry_pause(problem)
        except INTERRUPTS as interruption:
            # the frames below hold the password in their local variables
            raise interruption.with_traceback(None) from None
        return None

    async def write_and_read(self) -> RequestResult:
        """Write everything, then read every reply; only silence counts against the time limit, not length."""
        if self._broken:
            return self._broken
        self._start()
        inbox = ReplyCollector(self._request.reply_count)
        try:
            async with asyncio.timeout(self._request.read_timeout) as limit:
                await self._write(limit)
                while not self._feed(inbox, await self._connection._reader.read(READ_SIZE)):
                    self._extend_deadline(limit)
        except CONNECTION_ERRORS as problem:
            return self._fail(problem, sent=True)
        return inbox.replies

    async def _write(self, limit: asyncio.Timeout) -> None:
        writer, begun = self._connection._writer, False
        for piece in self._request.chunks():
            if begun:
                await self._setup.clock.sleep(0)
            self._traffic.bytes_out += len(piece)
            for start in range(0, len(piece), READ_SIZE):
                if begun:  # most parcels are one chunk, and setting a timer costs more than writing it
                    self._extend_deadline(limit)
                writer.write(memoryview(piece)[start : start + READ_SIZE])
                await writer.drain()
                begun = True

    def _extend_deadline(self, limit: asyncio.Timeout) -> None:
        limit.reschedule(asyncio.get_running_loop().time() + self._request.read_timeout)
