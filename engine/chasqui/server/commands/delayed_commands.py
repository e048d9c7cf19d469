"""Builders for jobs that wait for a time: scheduled, cancelled, moved, promoted, or parked after a failure.

The member's bytes are made and read in `wire/delayed_member.py`; what is due is decided by the server's clock.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.server.commands.caps import ADDED_MEMORY_S, NO_CAP, UNDONE_MEMORY_S
from chasqui.server.flow import Call
from chasqui.server.scripts import script_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.wire.keys import Keys

MARKER_EXTRA_S = 3600
"""How much longer than its delay a scheduled id is remembered."""


@dataclass(frozen=True, slots=True)
class DelayFromNow:
    """A due time relative to the server's clock: this many ms after the call arrives."""

    delay_ms: int

    def __str__(self) -> str:
        return f"+{self.delay_ms}"


DueTime = int | DelayFromNow
"""When a job is due: a time in ms of the server's clock, or after a while."""


class DelayedCommands:
    """The jobs that are not due yet."""

    __slots__ = ()

    def schedule(self, keys: Keys, member: bytes, run_at_ms: int) -> Call:
        """Schedule a job that has no id of its own; it cannot be cancelled by id."""
        return Call(("ZADD", keys.delayed, run_at_ms, member), keys=(keys.delayed,))

    def schedule_batch(
        self, keys: Keys, producer_id: str, batch_id: str, jobs: Sequence[tuple[DueTime, bytes]]
    ) -> Call:
        """Schedule jobs that have no ids of their own, once per producer and batch; answers the server's time in ms."""
        return script_call(
            "schedule_batch",
            delayed=keys.delayed,
            marker=keys.added_marker(producer_id, batch_id),
            ttl_s=ADDED_MEMORY_S,
            rest=[word for due, member in jobs for word in (str(due), member)],
        )

    def schedule_once(self, keys: Keys, job_id: str, member: bytes, run_at_ms: int, *, now_ms: int) -> Call:
        """Schedule a job unless its id was used before; answers the server's time in ms, or 0 for a duplicate."""
        return self._schedule_once(keys, job_id, member, run_at_ms, run_at_ms - now_ms)

    def delay_once(self, keys: Keys, job_id: str, member: bytes, delay_ms: int) -> Call:
        """The same, with a delay that the server counts from its own time."""
        return self._schedule_once(keys, job_id, member, DelayFromNow(delay_ms), delay_ms)

    def _schedule_once(self, keys: Keys, job_id: str, member: bytes, due: DueTime, delay_ms: int) -> Call:
        return script_call(
            "schedule_once",
            marker=keys.delayed_marker(job_id),
            delayed=keys.delayed,
            index=keys.delayed_index(job_id),
            ttl_s=max(1, delay_ms // 1000) + MARKER_EXTRA_S,
            due=due if isinstance(due, int) else str(due),
            member=member,
        )

    def cancel_delayed(self, keys: Keys, job_id: str) -> Call:
        """Cancel a job scheduled with an id; answers 1, or 0 when there is none (any more)."""
        return script_call(
            "cancel_delayed", delayed=keys.delayed, index=keys.delayed_index(job_id), marker=keys.delayed_marker(job_id)
        )

    def delayed_between(self, keys: Keys, least: int | str, most: int | str, *, skip: int = 0, count: int) -> Call:
        """Delayed jobs due from one time to another, past the first `skip` of them; `scored` reads them."""
        words = ("ZRANGEBYSCORE", keys.delayed, least, most, "WITHSCORES", "LIMIT", skip, count)
        return Call(words, keys=(keys.delayed,))

    def latest_delayed(self, keys: Keys) -> Call:
        """The delayed job that is due last, for `scored`."""
        return Call(("ZRANGE", keys.delayed, -1, -1, "WITHSCORES"), keys=(keys.delayed,))

    def count_due_between(self, keys: Keys, least: int | str, most: int | str) -> Call:
        """How many delayed jobs are due from one time to another; a time after `(` is not part of it."""
        return Call(("ZCOUNT", keys.delayed, least, most), keys=(keys.delayed,))

    def delayed_due_time(self, keys: Keys, member: bytes) -> Call:
        """When this delayed job is due, None when it is not there; `whole_ms` reads it."""
        return Call(("ZSCORE", keys.delayed, member), keys=(keys.delayed,))

    def read_delayed_index(self, keys: Keys, job_id: str) -> tuple[Call, Call, Call]:
        """The member a delayed job's id stands for, and for how many ms that and the id itself are remembered."""
        index, marker = keys.delayed_index(job_id), keys.delayed_marker(job_id)
        return (
            Call(("GET", index), keys=(index,)),
            Call(("PTTL", index), keys=(index,)),
            Call(("PTTL", marker), keys=(marker,)),
        )

    def cancel_delayed_member(self, keys: Keys, job_id: str, member: bytes) -> Call:
        """Cancel a delayed job by its bytes, and forget its id; answers 1, or 0 when it is not there (any more)."""
        return script_call(
            "cancel_delayed_member",
            delayed=keys.delayed,
            index=keys.delayed_index(job_id),
            marker=keys.delayed_marker(job_id),
            member=member,
        )

    def run_delayed(self, keys: Keys, job_id: str, member: bytes, envelope: bytes, name: bytes) -> Call:
        """Move a delayed job to the stream now; answers the new entry's id, None when it is not there (any more)."""
        return script_call(
            "run_delayed",
            delayed=keys.delayed,
            stream=keys.stream,
            index=keys.delayed_index(job_id),
            member=member,
            d=envelope,
            job_name=name,
        )

    def reschedule_delayed(self, keys: Keys, job_id: str, member: bytes, run_at_ms: int) -> Call:
        """Change when a delayed job is due and how long its id is remembered; answers 1, or 0 when it is gone."""
        return script_call(
            "reschedule_delayed",
            delayed=keys.delayed,
            index=keys.delayed_index(job_id),
            marker=keys.delayed_marker(job_id),
            member=member,
            run_at_ms=run_at_ms,
            spare_s=MARKER_EXTRA_S,
        )

    def restore_delayed(
        self,
        keys: Keys,
        operation: str,
        job_id: str,
        member: bytes,
        run_at_ms: int,
        *,
        moved_to_ms: int | None = None,
        index_ms: int = 0,
        marker_ms: int = 0,
    ) -> Call:
        """Put a delayed job back that an operation removed, or moved to another time; answers how that went."""
        digest = hashlib.sha256(member).hexdigest()
        return script_call(
            "restore_delayed",
            delayed=keys.delayed,
            index=keys.delayed_index(job_id),
            marker=keys.delayed_marker(job_id),
            undone=keys.added_marker(f"undo-{operation}", digest),
            member=member,
            run_at_ms=run_at_ms,
            moved_to_ms="" if moved_to_ms is None else moved_to_ms,
            index_ms=index_ms,
            marker_ms=marker_ms,
            ttl_s=UNDONE_MEMORY_S,
        )

    def set_delayed_index(self, keys: Keys, job_id: str, member: bytes, index_ms: int) -> Call:
        """Let a delayed job be found by its id, for so long."""
        index = keys.delayed_index(job_id)
        return Call(("SET", index, member, "PX", index_ms), keys=(index,))

    def delete_markers(self, keys: Keys, job_ids: Sequence[str]) -> Call:
        """Let ids be used again."""
        markers = tuple(keys.delayed_marker(job_id) for job_id in job_ids)
        return Call(("DEL", *markers), keys=markers)

    def promote(self, keys: Keys, *, batch: int, cap: int | None = None, dead_cap: int | None = None) -> Call:
        """Move what is due to the stream; `Promoted.of` reads the answer.

        The side indexes of what was promoted stay: a script may only touch keys it was given, and the ids are
        unknown before it has run. `forget_indexes` removes them afterwards; until then a cancel finds no member and
        answers 0, so the order does no harm.
        """
        return script_call(
            "promote",
            delayed=keys.delayed,
            stream=keys.stream,
            dlq=keys.dlq,
            batch=batch,
            cap=cap or NO_CAP,
            dead_cap=dead_cap or NO_CAP,
        )

    def delete_indexes(self, keys: Keys, job_ids: Sequence[str]) -> Call:
        """Remove the side indexes of jobs that left the delayed set; their markers live on and go by themselves."""
        indexes = tuple(keys.delayed_index(job_id) for job_id in job_ids)
        return Call(("DEL", *indexes), keys=indexes)

    def schedule_retry(
        self, keys: Keys, group: str, consumer: str, entry_id: bytes | str, member: bytes, *, delay_ms: int
    ) -> Call:
        """Delay a failed job for its next try; answers when it is due, None if the entry is no longer ours.

        The delay is counted by the server, so a worker's wrong clock makes no retry early or late.
        """
        return script_call(
            "schedule_retry",
            stream=keys.stream,
            delayed=keys.delayed,
            group=group,
            consumer=consumer,
            entry_id=entry_id,
            delay_ms=delay_ms,
            member=member,
        )
