"""An entry at the door: opened, checked, and either a job that may run or a misfit for the dead letters.

Pure; any thread may call it. What follows from the verdict is done elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui import attempts
from chasqui.errors import WireError
from chasqui.wire import dead_entry, envelope, stream_entry, usual
from chasqui.wire.dead_entry import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.consumer.holdings import Batch, Row
    from chasqui.options import Retry


class Run(NamedTuple):
    """A run of a job: the entry it came in, when it was started, and whether anybody was told yet."""

    row: Row
    batch: Batch
    job: Any
    started: float
    told: bool = False

    @property
    def entry_id(self) -> bytes:
        """The entry's id."""
        entry_id: bytes = self.row[0]
        return entry_id

    @property
    def delivered_before(self) -> int:
        """How many starts of the entry before this one had no outcome."""
        return delivered_before(self.row)

    @property
    def entry(self) -> stream_entry.StreamEntry:
        """What stood in the entry."""
        return stream_entry.decode(self.row[1])


class Misfit(NamedTuple):
    """An entry that will not run. `job_id` and `attempt` as its `dlq` event tells them."""

    row: Row
    reason: Reason
    detail: str | None = None
    job_id: str = ""
    attempt: int = 0


def delivered_before(row: Row) -> int:
    """How many deliveries of an entry count so far, which is starts: its first delivery, because nobody is asked
    before a new entry starts, and every start of it as a suspect. 0 for a new one.
    """
    return row[3] if len(row) > 2 else 0


class Door:
    """The rules of one worker. `make_job` is how its handler wants to see a job. `spared`: entries that may start once
    more although their starts are used up.
    """

    def __init__(self, make_job: Callable[..., Any], retry: Retry, max_bytes: int) -> None:
        self._make_job = make_job
        self._retry = retry
        self._max_bytes = max_bytes
        self.opened = usual.opener(make_job, max_bytes, retry.max_attempts)
        self.spared: set[bytes] = set()

    def admit(self, row: Row) -> Any:
        """The job in an entry, or a `Misfit`. The usual one quickly; everything else gets a closer look."""
        job = None if delivered_before(row) else self.opened(row[1])
        return self._looked_at(row) if job is None else job

    def _looked_at(self, row: Row) -> Any:
        entry = stream_entry.decode(row[1])
        if entry.d is None:
            return Misfit(row, Reason.MALFORMED, dead_entry.NO_PAYLOAD)
        if len(entry.d) > self._max_bytes:
            told = f"{len(entry.d)} bytes, over the limit of {self._max_bytes}"
            return Misfit(row, Reason.OVERSIZE_PAYLOAD, told)
        try:
            job = envelope.decode(entry.d, self._max_bytes)
        except WireError as fault:
            return Misfit(row, Reason.DECODE_FAILED, str(fault))
        starts = delivered_before(row)
        most = attempts.max_attempts(job.retry, self._retry)
        verdict = attempts.on_arrival(job.attempt, starts, most, self._retry.crash_limit)
        if verdict == "crashed" and row[0] not in self.spared:
            told = f"started {starts} times, and no worker lived to tell what came of it"
            return Misfit(row, Reason.CRASHED, told, job.id, attempts.run_number(job.attempt))
        if verdict == "retries_exhausted":
            return Misfit(row, Reason.RETRIES_EXHAUSTED, None, job.id, job.attempt)
        try:
            data = usual.delivered(job, self._max_bytes)
        except WireError as fault:
            return Misfit(row, Reason.DECODE_FAILED, f"payload: {fault}", job.id)
        return self._make_job(job.id, entry.name, data, job.attempt, job.created_at_ms)
