"""Queues that appear while others are followed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chasqui import AsyncLink
    from chasqui.queue_events import EventFollower

DISCOVERY_INTERVAL_S = 2.0


async def follow_new_queues(link: AsyncLink, tail: EventFollower, known: set[str]) -> None:
    """Look for new queues now and then, and follow them from their first event. Ends when it is cancelled."""
    from chasqui import ServerError, SystemClock
    from chasqui.inspect import discovery

    clock = SystemClock()
    while True:
        await clock.sleep(DISCOVERY_INTERVAL_S)
        with suppress(ServerError):
            found = await discovery.discover_queues_async(link)
            for queue in sorted(set(found.queues) - known):
                known.add(queue)
                tail.add_queue(queue)
