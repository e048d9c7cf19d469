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

from chasqui.server import faults, scripts
from chasqui.server.faults import ErrorReply
from chasqui.server.lines import INTERRUPTIONS, NO_CONNECTION
from chasqui.server.parcel import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.errors import ServerError
    from chasqui.server.address import Node
    from chasqui.server.call import Call, Reply
    from chasqui.server.parcel import Traffic
    from chasqui.server.pools import Setup

_NOTHING = object()
# After one of these the node is not, or not now, the one to talk to: a new line should ask for the way again.
ELSEWHERE = frozenset({"MOVED", "ASK", "READONLY", "UNBLOCKED", "LOADING", "MASTERDOWN", "CLUSTERDOWN"})


class _Expected(NamedTuple):
    """Replies to come: how many, who is told, and how long the server may hold the first of them back."""

    replies: int
    told: Callable[[list[Reply]], None]
    block_s: float


class StreamLine(asyncio.Protocol):
    """One connection, taken from a link's pool and given back closed. `lost` is called once if it breaks."""

    def __init__(self, setup: Setup, pool: Any, node: Node, traffic: Traffic, silence: float) -> None:
        self._setup = setup
        self._pool = pool
        self._node = node
        self._traffic = traffic
        self._silence = silence
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=_NOTHING)
        self._expected: deque[_Expected] = deque()
        self._replies: list[Reply] = []
        self._connection: Any = None
        self._transport: Any = None
        self._heard = setup.clock.mono()
        self.broken: ServerError | None = None
        self.lost: Callable[[ServerError], None] | None = None

    async def open(self) -> StreamLine:
        """Connect and log in."""
        try:
            self._connection = await self._pool.get_connection()
        except NO_CONNECTION as problem:
            raise self._meaning(problem) from None
        except INTERRUPTIONS as interruption:
            # the frames below hold the password in their local variables
            raise interruption.with_traceback(None) from None
        self._transport = self._connection._writer.transport
        self._transport.set_protocol(self)
        return self

    async def close(self) -> None:
        """Hang up. What the server still has to say is not heard."""
        self.lost = None
        if self._connection:
            await self._connection.disconnect(nowait=True)
            await self._pool.release(self._connection)
            self._connection = None

    def send(
        self, payload: bytes, replies: int, told: Callable[[list[Reply]], None], *, block_s: float = 0.0
    ) -> None:
        """Write packed commands; `told` gets their replies, error replies among them as `ErrorReply` values."""
        if not self._expected:
            self._heard = self._setup.clock.mono()
        self._expected.append(_Expected(replies, told, block_s))
        self._traffic.round_trips += 1
        self._traffic.commands += replies
        self._traffic.bytes_out += len(payload)
        self._transport.write(payload)

    def call(self, call: Call, told: Callable[[Reply], None]) -> None:
        """Send one call; `told` gets its reply, or the error it is as a value. A forgotten script is loaded again."""

        def judge(replies: list[Reply]) -> None:
            reply = replies[-1]
            if isinstance(reply, ErrorReply):
                if reply.code == "NOSCRIPT" and call.script and len(replies) == 1:
                    load = ("SCRIPT", "LOAD", scripts.text(call.script))
                    self.send(pack([load, call.words]), 2, judge, block_s=block_s)
                    return
                # why a script could not be loaded says more than that it is missing
                refusal = next(reply for reply in replies if isinstance(reply, ErrorReply))
                reply = self.meaning(refusal, call)
            told(reply)

        block_s = (call.block_ms or 0) / 1000
        self.send(pack([call.words]), 1, judge, block_s=block_s)

    def meaning(self, reply: ErrorReply, call: Call) -> ServerError:
        """What an error reply means. One that says this is the wrong node ends the line."""
        error = faults.from_reply(reply, call, str(self._node))
        if error.code in ELSEWHERE:
            self.fail(error)
        return error

    def check(self) -> None:
        """Count the line as broken if the server should have spoken by now."""
        if self._expected and not self.broken:
            silent = self._setup.clock.mono() - self._heard
            if silent > self._silence + self._expected[0].block_s:
                self.fail(self._meaning(TimeoutError()))

    def probe(self) -> None:
        """Ask for a sign of life if nothing else is asked, so that silence is noticed also where all is quiet."""
        if not self._expected and not self.broken:
            self.send(pack([("PING",)]), 1, lambda _: None)

    def fail(self, error: ServerError) -> None:
        """Give the line up."""
        if self.broken is None:
            self.broken = error
            self._transport.abort()
            if self.lost:
                self.lost(error)

    def data_received(self, data: bytes) -> None:
        """Hand every whole reply to whoever waits for it."""
        self._traffic.bytes_in += len(data)
        self._heard = self._setup.clock.mono()
        try:
            self._reader.feed(data)
            self._hand_out()
        except hiredis.HiredisError as problem:
            self.fail(self._meaning(problem))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell, unless it was we who hung up."""
        reason = exc or ConnectionResetError(errno.ECONNRESET, "the server closed it")
        self.fail(self._meaning(reason))

    def _hand_out(self) -> None:
        expected, replies = self._expected, self._replies
        replies.extend(iter(self._reader.gets, _NOTHING))
        while expected and not self.broken and len(replies) >= (wanted := expected[0].replies):
            told = replies[:wanted]
            del replies[:wanted]
            expected.popleft().told(told)

    def _meaning(self, problem: BaseException) -> ServerError:
        return faults.from_exception(problem, str(self._node), self._setup.address.tls)
