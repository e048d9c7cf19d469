"""What follows from a run: the events to send, and the settlement of the entry. Called from the event loop only.

How the handler was run is not known here, nor how settlements reach the server.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any

from chasqui.consume import attempts, backoff, dead_letter_builder, dead_letter_reasons
from chasqui.consume.entry_checks import JobRun
from chasqui.consume.held_entries import FIELDS, ID, IDLE_MS, STARTS, counted_starts
from chasqui.consume.settlements import Completion, DeadLetterMove, EntryRelease, ScheduledRetry
from chasqui.errors import ArgumentError, UnrecoverableError
from chasqui.wire import delayed_member, envelope, event_entry, result_value, stream_entry
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
    """Handles the outcome of every run of one worker. `done`: how many entries are finished, whatever the outcome;
    `busy_s`: how long they ran. `stores_results`: whether what handlers return is stored. `encode_started_and_completed`
    encodes both events of a run that ended without waiting; None when no events are sent.
    """

    def __init__(
        self,
        held: HeldEntries,
        outbox: Outbox,
        settlements: SettlementQueue,
        suspects: CrashSuspects,
        encoder: EventEncoder,
        retry: RetryDefaults,
        options: WorkerOptions,
        clock: Clock,
    ) -> None:
        self._held = held
        self._lost = held.lost
        self._outbox = outbox
        self._settlements = settlements
        self._suspects = suspects
        self._encoder = encoder
        self._retry = retry
        self._options = options
        self._sends_events = options.events
        self.encode_started_and_completed = encoder.started_and_completed if options.events else None
        self.stores_results = options.store_results
        self._ttl_s = result_value.ttl_seconds(options.result_ttl_ms)
        self._mono = clock.monotonic
        self._now_ms = clock.now_ms
        self.done = 0
        self.busy_s = 0.0

    @property
    def unacknowledged(self) -> int:
        """How many completed jobs the server has not acknowledged yet."""
        return self._outbox.unacknowledged

    def is_leased(self, row: EntryRow, lease: EntryLease) -> bool:
        """Whether no other worker can have taken the job over."""
        return self._held.is_leased(row[ID], lease, self._mono())

    def report_active(self, run: JobRun) -> JobRun:
        """The run has begun and will take a while: send its event."""
        if self._sends_events and not run.active_sent:
            self._outbox.send_event(self._encoder.active(run.job, run.started))
        return run._replace(active_sent=True)

    def completed(
        self,
        row: EntryRow,
        lease: EntryLease,
        job: Any,
        started: float,
        result: Any,
        *,
        ended: float = 0.0,
        active_sent: bool = False,
    ) -> None:
        """The handler returned, just now unless `ended` is given."""
        ended = ended or self._mono()
        if (
            ended >= lease.valid_until
            or (self._lost and row[ID] in self._lost)
            or (result is not None and self.stores_results)
            or (len(row) > IDLE_MS and row[STARTS])
        ):
            self._settle_completed(JobRun(row, lease, job, started, active_sent), result, ended)
            return
        packed: list[bytes] = []
        if self._sends_events and active_sent:
            packed.append(self._encoder.completed(job, started, ended))
        elif self.encode_started_and_completed:
            self.encode_started_and_completed(packed, job, started, ended)
        self.completed_many([row[ID]], packed, self._sends_events * (1 if active_sent else 2), ended - started)

    def completed_many(self, entry_ids: Sequence[bytes], packed: Sequence[bytes], events: int, busy_s: float) -> None:
        """Runs of entries that are certainly ours completed without a result to store: send their events, settle them."""
        self._outbox.acknowledge(entry_ids, packed, events)
        self._held.finish(len(entry_ids))
        self.done += len(entry_ids)
        self.busy_s += busy_s

    def failed(self, run: JobRun, error: BaseException, ended: float | None = None) -> None:
        """The handler raised."""
        self.report_active(run)
        ended = ended or self._mono()
        text, took = str(error) or type(error).__name__, int((ended - run.started) * 1_000_000)
        self.send_event(self._event(run, event_entry.FAILED, reason=text, duration_us=took))
        entry = run.entry
        job = envelope.decode(entry.d or b"", self._options.max_payload_bytes)
        most = attempts.effective_max_attempts(job.retry, self._retry)
        if isinstance(error, UnrecoverableError) or attempts.is_last(job.attempt, most):
            why = dead_letter_reasons.failed(error, self._options.detail_bytes)
            fields = dead_letter_builder.for_failed_run(run.entry_id, entry, job, why)
            event = self._event(run, event_entry.DLQ, reason=why[0].value)
            self._settlements.add(DeadLetterMove(run.entry_id, event, fields, self._options.dlq_cap))
        else:
            self._schedule_retry(run, entry.name_bytes, job)
        self._finish_run(run, ended)

    def interrupted(self, run: JobRun) -> None:
        """The run was cancelled because the worker stops. It does not count against the job."""
        self._settlements.add(EntryRelease({run.entry_id: counted_starts(run.row)}))
        self._finish_run(run, run.started)

    def reject(self, rejected: RejectedEntry) -> None:
        """An entry that will not run goes to the dead letters."""
        entry_id = rejected.row[ID]
        event = Event(
            event_entry.DLQ,
            rejected.job_id,
            self._now_ms(),
            name=stream_entry.decode(rejected.row[FIELDS]).name,
            attempt=rejected.attempt,
            reason=rejected.reason.value,
        )
        fields = dead_letter_builder.for_rejected_entry(rejected)
        self._settlements.add(DeadLetterMove(entry_id, event, fields, self._options.dlq_cap))
        self._suspects.on_run_end(entry_id)
        self._finish_entry()

    def release(self, row: EntryRow) -> None:
        """An entry that was not started goes to other workers."""
        self._settlements.add(EntryRelease({row[ID]: counted_starts(row)}))
        self._finish_entry()

    def drop_after_bug(self, row: EntryRow, bug: Exception) -> None:
        """Handling an entry failed by a bug: it is left to its lease, and another worker will try."""
        log.error("entry %s is let go", row[ID].decode(), exc_info=bug)
        self._held.remove([row[ID]])
        self._suspects.on_run_end(row[ID])
        self._finish_entry()

    def send_event(self, event: Event) -> None:
        """Send an event, if events are wanted."""
        if self._sends_events:
            self._outbox.send_event(self._encoder.any_event(event))

    def _settle_completed(self, run: JobRun, result: Any, ended: float) -> None:
        """Settle the entry only if it is still ours, and send the event only if it was settled."""
        self.report_active(run)
        data, warning = self._encode_result(run, result)
        event = self._event(
            run,
            event_entry.COMPLETED,
            duration_us=int((ended - run.started) * 1_000_000),
            extra=((b"warning", warning.encode("utf-8", "replace")),) if warning else (),
        )
        self._settlements.add(Completion(run.entry_id, event, run.job.id, data, self._ttl_s))
        self._finish_run(run, ended)

    def _encode_result(self, run: JobRun, result: Any) -> tuple[bytes, str]:
        """The bytes of the result, and a warning if it cannot be stored; that does not make the run a failure."""
        if result is None or not self.stores_results:
            return b"", ""
        try:
            return result_value.encode(result) or b"", ""
        except ArgumentError as error:
            log.warning("job %s is completed, but what it returned is not kept: %s", run.job.id, error)
            return b"", f"the result was not stored: {error}"

    def _schedule_retry(self, run: JobRun, name: bytes, job: envelope.Envelope) -> None:
        wait_ms = backoff.retry_delay_ms(
            job.attempt, job.retry.backoff if job.retry else None, self._retry, random.randrange
        )
        retried = job.with_attempt(attempts.attempt_after_failure(job.attempt))
        member = delayed_member.encode(envelope.encode(retried, exact_payload=True), name)
        event = self._event(
            run, event_entry.RETRY_SCHEDULED, attempt=attempts.next_run_number(job.attempt), backoff_ms=wait_ms
        )
        self._settlements.add(ScheduledRetry(run.entry_id, event, member, wait_ms))

    def _event(self, run: JobRun, kind: str, *, attempt: int | None = None, **more: Any) -> Event:
        job = run.job
        return Event(
            kind, job.id, self._now_ms(), name=job.name, attempt=attempt or attempts.run_number(job.attempt), **more
        )

    def _finish_run(self, run: JobRun, ended: float) -> None:
        if counted_starts(run.row):
            self._suspects.on_run_end(run.entry_id)
        self.busy_s += ended - run.started
        self._finish_entry()

    def _finish_entry(self) -> None:
        self._held.finish()
        self.done += 1
        self._outbox.notify_soon()
