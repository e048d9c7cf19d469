"""A connection kept for one purpose: bytes go out whenever there are some, replies come in order as they come.

For those who talk all the time and cannot afford a turn per batch. It carries and counts; it never sends again,
except what the server did not carry out because it had forgotten a script.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import hiredis

from chasqui.server import error_kinds, scripts
from chasqui.server.error_kinds import ErrorReply
from chasqui.server.request import pack_commands
from chasqui.server.round_trip import CONNECT_ERRORS, INTERRUPTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.errors import ServerError
    from chasqui.server.address import Node
    from chasqui.server.connection_setup import PoolFactory
    from chasqui.server.flow import Call, Reply
    from chasqui.server.request import TrafficCounters

INCOMPLETE = object()
# After one of these the node is not, or not now, the one to talk to: a new line should ask for the way again.
RECONNECT_CODES = frozenset({"MOVED", "ASK", "READONLY", "UNBLOCKED", "LOADING", "MASTERDOWN", "CLUSTERDOWN"})


class _ExpectedReplies(NamedTuple):
    """Replies to come: how many, the callback, and how long the server may hold the first of them back."""

    replies: int
    on_replies: Callable[[list[Reply]], None]
    block_s: float


class PipelinedConnection(asyncio.Protocol):
    """One connection, taken from a link's pool and given back closed. `lost` is called once if it breaks."""

    def __init__(self, setup: PoolFactory, pool: Any, node: Node, traffic: TrafficCounters, silence: float) -> None:
        self._setup = setup
        self._pool = pool
        self._node = node
        self._traffic = traffic
        self._silence = silence
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=INCOMPLETE)
        self._expected: deque[_ExpectedReplies] = deque()
        self._replies: list[Reply] = []
        self._connection: Any = None
        self._transport: Any = None
        self._last_received = setup.clock.monotonic()
        self.broken: ServerError | None = None
        self.on_lost: Callable[[ServerError], None] | None = None

    async def open(self) -> PipelinedConnection:
        """Connect and log in."""
        try:
            self._connection = await self._pool.get_connection()
        except CONNECT_ERRORS as problem:
            raise self._connection_error(problem) from None
        except INTERRUPTS as interruption:
            # the frames below hold the password in their local variables
            raise interruption.with_traceback(None) from None
        self._transport = self._connection._writer.transport
        self._transport.set_protocol(self)
        return self

    async def close(self) -> None:
        """Hang up. What the server still has to say is not heard."""
        self.on_lost = None
        if self._connection:
            await self._connection.disconnect(nowait=True)
            await self._pool.release(self._connection)
            self._connection = None

    def send(
        self, payload: bytes, replies: int, on_replies: Callable[[list[Reply]], None], *, block_s: float = 0.0
    ) -> None:
        """Write packed commands; `on_replies` gets their replies, error replies among them as `ErrorReply` values."""
        if not self._expected:
            self._last_received = self._setup.clock.monotonic()
        self._expected.append(_ExpectedReplies(replies, on_replies, block_s))
        self._traffic.round_trips += 1
        self._traffic.commands += replies
        self._traffic.bytes_out += len(payload)
        self._transport.write(payload)

    def call(self, call: Call, on_reply: Callable[[Reply], None]) -> None:
        """Send one call; `on_reply` gets its reply, or its error as a value. A forgotten script is loaded again."""

        def judge(replies: list[Reply]) -> None:
            reply = replies[-1]
            if isinstance(reply, ErrorReply):
                if reply.code == "NOSCRIPT" and call.script and len(replies) == 1:
                    load = ("SCRIPT", "LOAD", scripts.script_text(call.script))
                    self.send(pack_commands([load, call.args]), 2, judge, block_s=block_s)
                    return
                # why a script could not be loaded is more useful than that it is missing
                refusal = next(reply for reply in replies if isinstance(reply, ErrorReply))
                reply = self.error_for_reply(refusal, call)
            on_reply(reply)

        block_s = (call.block_ms or 0) / 1000
        self.send(pack_commands([call.args]), 1, judge, block_s=block_s)

    def error_for_reply(self, reply: ErrorReply, call: Call) -> ServerError:
        """What an error reply means. One that means this is the wrong node closes the connection."""
        error = error_kinds.error_from_reply(reply, call, str(self._node))
        if error.code in RECONNECT_CODES:
            self.fail(error)
        return error

    def check_timeout(self) -> None:
        """Count the line as broken if the server should have spoken by now."""
        if self._expected and not self.broken:
            silent = self._setup.clock.monotonic() - self._last_received
            if silent > self._silence + self._expected[0].block_s:
                self.fail(self._connection_error(TimeoutError()))

    def ping_if_idle(self) -> None:
        """Ask for a sign of life if nothing else is asked, so that silence is noticed also where all is quiet."""
        if not self._expected and not self.broken:
            self.send(pack_commands([("PING",)]), 1, lambda _: None)

    def fail(self, error: ServerError) -> None:
        """Give the line up."""
        if self.broken is None:
            self.broken = error
            self._transport.abort()
            if self.on_lost:
                self.on_lost(error)

    def data_received(self, data: bytes) -> None:
        """Hand every whole reply to the caller that waits for it."""
        self._traffic.bytes_in += len(data)
        self._last_received = self._setup.clock.monotonic()
        try:
            self._reader.feed(data)
            self._dispatch_replies()
        except hiredis.HiredisError as problem:
            self.fail(self._connection_error(problem))

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss, unless we closed the connection."""
        reason = exc or ConnectionResetError(errno.ECONNRESET, "the server closed it")
        self.fail(self._connection_error(reason))

    def _dispatch_replies(self) -> None:
        expected, replies = self._expected, self._replies
        replies.extend(iter(self._reader.gets, INCOMPLETE))
        while expected and not self.broken and len(replies) >= (wanted := expected[0].replies):
            results = replies[:wanted]
            del replies[:wanted]
            expected.popleft().on_replies(results)

    def _connection_error(self, problem: BaseException) -> ServerError:
        return error_kinds.error_from_exception(problem, str(self._node), self._setup.address.tls)
