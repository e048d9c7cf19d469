"""Keeps the leases of everything this consumer holds, from a thread and over a connection of its own: a handler that
blocks the event loop does not lose its job.

Only leases; an entry that was lost is noted, and whoever wants to settle it will be refused.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from chasqui.errors import ChasquiError
from chasqui.supervision.supervisor import LoopState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.held_entries import HeldEntries
    from chasqui.consume.settlements import ConsumerIdentity
    from chasqui.server.flow import Flow
    from chasqui.server.link import Link
    from chasqui.supervision.supervisor import LoopRole

log = logging.getLogger("chasqui.worker")

BATCH_SIZE = 500
JOIN_TIMEOUT_S = 5.0


class Heartbeat:
    """One thread. `open_link` is called in it."""

    def __init__(
        self,
        open_link: Callable[[], Link],
        office: ConsumerIdentity,
        holdings: HeldEntries,
        clock: Clock,
        every_s: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._open_link = open_link
        self._office = office
        self._holdings = holdings
        self._clock = clock
        self._every_s = every_s
        self._loop = loop
        self._stop = threading.Event()
        self._answered_at = clock.monotonic()
        self._asked_at: float | None = None
        self._warned = False
        self._counts = {"beats": 0, "renewed": 0, "lost": 0, "failures": 0}
        self._error: str | None = None
        self._error_ms: int | None = None
        self._failing_since_ms: int | None = None
        self._began_ms = clock.now_ms()
        self._thread = threading.Thread(target=self._run, name="chasqui heartbeat", daemon=True)

    @property
    def state(self) -> LoopState:
        """How it is."""
        role: LoopRole = "failing" if self._failing_since_ms else "running"
        if not self._thread.is_alive():
            role = "stopped"
        since = self._failing_since_ms or self._began_ms
        return LoopState("heartbeat", role, since, self._error, self._error_ms, counts=dict(self._counts))

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; returns without waiting."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the thread, unless its connection hangs."""
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        with self._open_link() as link:
            while not self._stop.wait(self._every_s if not self._failing_since_ms else self._every_s / 4):
                try:
                    self._beat(link)
                    self._failing_since_ms = None
                except Exception as error:  # noqa: BLE001 - the top of a loop: nothing but a stop may end it
                    self._record_error(error)
                self._check_event_loop()

    def _beat(self, link: Link) -> None:
        """Renew everything held. The lease counts from before the question was sent."""
        holdings, asked = self._holdings, self._clock.monotonic()
        held = holdings.leases.copy()
        entry_ids, lost = list(held), set[bytes]()
        for at in range(0, len(entry_ids), BATCH_SIZE):
            lost.update(link.run(_renew(self._office, entry_ids[at : at + BATCH_SIZE])))
        # First who is lost, then how long the others are sure: the event loop may look in between. Those that it let
        # go meanwhile are not lost but done.
        holdings.lost.update(entry_id for entry_id in lost if entry_id in holdings.leases)
        for entry_id, batch in held.items():
            if entry_id not in lost:
                batch.valid_until = asked + holdings.lease_s
        if lost:
            self._loop.call_soon_threadsafe(holdings.prune_lost)
        self._counts["beats"] += 1
        self._counts["renewed"] += len(held) - len(lost)
        self._counts["lost"] += len(lost)

    def _check_event_loop(self) -> None:
        """Say so when the event loop does not come round: a handler blocks it, and every other job with it."""
        now = self._clock.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._on_event_loop_alive)
        elif not self._warned and now - self._asked_at >= self._every_s:
            self._warned = True
            log.warning(
                "a handler has blocked the event loop for %.1f s: use a plain function, which runs in a thread",
                now - self._asked_at,
            )

    def _on_event_loop_alive(self) -> None:
        self._asked_at, self._warned = None, False

    def _record_error(self, error: Exception) -> None:
        self._counts["failures"] += 1
        self._error, self._error_ms = str(error) or type(error).__name__, self._clock.now_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = self._error_ms
            trace = None if isinstance(error, ChasquiError) else error
            hint = f" ({error.hint})" if isinstance(error, ChasquiError) and error.hint else ""
            log.warning("heartbeat: %s%s", self._error, hint, exc_info=trace)


def _renew(office: ConsumerIdentity, entry_ids: Sequence[bytes]) -> Flow[list[bytes]]:
    """Answers the entries that are no longer ours."""
    [lost] = yield [office.commands.renew_leases(office.keys, office.group, office.consumer, entry_ids)]
    return list(lost)
