"""Checks an entry before it runs: it is decoded, and becomes a job or a rejected entry for the dead letters.

Pure; any thread may call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui.consume import attempts, dead_letter_reasons
from chasqui.consume.held_entries import FIELDS, ID, counted_starts
from chasqui.errors import WireError
from chasqui.wire import envelope, job_fast_path, stream_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.consume.held_entries import EntryLease, EntryRow
    from chasqui.defaults import RetryDefaults
    from chasqui.wire.dead_letter_entry import DeadLetterReason


class JobRun(NamedTuple):
    """A run of a job: the entry it came in, when it was started, and whether its `active` event was sent."""

    row: EntryRow
    lease: EntryLease
    job: Any
    started: float
    active_sent: bool = False

    @property
    def entry_id(self) -> bytes:
        entry_id: bytes = self.row[ID]
        return entry_id

    @property
    def entry(self) -> stream_entry.StreamEntry:
        return stream_entry.decode(self.row[FIELDS])


class RejectedEntry(NamedTuple):
    """An entry that will not run. `job_id` and `attempt` are what its `dlq` event reports."""

    row: EntryRow
    reason: DeadLetterReason
    detail: str | None = None
    job_id: str = ""
    attempt: int = 0


class Admission:
    """The rules of one worker. `make_job` makes the job its handler gets. `extra_start_ids`: entries that may start once
    more although their starts are used up.
    """

    def __init__(self, make_job: Callable[..., Any], retry: RetryDefaults, max_bytes: int) -> None:
        self._make_job = make_job
        self._retry = retry
        self._max_bytes = max_bytes
        self.decode_fast = job_fast_path.make_decoder(make_job, max_bytes, retry.max_attempts)
        self.extra_start_ids: set[bytes] = set()

    def admit(self, row: EntryRow) -> Any:
        """The job in an entry, or a `RejectedEntry`. Usual entries take the fast path."""
        job = None if counted_starts(row) else self.decode_fast(row[FIELDS])
        return self._admit_unusual(row) if job is None else job

    def _admit_unusual(self, row: EntryRow) -> Any:
        entry = stream_entry.decode(row[FIELDS])
        if entry.d is None:
            return RejectedEntry(row, *dead_letter_reasons.malformed())
        if len(entry.d) > self._max_bytes:
            return RejectedEntry(row, *dead_letter_reasons.oversize_payload(len(entry.d), self._max_bytes))
        try:
            job = envelope.decode(entry.d, self._max_bytes)
        except WireError as error:
            return RejectedEntry(row, *dead_letter_reasons.decode_failed(error))
        starts = counted_starts(row)
        most = attempts.effective_max_attempts(job.retry, self._retry)
        decision = attempts.start_decision(job.attempt, starts, most, self._retry.crash_limit)
        if decision == "crashed" and row[ID] not in self.extra_start_ids:
            why = dead_letter_reasons.crashed(starts)
            return RejectedEntry(row, *why, job.id, attempts.run_number(job.attempt))
        if decision == "retries_exhausted":
            return RejectedEntry(row, *dead_letter_reasons.retries_exhausted(), job.id, job.attempt)
        try:
            data = job_fast_path.handler_value(job, self._max_bytes)
        except WireError as error:
            return RejectedEntry(row, *dead_letter_reasons.payload_decode_failed(error), job.id)
        return self._make_job(job.id, entry.name, data, job.attempt, job.created_at_ms)
