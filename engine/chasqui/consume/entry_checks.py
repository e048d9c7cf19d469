"""An entry at the door: opened, checked, and either a job that may run or a misfit for the dead letters.

Pure; any thread may call it. What follows from the verdict is done elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui.consume import attempts
from chasqui.errors import WireError
from chasqui.wire import dead_letter_entry, envelope, job_fast_path, stream_entry
from chasqui.wire.dead_letter_entry import DeadLetterReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.consume.held_entries import EntryLease, EntryRow
    from chasqui.defaults import RetryDefaults


class JobRun(NamedTuple):
    """A run of a job: the entry it came in, when it was started, and whether anybody was told yet."""

    row: EntryRow
    batch: EntryLease
    job: Any
    started: float
    active_sent: bool = False

    @property
    def entry_id(self) -> bytes:
        """The entry's id."""
        entry_id: bytes = self.row[0]
        return entry_id

    @property
    def counted_starts(self) -> int:
        """How many starts of the entry before this one had no outcome."""
        return counted_starts(self.row)

    @property
    def entry(self) -> stream_entry.StreamEntry:
        """What stood in the entry."""
        return stream_entry.decode(self.row[1])


class RejectedEntry(NamedTuple):
    """An entry that will not run. `job_id` and `attempt` as its `dlq` event tells them."""

    row: EntryRow
    reason: DeadLetterReason
    detail: str | None = None
    job_id: str = ""
    attempt: int = 0


def counted_starts(row: EntryRow) -> int:
    """How many deliveries of an entry count so far, which is starts: its first delivery, because nobody is asked
    before a new entry starts, and every start of it as a suspect. 0 for a new one.
    """
    return row[3] if len(row) > 2 else 0


class Admission:
    """The rules of one worker. `make_job` is how its handler wants to see a job. `spared`: entries that may start once
    more although their starts are used up.
    """

    def __init__(self, make_job: Callable[..., Any], retry: RetryDefaults, max_bytes: int) -> None:
        self._make_job = make_job
        self._retry = retry
        self._max_bytes = max_bytes
        self.decode_fast = job_fast_path.make_decoder(make_job, max_bytes, retry.max_attempts)
        self.extra_start_ids: set[bytes] = set()

    def admit(self, row: EntryRow) -> Any:
        """The job in an entry, or a `Misfit`. The usual one quickly; everything else gets a closer look."""
        job = None if counted_starts(row) else self.decode_fast(row[1])
        return self._admit_unusual(row) if job is None else job

    def _admit_unusual(self, row: EntryRow) -> Any:
        entry = stream_entry.decode(row[1])
        if entry.d is None:
            return RejectedEntry(row, DeadLetterReason.MALFORMED, dead_letter_entry.NO_PAYLOAD_DETAIL)
        if len(entry.d) > self._max_bytes:
            told = f"{len(entry.d)} bytes, over the limit of {self._max_bytes}"
            return RejectedEntry(row, DeadLetterReason.OVERSIZE_PAYLOAD, told)
        try:
            job = envelope.decode(entry.d, self._max_bytes)
        except WireError as fault:
            return RejectedEntry(row, DeadLetterReason.DECODE_FAILED, str(fault))
        starts = counted_starts(row)
        most = attempts.effective_max_attempts(job.retry, self._retry)
        verdict = attempts.start_decision(job.attempt, starts, most, self._retry.crash_limit)
        if verdict == "crashed" and row[0] not in self.extra_start_ids:
            told = f"started {starts} times, and no worker lived to tell what came of it"
            return RejectedEntry(row, DeadLetterReason.CRASHED, told, job.id, attempts.run_number(job.attempt))
        if verdict == "retries_exhausted":
            return RejectedEntry(row, DeadLetterReason.RETRIES_EXHAUSTED, None, job.id, job.attempt)
        try:
            data = job_fast_path.handler_value(job, self._max_bytes)
        except WireError as fault:
            return RejectedEntry(row, DeadLetterReason.DECODE_FAILED, f"payload: {fault}", job.id)
        return self._make_job(job.id, entry.name, data, job.attempt, job.created_at_ms)
