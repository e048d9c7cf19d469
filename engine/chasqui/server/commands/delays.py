"""Builders for jobs that wait for a time: scheduled, cancelled, moved, promoted, or parked after a failure.

The member's bytes are made and read in `wire/delayed_member.py`; what is due is decided by the server's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.server.call import Call
from chasqui.server.commands.caps import NO_CAP, REMEMBER_ADDED_S
from chasqui.server.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.wire.keys import Keys

MARKER_SPARE_S = 3600
"""How much longer than its delay a scheduled id is remembered."""


@dataclass(frozen=True, slots=True)
class After:
    """A due time that the server counts from its own: so many ms from when it hears of it."""

    delay_ms: int

    def __str__(self) -> str:
        return f"+{self.delay_ms}"


Due = int | After
"""When a job is due: a time in ms of the server's clock, or after a while."""


class Delays:
    """The jobs that are not due yet."""

    __slots__ = ()

    def schedule(self, keys: Keys, member: bytes, run_at_ms: int) -> Call:
        """Schedule a job that has no id of its own; it cannot be cancelled by id."""
        return Call(("ZADD", keys.delayed, run_at_ms, member), keys=(keys.delayed,))

    def schedule_all(
        self, keys: Keys, producer_id: str, batch_id: str, jobs: Sequence[tuple[Due, bytes]]
    ) -> Call:
        """Schedule jobs that have no ids of their own, once per producer and batch; answers the server's time in ms."""
        return script(
            "schedule_all",
            delayed=keys.delayed,
            marker=keys.added_marker(producer_id, batch_id),
            ttl_s=REMEMBER_ADDED_S,
            rest=[word for due, member in jobs for word in (str(due), member)],
        )

    def schedule_once(self, keys: Keys, job_id: str, member: bytes, run_at_ms: int, *, now_ms: int) -> Call:
        """Schedule a job unless its id was used before; answers 1, or 0 for a duplicate."""
        return self._schedule_once(keys, job_id, member, run_at_ms, run_at_ms - now_ms)

    def delay_once(self, keys: Keys, job_id: str, member: bytes, delay_ms: int) -> Call:
        """The same, with a delay that the server counts from its own time."""
        return self._schedule_once(keys, job_id, member, After(delay_ms), delay_ms)

    def _schedule_once(self, keys: Keys, job_id: str, member: bytes, due: Due, delay_ms: int) -> Call:
        return script(
            "schedule_once",
            marker=keys.delayed_marker(job_id),
            delayed=keys.delayed,
            index=keys.delayed_index(job_id),
            ttl_s=max(1, delay_ms // 1000) + MARKER_SPARE_S,
            due=due if isinstance(due, int) else str(due),
            member=member,
        )

    def cancel_delayed(self, keys: Keys, job_id: str) -> Call:
        """Cancel a job scheduled with an id; answers 1, or 0 when there is none (any more)."""
        return script(
            "cancel_delayed",
            delayed=keys.delayed,
            index=keys.delayed_index(job_id),
            marker=keys.delayed_marker(job_id),
        )

    def remove_delayed(self, keys: Keys, members: Sequence[bytes]) -> Call:
        """Remove delayed jobs by their exact bytes, whether they have an id or not; answers how many there were."""
        return Call(("ZREM", keys.delayed, *members), keys=(keys.delayed,))

    def move_delayed(self, keys: Keys, member: bytes, run_at_ms: int) -> Call:
        """Change when a delayed job is due; answers 1, or 0 when it is gone or was due then already."""
        return Call(("ZADD", keys.delayed, "XX", "CH", run_at_ms, member), keys=(keys.delayed,))

    def promote(self, keys: Keys, *, batch: int, cap: int | None = None, dead_cap: int | None = None) -> Call:
        """Move what is due to the stream; `Promoted.of` reads the answer.

        The side indexes of what was promoted stay: a script may only touch keys it was given, and nobody knows the
        ids before it has run. `forget_indexes` removes them afterwards; until then a cancel finds no member and
        answers 0, so the order does no harm.
        """
        return script(
            "promote",
            delayed=keys.delayed,
            stream=keys.stream,
            dlq=keys.dlq,
            batch=batch,
            cap=cap or NO_CAP,
            dead_cap=dead_cap or NO_CAP,
        )

    def forget_indexes(self, keys: Keys, job_ids: Sequence[str]) -> Call:
        """Remove the side indexes of jobs that left the delayed set; their markers live on and go by themselves."""
        indexes = tuple(keys.delayed_index(job_id) for job_id in job_ids)
        return Call(("DEL", *indexes), keys=indexes)

    def park_retry(
        self, keys: Keys, group: str, consumer: str, entry_id: bytes | str, member: bytes, *, delay_ms: int
    ) -> Call:
        """Delay a failed job for its next try; answers when it is due, None if the entry is no longer ours.

        The delay is counted by the server, so a worker's wrong clock makes no retry early or late.
        """
        return script(
            "park_retry",
            stream=keys.stream,
            delayed=keys.delayed,
            group=group,
            consumer=consumer,
            entry_id=entry_id,
            delay_ms=delay_ms,
            member=member,
        )
