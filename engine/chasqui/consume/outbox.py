"""Sends events and the acknowledgements of completed jobs. Everything since the last flush goes in one write; while two
writes are unanswered the rest waits and grows.

An acknowledgement whose reply is lost becomes a settlement, which checks the owner of the entry; a lost event is lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from chasqui.consume.loop_part import LoopPart
from chasqui.consume.settlements import Completion
from chasqui.errors import AuthRefused
from chasqui.server import scripts
from chasqui.server.error_kinds import ErrorReply
from chasqui.server.request import pack_commands
from chasqui.supervision.supervisor import TurnResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.consume.consumer_progress import ConsumerProgress
    from chasqui.consume.held_entries import HeldEntries
    from chasqui.consume.identity import ConsumerIdentity
    from chasqui.consume.settlements import SettlementQueue
    from chasqui.errors import ServerError
    from chasqui.server.flow import Call, Reply
    from chasqui.server.link import AsyncLink
    from chasqui.server.pipelined_connection import PipelinedConnection

log = logging.getLogger("chasqui.worker")

MAX_WRITES_IN_FLIGHT = 2
MAX_WAITING_EVENTS = 10_000
"""When more than these wait for a connection they are dropped, and counted."""
FLUSH_AT_ACKS = 128
"""With this many acknowledgements waiting the server should get to work meanwhile."""


class Outbox(LoopPart):
    """One pipelined connection for events and acknowledgements."""

    def __init__(
        self,
        link: AsyncLink,
        identity: ConsumerIdentity,
        held: HeldEntries,
        settlements: SettlementQueue,
        clock: Clock,
        progress: ConsumerProgress,
    ) -> None:
        super().__init__("outbox", link, identity, clock)
        self._held = held
        self._settlements = settlements
        self._progress = progress
        self._connection: PipelinedConnection | None = None
        self._closing: set[asyncio.Future[None]] = set()
        self._events: list[bytes] = []
        self._replies = 0
        self._settled: list[bytes] = []
        self._flights: list[list[bytes]] = []
        self._logged: set[str] = set()
        self._flush_scheduled = False
        self._error: ServerError | None = None
        self._event_loop = asyncio.get_running_loop()

    @property
    def unanswered(self) -> int:
        """How much is not sent, or not answered yet."""
        return len(self._flights) + len(self._settled) + (self._replies if self._connection else 0)

    @property
    def unacknowledged(self) -> int:
        """How many acknowledgements the server has not answered yet."""
        return len(self._settled) + sum(map(len, self._flights))

    def send_event(self, packed: bytes, events: int = 1) -> None:
        """Send events with the next write."""
        self._events.append(packed)
        self._replies += events
        if not self._flush_scheduled:
            self._schedule_flush()

    def acknowledge(self, entry_ids: Sequence[bytes], packed: Sequence[bytes] = (), events: int = 0) -> None:
        """Acknowledge entries that are certainly ours, after these events and all those sent before."""
        self._events += packed
        self._replies += events
        self._settled += entry_ids
        if len(self._settled) >= FLUSH_AT_ACKS:
            self.flush()
        if not self._flush_scheduled:
            self._schedule_flush()

    def flush(self) -> None:
        """Write what there is, unless two writes are unanswered."""
        connection = self._connection
        if connection and (self._events or self._settled) and len(self._flights) < MAX_WRITES_IN_FLIGHT:
            parts, self._events = self._events, []
            settled, self._settled = self._settled, []
            replies, self._replies = self._replies, 0
            if settled:
                identity = self._identity
                call = identity.commands.ack_and_delete(identity.keys, identity.group, settled)
                parts.append(pack_commands([call.args]))
                replies += 1
            self._flights.append(settled)
            connection.send(b"".join(parts), replies, self._on_replies)

    def notify_soon(self) -> None:
        """Report progress soon."""
        if not self._flush_scheduled:
            self._schedule_flush()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the connection open until stopped."""
        try:
            await super().run(stop)
        finally:
            if self._connection:
                await self._connection.close()
            await asyncio.gather(*self._closing, return_exceptions=True)

    async def turn(self) -> TurnResult:
        """Open the connection if there is none, then watch it for a while."""
        if self._connection is None:
            connection = await self._link.pipelined_connection(
                self._identity.keys.stream, refresh_route=self._error is not None
            )
            connection.on_lost = self._on_disconnect
            self._connection, self._error = connection, None
            self._load_script()
            self.flush()
            return TurnResult()
        await self._wait()
        if self._connection:
            self._connection.check_timeout()
            self._connection.ping_if_idle()
        if self._error:
            raise self._error
        return TurnResult()

    def _schedule_flush(self) -> None:
        self._flush_scheduled = True
        self._event_loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_scheduled = False
        self.flush()
        if not self._connection:
            self._bypass_connection()
        self._progress.changed()

    def _on_replies(self, replies: list[Reply]) -> None:
        settled = self._flights.pop(0)
        if settled:
            self._on_ack_reply(settled, replies[-1])
        if ErrorReply in map(type, replies):
            events = replies[:-1] if settled else replies
            self._count_refused(self._event_call(), events)
            self._count_refused(self._ack_call(), replies[len(events) :])
        self.flush()
        self._progress.changed()

    def _on_ack_reply(self, settled: list[bytes], reply: Reply) -> None:
        if isinstance(reply, ErrorReply):
            self._load_script()
            self._settle_by_script(settled)
            return
        self._held.remove(settled)
        if -1 in reply:
            self._loop.count("not pending", list(reply).count(-1))

    def _load_script(self) -> None:
        """Where acknowledging is a script, the server must know it before it is called by its digest."""
        name = self._ack_call().script
        if name and self._connection:
            self._connection.send(pack_commands([("SCRIPT", "LOAD", scripts.script_text(name))]), 1, lambda _: None)

    def _ack_call(self) -> Call:
        return self._identity.commands.ack_and_delete(self._identity.keys, self._identity.group, [b"0-0"])

    def _event_call(self) -> Call:
        return self._identity.commands.emit_event(self._identity.keys, (), cap=0)

    def _count_refused(self, call: Call, replies: Sequence[Reply]) -> None:
        """Refused events do not stop the outbox; a node that no longer owns the slot does. A missing right is logged once."""
        errors = [reply for reply in replies if isinstance(reply, ErrorReply)]
        self._loop.count("refused", len(errors))
        for error in {str(error): error for error in errors}.values():
            if self._connection:
                self._log_refusal(self._connection.error_for_reply(error, call))

    def _log_refusal(self, error: ServerError) -> None:
        is_news = isinstance(error, AuthRefused) and str(error) not in self._logged
        log.log(logging.WARNING if is_news else logging.DEBUG, "outbox: %s (%s)", error, error.hint)
        if is_news:
            self._logged.add(str(error))

    def _on_disconnect(self, error: ServerError) -> None:
        self._error, connection, self._connection = error, self._connection, None
        flights, self._flights = self._flights, []
        for settled in flights:
            self._settle_by_script(settled)
        self._bypass_connection()
        self.wake()
        if connection:
            closing = asyncio.ensure_future(connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _bypass_connection(self) -> None:
        """Without a connection acknowledgements become settlements, and only a limited number of events wait."""
        settled, self._settled = self._settled, []
        self._settle_by_script(settled)
        if self._replies > MAX_WAITING_EVENTS:
            self._loop.count("events dropped", self._replies)
            self._events, self._replies = [], 0

    def _settle_by_script(self, settled: Sequence[bytes]) -> None:
        for entry_id in settled:
            self._settlements.add(Completion(entry_id, None))
