"""What follows from a run: who is told, and what shall become of the entry. Called from the event loop only.

How the handler was run is not known here; how verdicts reach the server is not either.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any

from chasqui import attempts, backoff
from chasqui.consumer import graves
from chasqui.consumer.arrivals import Run, delivered_before
from chasqui.consumer.verdicts import Bury, HandBack, Park, Settle
from chasqui.errors import ArgumentError, UnrecoverableError
from chasqui.wire import delayed_member, envelope, event_entry, result_value, stream_entry
from chasqui.wire.dead_entry import Reason
from chasqui.wire.event_entry import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.clock import Clock
    from chasqui.consumer.arrivals import Misfit
    from chasqui.consumer.holdings import Batch, Holdings, Row
    from chasqui.consumer.outbox import Outbox
    from chasqui.consumer.suspects import Suspects
    from chasqui.consumer.telling import Teller
    from chasqui.consumer.verdicts import Verdicts
    from chasqui.options import Retry, Worker

log = logging.getLogger("chasqui.worker")


class Outcomes:
    """Takes note of every run of one worker. `done` counts what is through, one way or the other;
    `busy_s` is how long it all took. `keeps`: whether what handlers return is stored. `tell_both`: how a run that
    went well in one go is told, if at all.
    """

    def __init__(
        self,
        holdings: Holdings,
        outbox: Outbox,
        verdicts: Verdicts,
        suspects: Suspects,
        teller: Teller,
        retry: Retry,
        options: Worker,
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
        self.tell_both = teller.both if options.events else None
        self.keeps = options.store_results
        self._ttl_s = result_value.ttl_seconds(options.result_ttl_ms)
        self._mono = clock.mono
        self._now_ms = clock.now_ms
        self.done = 0
        self.busy_s = 0.0

    @property
    def unsettled(self) -> int:
        """How many runs went well without the server having heard of it."""
        return self._outbox.unsettled

    def is_ours(self, row: Row, batch: Batch) -> bool:
        """Whether nobody can have taken the job over."""
        return self._holdings.is_sure(row[0], batch, self._mono())

    def active(self, run: Run) -> Run:
        """The run is under way and will take a while: tell."""
        if self._tells and not run.told:
            self._outbox.tell(self._teller.active(run.job, run.started))
        return run._replace(told=True)

    def completed(
        self,
        row: Row,
        batch: Batch,
        job: Any,
        started: float,
        result: Any,
        *,
        ended: float = 0.0,
        told: bool = False,
    ) -> None:
        """The handler came to its end, just now if nobody says when."""
        ended = ended or self._mono()
        if (
            ended >= batch.sure_until
            or (self._lost and row[0] in self._lost)
            or (result is not None and self.keeps)
            or (len(row) > 2 and row[3])
        ):
            self._completed_carefully(Run(row, batch, job, started, told), result, ended)
            return
        packed: list[bytes] = []
        if self._tells and told:
            packed.append(self._teller.completed(job, started, ended))
        elif self.tell_both:
            self.tell_both(packed, job, started, ended)
        self.went_well([row[0]], packed, self._tells * (1 if told else 2), ended - started)

    def went_well(
        self, entry_ids: Sequence[bytes], packed: Sequence[bytes], events: int, busy_s: float
    ) -> None:
        """Runs of entries that are ours beyond doubt came to their end with nothing to keep: tell, and settle."""
        self._outbox.settle(entry_ids, packed, events)
        self._holdings.load -= len(entry_ids)
        self.done += len(entry_ids)
        self.busy_s += busy_s

    def failed(self, run: Run, error: BaseException, ended: float | None = None) -> None:
        """The handler raised."""
        self.active(run)
        ended = ended or self._mono()
        told, took = str(error) or type(error).__name__, int((ended - run.started) * 1_000_000)
        self.tell(self._event(run, event_entry.FAILED, reason=told, duration_us=took))
        entry = run.entry
        job = envelope.decode(entry.d or b"", self._options.max_payload_bytes)
        hopeless = isinstance(error, UnrecoverableError)
        if hopeless or attempts.is_last(job.attempt, attempts.max_attempts(job.retry, self._retry)):
            reason = Reason.UNRECOVERABLE if hopeless else Reason.RETRIES_EXHAUSTED
            detail = graves.detail(error, self._options.detail_bytes)
            letter = graves.after_a_run(run.entry_id, entry, job, reason, detail)
            event = self._event(run, event_entry.DLQ, reason=reason.value)
            self._verdicts.add(Bury(run.entry_id, letter, self._options.dlq_cap, event))
        else:
            self._park(run, entry.name_bytes, job)
        self._ended(run, ended)

    def interrupted(self, run: Run) -> None:
        """The run was called off because the worker leaves. That is no fault of the job's: it does not count."""
        self._verdicts.add(HandBack({run.entry_id: run.delivered_before}))
        self._ended(run, run.started)

    def reject(self, misfit: Misfit) -> None:
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
        self._verdicts.add(Bury(entry_id, graves.on_arrival(misfit), self._options.dlq_cap, event))
        self._suspects.ended(entry_id)
        self._through()

    def hand_back(self, row: Row) -> None:
        """An entry that was not started goes to others."""
        self._verdicts.add(HandBack({row[0]: delivered_before(row)}))
        self._through()

    def botched(self, row: Row, bug: Exception) -> None:
        """What became of a run could not be worked out: the entry is left to its lease, and others will try."""
        log.error("entry %s is let go", row[0].decode(), exc_info=bug)
        self._holdings.let_go([row[0]])
        self._suspects.ended(row[0])
        self._through()

    def tell(self, event: Event) -> None:
        """Send an event, if events are wanted."""
        if self._tells:
            self._outbox.tell(self._teller.other(event))

    def _completed_carefully(self, run: Run, result: Any, ended: float) -> None:
        """Settle only what is still ours, and tell only what was settled."""
        self.active(run)
        data, warning = self._packed(run, result)
        event = self._event(
            run,
            event_entry.COMPLETED,
            duration_us=int((ended - run.started) * 1_000_000),
            extra=((b"warning", warning.encode("utf-8", "replace")),) if warning else (),
        )
        self._verdicts.add(Settle(run.entry_id, run.job.id, event, data, self._ttl_s))
        self._ended(run, ended)

    def _packed(self, run: Run, result: Any) -> tuple[bytes, str]:
        """The result's bytes. One that cannot be stored is no failure: the handler did its work, once."""
        if result is None or not self.keeps:
            return b"", ""
        try:
            return result_value.encode(result) or b"", ""
        except ArgumentError as fault:
            log.warning("job %s is completed, but what it returned is not kept: %s", run.job.id, fault)
            return b"", f"the result was not stored: {fault}"

    def _park(self, run: Run, name: bytes, job: envelope.Envelope) -> None:
        wait_ms = backoff.delay_ms(
            job.attempt, job.retry.backoff if job.retry else None, self._retry, random.randrange
        )
        parked = job.at_attempt(attempts.parked_attempt(job.attempt))
        member = delayed_member.encode(envelope.encode(parked, exact_payload=True), name)
        event = self._event(
            run,
            event_entry.RETRY_SCHEDULED,
            attempt=attempts.announced_attempt(job.attempt),
            backoff_ms=wait_ms,
        )
        self._verdicts.add(Park(run.entry_id, member, wait_ms, event))

    def _event(self, run: Run, kind: str, *, attempt: int | None = None, **more: Any) -> Event:
        job = run.job
        return Event(kind, job.id, self._now_ms(), name=job.name, attempt=attempt or job.attempt + 1, **more)

    def _ended(self, run: Run, ended: float) -> None:
        if run.delivered_before:
            self._suspects.ended(run.entry_id)
        self.busy_s += ended - run.started
        self._through()

    def _through(self) -> None:
        self._holdings.load -= 1
        self.done += 1
        self._outbox.ring()
