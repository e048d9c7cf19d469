"""What leaves all the time: events, and acknowledgements of jobs that went well. Everything since the last flush goes
in one write, and while two writes are unanswered the rest waits and grows.

An acknowledgement that is not answered becomes a verdict, which asks who owns the entry; a lost event is lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from chasqui.consume.settlements import Completion, wait_for_event
from chasqui.errors import AuthRefused
from chasqui.server import scripts
from chasqui.server.error_kinds import ErrorReply
from chasqui.server.request import pack_commands
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.held_entries import HeldEntries
    from chasqui.consume.settlements import ConsumerIdentity, SettlementQueue
    from chasqui.errors import ServerError
    from chasqui.server.flow import Call, Reply
    from chasqui.server.link import AsyncLink
    from chasqui.server.pipelined_connection import PipelinedConnection
    from chasqui.supervision.supervisor import LoopState

log = logging.getLogger("chasqui.worker")

MAX_WRITES_IN_FLIGHT = 2
MAX_WAITING_EVENTS = 10_000
"""When so many wait for a connection they are dropped, and counted."""
FLUSH_AT_ACKS = 128
"""With so many acknowledgements waiting the server should get to work while we go on."""


class Outbox:
    """One line to the server for events and acknowledgements."""

    def __init__(
        self,
        link: AsyncLink,
        office: ConsumerIdentity,
        holdings: HeldEntries,
        verdicts: SettlementQueue,
        clock: Clock,
        flushed: Callable[[], None],
    ) -> None:
        self._link = link
        self._office = office
        self._holdings = holdings
        self._verdicts = verdicts
        self._flushed = flushed
        self._line: PipelinedConnection | None = None
        self._events: list[bytes] = []
        self._replies = 0
        self._settled: list[bytes] = []
        self._flights: list[list[bytes]] = []
        self._told: set[str] = set()
        self._rung = False
        self._trouble = asyncio.Event()
        self._problem: ServerError | None = None
        self._asyncio = asyncio.get_running_loop()
        self._loop = SupervisedLoop("outbox", clock)

    @property
    def state(self) -> LoopState:
        """How it is."""
        return self._loop.state

    @property
    def unanswered(self) -> int:
        """What has not left, or is not answered yet."""
        return len(self._flights) + len(self._settled) + (self._replies if self._line else 0)

    @property
    def unacknowledged(self) -> int:
        """How many acknowledgements the server has not answered yet."""
        return len(self._settled) + sum(map(len, self._flights))

    def send_event(self, packed: bytes, events: int = 1) -> None:
        """Send events with the next write."""
        self._events.append(packed)
        self._replies += events
        if not self._rung:
            self._schedule_flush()

    def acknowledge(self, entry_ids: Sequence[bytes], packed: Sequence[bytes] = (), events: int = 0) -> None:
        """Acknowledge entries that are ours beyond doubt, after these events and every one told before."""
        self._events += packed
        self._replies += events
        self._settled += entry_ids
        if len(self._settled) >= FLUSH_AT_ACKS:
            self.flush()
        if not self._rung:
            self._schedule_flush()

    def flush(self) -> None:
        """Write what there is, unless two writes are under way already."""
        line = self._line
        if line and (self._events or self._settled) and len(self._flights) < MAX_WRITES_IN_FLIGHT:
            parts, self._events = self._events, []
            settled, self._settled = self._settled, []
            replies, self._replies = self._replies, 0
            if settled:
                office = self._office
                call = office.commands.ack_and_delete(office.keys, office.group, settled)
                parts.append(pack_commands([call.args]))
                replies += 1
            self._flights.append(settled)
            line.send(b"".join(parts), replies, self._on_replies)

    def notify_soon(self) -> None:
        """See to it that `flushed` is called soon."""
        if not self._rung:
            self._schedule_flush()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the line open until told to stop."""
        try:
            await self._loop.run(self.turn, stop)
        finally:
            if self._line:
                await self._line.close()

    async def turn(self) -> TurnResult:
        """Open the line if there is none, then look after it for a while."""
        if self._line is None:
            line = await self._link.pipelined_connection(
                self._office.keys.stream, refresh_route=self._problem is not None
            )
            line.on_lost = self._on_disconnect
            self._line, self._problem = line, None
            self._trouble.clear()
            self._load_script()
            self.flush()
            return TurnResult()
        await wait_for_event(self._trouble)
        if self._line:
            self._line.check_timeout()
            self._line.ping_if_idle()
        if self._problem:
            raise self._problem
        return TurnResult()

    def stop(self) -> None:
        """Wake the loop so that it notices."""
        self._trouble.set()

    def _schedule_flush(self) -> None:
        self._rung = True
        self._asyncio.call_soon(self._flush_scheduled)

    def _flush_scheduled(self) -> None:
        self._rung = False
        self.flush()
        if not self._line:
            self._bypass_connection()
        self._flushed()

    def _on_replies(self, replies: list[Reply]) -> None:
        settled = self._flights.pop(0)
        if settled:
            self._on_ack_reply(settled, replies[-1])
        if ErrorReply in map(type, replies):
            events = replies[:-1] if settled else replies
            self._count_refused(self._event_call(), events)
            self._count_refused(self._ack_call(), replies[len(events) :])
        self.flush()
        self._flushed()

    def _on_ack_reply(self, settled: list[bytes], reply: Reply) -> None:
        if isinstance(reply, ErrorReply):
            self._load_script()
            self._settle_by_script(settled)
            return
        self._holdings.remove(settled)
        if -1 in reply:
            self._loop.count("settled by others", list(reply).count(-1))

    def _load_script(self) -> None:
        """Where settling is a script it must be known before it is called by its digest."""
        name = self._ack_call().script
        if name and self._line:
            self._line.send(pack_commands([("SCRIPT", "LOAD", scripts.script_text(name))]), 1, lambda _: None)

    def _ack_call(self) -> Call:
        return self._office.commands.ack_and_delete(self._office.keys, self._office.group, [b"0-0"])

    def _event_call(self) -> Call:
        return self._office.commands.emit_event(self._office.keys, (), cap=0)

    def _count_refused(self, call: Call, replies: Sequence[Reply]) -> None:
        """Events are not worth a stop, but a node that is no longer the one is. A missing right is told once."""
        errors = [reply for reply in replies if isinstance(reply, ErrorReply)]
        self._loop.count("refused", len(errors))
        for error in {str(error): error for error in errors}.values():
            if self._line:
                self._log_refusal(self._line.error_for_reply(error, call))

    def _log_refusal(self, error: ServerError) -> None:
        is_news = isinstance(error, AuthRefused) and str(error) not in self._told
        log.log(logging.WARNING if is_news else logging.DEBUG, "outbox: %s (%s)", error, error.hint)
        if is_news:
            self._told.add(str(error))

    def _on_disconnect(self, error: ServerError) -> None:
        self._problem, line, self._line = error, self._line, None
        flights, self._flights = self._flights, []
        for settled in flights:
            self._settle_by_script(settled)
        self._bypass_connection()
        self._trouble.set()
        if line:
            self._closing = asyncio.ensure_future(line.close())

    def _bypass_connection(self) -> None:
        """Without a line acknowledgements go the slow way, and only so many events wait."""
        settled, self._settled = self._settled, []
        self._settle_by_script(settled)
        if self._replies > MAX_WAITING_EVENTS:
            self._loop.count("events dropped", self._replies)
            self._events, self._replies = [], 0

    def _settle_by_script(self, settled: Sequence[bytes]) -> None:
        for entry_id in settled:
            self._verdicts.add(Completion(entry_id, "", None))
