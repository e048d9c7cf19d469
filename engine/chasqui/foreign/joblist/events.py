"""The events of a list job queue: what the guide's workers publish after they completed or failed a job.

Nobody tells of enqueuing, claiming and reclaiming, and what is published while nobody listens is lost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chasqui.server.link import AsyncLink, Link
    from chasqui.wire.joblist_keys import JobListKeys


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a job: `completed`, `retry` or `failed`. What is no such event has only its bytes."""

    id: str | None
    status: str | None
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> Event:
        """From what was published, whoever did."""
        try:
            told = json.loads(raw)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            return cls(None, None, raw)
        job_id, status = told.get("id"), told.get("status")
        return cls(
            job_id if isinstance(job_id, str) else None, status if isinstance(status, str) else None, raw
        )


def tail(link: Link, keys: JobListKeys) -> Iterator[Event]:
    """Events as they come, for ever; a `ServerError` ends it."""
    return map(Event.of, link.listen(keys.events))


async def tail_async(link: AsyncLink, keys: JobListKeys) -> AsyncIterator[Event]:
    """The same, awaited."""
    async for raw in link.listen(keys.events):
        yield Event.of(raw)
