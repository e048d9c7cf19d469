"""Queues that appear while others are followed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chasqui import AsyncLink
    from chasqui.queue_events import Tail

LOOK_FOR_NEW_S = 2.0


async def join_new(link: AsyncLink, tail: Tail, known: set[str]) -> None:
    """Look for new queues now and then, and follow them from their first event. Ends when it is cancelled."""
    from chasqui import ServerError, SystemClock, discovery

    clock = SystemClock()
    while True:
        await clock.sleep(LOOK_FOR_NEW_S)
        with suppress(ServerError):
            found = await discovery.discover_async(link)
            for queue in sorted(set(found.queues) - known):
                known.add(queue)
                tail.follow(queue)
