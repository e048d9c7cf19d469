"""What follows from a run: who is told, and what shall become of the entry. Called from the event loop only.

How the handler was run is not known here; how verdicts reach the server is not either.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any

from chasqui.consume import attempts, backoff, dead_letter_builder
from chasqui.consume.entry_checks import JobRun, counted_starts
from chasqui.consume.settlements import Completion, DeadLetterMove, EntryRelease, ScheduledRetry
from chasqui.errors import ArgumentError, UnrecoverableError
from chasqui.wire import delayed_member, envelope, event_entry, result_value, stream_entry
from chasqui.wire.dead_letter_entry import DeadLetterReason
from chasqui.wire.event_entry import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.consume.crash_suspects import CrashSuspects
    from chasqui.consume.entry_checks import RejectedEntry
    from chasqui.consume.event_encoder import EventEncoder
    from chasqui.consume.held_entries import EntryLease, EntryRow, HeldEntries
    from chasqui.consume.outbox import Outbox
    from chasqui.consume.settlements import SettlementQueue
    from chasqui.defaults import RetryDefaults, WorkerOptions

log = logging.getLogger("chasqui.worker")


class OutcomeHandler:
    """Takes note of every run of one worker. `done` counts what is through, one way or the other;
    `busy_s` is how long it all took. `keeps`: whether what handlers return is stored. `tell_both`: how a run that
    went well in one go is told, if at all.
    """

    def __init__(
        self,
        holdings: HeldEntries,
        outbox: Outbox,
        verdicts: SettlementQueue,
        suspects: CrashSuspects,
        teller: EventEncoder,
        retry: RetryDefaults,
        options: WorkerOptions,
        clock: Clock,
    ) -> None:
        self._holdings = holdings
        self._lost = holdings.lost
        self._outbox = outbox
        self._verdicts = verdicts
        self._suspects = suspects
        self._teller = teller
        self._retry = retry
        self._options = options
        self._tells = options.events
        self.encode_started_and_completed = teller.started_and_completed if options.events else None
        self.stores_results = options.store_results
        self._ttl_s = result_value.ttl_seconds(options.result_ttl_ms)
        self._mono = clock.monotonic
        self._now_ms = clock.now_ms
        self.done = 0
        self.busy_s = 0.0

    @property
    def unacknowledged(self) -> int:
        """How many runs went well without the server having heard of it."""
        return self._outbox.unacknowledged

    def is_leased(self, row: EntryRow, batch: EntryLease) -> bool:
        """Whether nobody can have taken the job over."""
        return self._holdings.is_leased(row[0], batch, self._mono())

    def report_active(self, run: JobRun) -> JobRun:
        """The run is under way and will take a while: tell."""
        if self._tells and not run.active_sent:
            self._outbox.send_event(self._teller.active(run.job, run.started))
        return run._replace(active_sent=True)

    def completed(
        self,
        row: EntryRow,
        batch: EntryLease,
        job: Any,
        started: float,
        result: Any,
        *,
        ended: float = 0.0,
        active_sent: bool = False,
    ) -> None:
        """The handler came to its end, just now if nobody says when."""
        ended = ended or self._mono()
        if (
            ended >= batch.valid_until
            or (self._lost and row[0] in self._lost)
            or (result is not None and self.stores_results)
            or (len(row) > 2 and row[3])
        ):
            self._settle_completed(JobRun(row, batch, job, started, active_sent), result, ended)
            return
        packed: list[bytes] = []
        if self._tells and active_sent:
            packed.append(self._teller.completed(job, started, ended))
        elif self.encode_started_and_completed:
            self.encode_started_and_completed(packed, job, started, ended)
        self.completed_many([row[0]], packed, self._tells * (1 if active_sent else 2), ended - started)

    def completed_many(self, entry_ids: Sequence[bytes], packed: Sequence[bytes], events: int, busy_s: float) -> None:
        """Runs of entries that are ours beyond doubt came to their end with nothing to keep: tell, and settle."""
        self._outbox.acknowledge(entry_ids, packed, events)
        self._holdings.unfinished -= len(entry_ids)
        self.done += len(entry_ids)
        self.busy_s += busy_s

    def failed(self, run: JobRun, error: BaseException, ended: float | None = None) -> None:
        """The handler raised."""
        self.report_active(run)
        ended = ended or self._mono()
        told, took = str(error) or type(error).__name__, int((ended - run.started) * 1_000_000)
        self.send_event(self._event(run, event_entry.FAILED, reason=told, duration_us=took))
        entry = run.entry
        job = envelope.decode(entry.d or b"", self._options.max_payload_bytes)
        hopeless = isinstance(error, UnrecoverableError)
        if hopeless or attempts.is_last(job.attempt, attempts.effective_max_attempts(job.retry, self._retry)):
            reason = DeadLetterReason.UNRECOVERABLE if hopeless else DeadLetterReason.RETRIES_EXHAUSTED
            detail = dead_letter_builder.error_detail(error, self._options.detail_bytes)
            letter = dead_letter_builder.for_failed_run(run.entry_id, entry, job, reason, detail)
            event = self._event(run, event_entry.DLQ, reason=reason.value)
            self._verdicts.add(DeadLetterMove(run.entry_id, letter, self._options.dlq_cap, event))
        else:
            self._schedule_retry(run, entry.name_bytes, job)
        self._finish_run(run, ended)

    def interrupted(self, run: JobRun) -> None:
        """The run was called off because the worker leaves. That is no fault of the job's: it does not count."""
        self._verdicts.add(EntryRelease({run.entry_id: run.counted_starts}))
        self._finish_run(run, run.started)

    def reject(self, misfit: RejectedEntry) -> None:
        """An entry that will never run here."""
        entry_id, fields = misfit.row[0], misfit.row[1]
        event = Event(
            event_entry.DLQ,
            misfit.job_id,
            self._now_ms(),
            name=stream_entry.decode(fields).name,
            attempt=misfit.attempt,
            reason=misfit.reason.value,
        )
        self._verdicts.add(
            DeadLetterMove(entry_id, dead_letter_builder.for_rejected_entry(misfit), self._options.dlq_cap, event)
        )
        self._suspects.on_run_end(entry_id)
        self._finish_entry()

    def release(self, row: EntryRow) -> None:
        """An entry that was not started goes to others."""
        self._verdicts.add(EntryRelease({row[0]: counted_starts(row)}))
        self._finish_entry()

    def drop_after_bug(self, row: EntryRow, bug: Exception) -> None:
        """What became of a run could not be worked out: the entry is left to its lease, and others will try."""
        log.error("entry %s is let go", row[0].decode(), exc_info=bug)
        self._holdings.remove([row[0]])
        self._suspects.on_run_end(row[0])
        self._finish_entry()

    def send_event(self, event: Event) -> None:
        """Send an event, if events are wanted."""
        if self._tells:
            self._outbox.send_event(self._teller.any_event(event))

    def _settle_completed(self, run: JobRun, result: Any, ended: float) -> None:
        """Settle only what is still ours, and tell only what was settled."""
        self.report_active(run)
        data, warning = self._encode_result(run, result)
        event = self._event(
            run,
            event_entry.COMPLETED,
            duration_us=int((ended - run.started) * 1_000_000),
            extra=((b"warning", warning.encode("utf-8", "replace")),) if warning else (),
        )
        self._verdicts.add(Completion(run.entry_id, run.job.id, event, data, self._ttl_s))
        self._finish_run(run, ended)

    def _encode_result(self, run: JobRun, result: Any) -> tuple[bytes, str]:
        """The result's bytes. One that cannot be stored is no failure: the handler did its work, once."""
        if result is None or not self.stores_results:
            return b"", ""
        try:
            return result_value.encode(result) or b"", ""
        except ArgumentError as fault:
            log.warning("job %s is completed, but what it returned is not kept: %s", run.job.id, fault)
            return b"", f"the result was not stored: {fault}"

    def _schedule_retry(self, run: JobRun, name: bytes, job: envelope.Envelope) -> None:
        wait_ms = backoff.retry_delay_ms(
            job.attempt, job.retry.backoff if job.retry else None, self._retry, random.randrange
        )
        parked = job.with_attempt(attempts.attempt_after_failure(job.attempt))
        member = delayed_member.encode(envelope.encode(parked, exact_payload=True), name)
        event = self._event(
            run,
            event_entry.RETRY_SCHEDULED,
            attempt=attempts.next_run_number(job.attempt),
            backoff_ms=wait_ms,
        )
        self._verdicts.add(ScheduledRetry(run.entry_id, member, wait_ms, event))

    def _event(self, run: JobRun, kind: str, *, attempt: int | None = None, **more: Any) -> Event:
        job = run.job
        return Event(kind, job.id, self._now_ms(), name=job.name, attempt=attempt or job.attempt + 1, **more)

    def _finish_run(self, run: JobRun, ended: float) -> None:
        if run.counted_starts:
            self._suspects.on_run_end(run.entry_id)
        self.busy_s += ended - run.started
        self._finish_entry()

    def _finish_entry(self) -> None:
        self._holdings.unfinished -= 1
        self.done += 1
        self._outbox.notify_soon()
