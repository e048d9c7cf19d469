"""The events of a list job queue: what the guide's workers publish after they completed or failed a job.

There are none for enqueuing, claiming and reclaiming, and what is published while no client listens is lost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.server.link import AsyncLink, Link


@dataclass(frozen=True, slots=True)
class ListJobEvent:
    """What became of a job: `completed`, `retry` or `failed`. Anything else that was published has only its bytes."""

    id: str | None
    status: str | None
    raw: bytes

    @classmethod
    def parse(cls, raw: bytes) -> ListJobEvent:
        """From what was published, by any client."""
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            return cls(None, None, raw)
        job_id, status = event.get("id"), event.get("status")
        return cls(job_id if isinstance(job_id, str) else None, status if isinstance(status, str) else None, raw)


def follow_events(link: Link, keys: JobListKeys) -> Iterator[ListJobEvent]:
    """Events as they come, for ever; a `ServerError` ends it."""
    return map(ListJobEvent.parse, link.subscribe(keys.events))


async def follow_events_async(link: AsyncLink, keys: JobListKeys) -> AsyncIterator[ListJobEvent]:
    """The same, awaited."""
    async for raw in link.subscribe(keys.events):
        yield ListJobEvent.parse(raw)
