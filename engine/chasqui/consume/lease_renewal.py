"""Renews the leases of everything this consumer holds, from its own thread and over its own connection: a handler that
blocks the event loop does not lose its job.

An entry that was lost is noted in `HeldEntries`; settling it will be refused.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from chasqui.supervision.supervisor import LoopStatus

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from chasqui.clock import Clock
    from chasqui.consume.held_entries import HeldEntries
    from chasqui.consume.identity import ConsumerIdentity
    from chasqui.server.flow import Flow
    from chasqui.server.link import Link
    from chasqui.supervision.supervisor import LoopState

log = logging.getLogger("chasqui.worker")

BATCH_SIZE = 500
JOIN_TIMEOUT_S = 5.0


def renewal_interval_ms(lease_ms: int) -> int:
    """A third of a lease: two renewals may fail before it ends."""
    return max(1, lease_ms // 3)


class Heartbeat:
    """One thread. `open_link` is called in it."""

    def __init__(
        self,
        open_link: Callable[[], Link],
        identity: ConsumerIdentity,
        held: HeldEntries,
        clock: Clock,
        every_s: float,
        event_loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._open_link = open_link
        self._identity = identity
        self._held = held
        self._clock = clock
        self._every_s = every_s
        self._event_loop = event_loop
        self._stop = threading.Event()
        self._asked_at: float | None = None
        self._warned = False
        self._status = LoopStatus("heartbeat", clock)
        for name in ("beats", "renewed", "lost", "failures"):
            self._status.count(name, 0)
        self._thread = threading.Thread(target=self._run, name="chasqui heartbeat", daemon=True)

    @property
    def state(self) -> LoopState:
        return self._status.state

    def start(self) -> None:
        self._status.set_role("running")
        self._thread.start()

    def stop(self) -> None:
        """Returns without waiting for the thread."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the thread, unless its connection hangs."""
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            with self._open_link() as link:
                while not self._stop.wait(self._every_s / 4 if self._status.failures else self._every_s):
                    try:
                        self._beat(link)
                        self._status.on_success("running")
                    except Exception as error:  # noqa: BLE001 - the top of a loop: nothing but a stop may end it
                        self._status.on_failure(error)
                    self._check_event_loop()
        finally:
            self._status.set_role("stopped")

    def _beat(self, link: Link) -> None:
        """Renew everything held. The lease counts from before the request was sent."""
        held, asked = self._held, self._clock.monotonic()
        leases = held.leases.copy()
        entry_ids, lost = list(leases), set[bytes]()
        for start in range(0, len(entry_ids), BATCH_SIZE):
            lost.update(link.run(_renew(self._identity, entry_ids[start : start + BATCH_SIZE])))
        # First the lost entries, then the new ends of the other leases: the event loop may look in between. Entries
        # that it settled meanwhile are not lost but done.
        held.lost.update(entry_id for entry_id in lost if entry_id in held.leases)
        for entry_id, lease in leases.items():
            if entry_id not in lost:
                lease.valid_until = asked + held.lease_s
        if lost:
            self._event_loop.call_soon_threadsafe(held.prune_lost)
        self._status.count("beats")
        self._status.count("renewed", len(leases) - len(lost))
        self._status.count("lost", len(lost))

    def _check_event_loop(self) -> None:
        """Warn when the event loop does not respond: a handler blocks it, and with it every other job."""
        now = self._clock.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._event_loop.call_soon_threadsafe(self._on_event_loop_alive)
        elif not self._warned and now - self._asked_at >= self._every_s:
            self._warned = True
            log.warning(
                "a handler has blocked the event loop for %.1f s: use a plain function, which runs in a thread",
                now - self._asked_at,
            )

    def _on_event_loop_alive(self) -> None:
        self._asked_at, self._warned = None, False


def _renew(identity: ConsumerIdentity, entry_ids: Sequence[bytes]) -> Flow[list[bytes]]:
    """Returns the entries that are no longer ours."""
    [lost] = yield [identity.commands.renew_leases(*identity.settle_args, entry_ids)]
    return list(lost)
