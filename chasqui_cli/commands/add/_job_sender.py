"""Jobs on their way: in batches, paced if asked, written down before they leave, and sent again after a lost reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chasqui import Keys, ProducerOptions, SyncJob
    from chasqui.errors import ChasquiError
    from chasqui.produce.prepared_batch import Added, JobRequest, PreparedBatch, ProducerMemory
    from chasqui_cli.changes.journal import JournalWriter
    from chasqui_cli.context.session import Session

MAX_BATCH = 10_000
RETRY_TIMEOUT_S = 60.0
"""How long a load is sent again: a server remembers for 100 seconds what it has seen."""


def _new_memory() -> ProducerMemory:
    from chasqui.produce.prepared_batch import ProducerMemory

    return ProducerMemory()


@dataclass(slots=True)
class JobSender:
    """Sends jobs of one queue.

    done: how many the server has, those with ids that it had before (`repeated`) among them. error: why it stopped, if
    it did; then `unconfirmed` is how many got no reply, and `in_order` whether those that are done are the first ones.
    """

    session: Session
    keys: Keys
    options: ProducerOptions
    pen: JournalWriter | None
    rps: float | None = None
    memory: ProducerMemory = field(default_factory=_new_memory)
    done: int = 0
    duplicates: int = 0
    unconfirmed: int = 0
    in_order: bool = True
    error: ChasquiError | None = None

    def send(self, jobs: Iterable[JobRequest]) -> Iterator[Added]:
        """Send all, yielding each job when its batch is added. An error ends it and is stored in `error`."""
        from chasqui import SystemClock
        from chasqui.errors import ChasquiError

        coming, clock = iter(jobs), SystemClock()
        began = clock.monotonic()
        while some := list(islice(coming, self._batch_size)):
            try:
                prepared = self._prepare_batch(some)
                self._deliver(prepared)
            except ChasquiError as error:
                self.error = error
                return
            yield from self._collect_added(prepared)
            if self.error:
                return
            if self.rps and (early := began + self.done / self.rps - clock.monotonic()) > 0:
                clock.sleep_sync(early)

    @property
    def _batch_size(self) -> int:
        return MAX_BATCH if self.rps is None else max(1, min(MAX_BATCH, int(self.rps / 4)))

    def _prepare_batch(self, jobs: list[JobRequest]) -> PreparedBatch[SyncJob]:
        """Jobs with ids and dates, saved in the journal before they leave."""
        from chasqui.produce import prepared_batch
        from chasqui.undo import stream_search

        end = self.session.run(stream_search.stream_end, self.keys)
        prepared = prepared_batch.prepare_batch(jobs, end.now_ms, self.options)
        if self.pen:
            self.pen.write_items(prepared.journal_items(end))
        return prepared

    def _deliver(self, prepared: PreparedBatch[SyncJob]) -> None:
        """Send until it is confirmed, refused, or too late to ask again."""
        from chasqui import SystemClock
        from chasqui.errors import QueueFull, ServerError

        clock, pause_s = SystemClock(), 0.1
        until = clock.monotonic() + RETRY_TIMEOUT_S
        while True:
            problem: ServerError | None
            try:
                problem = self.session.run(prepared.deliver, self.keys, self.memory).error
            except ServerError as error:
                problem = error
            if problem is None:
                return
            if isinstance(problem, QueueFull) or not problem.transient or clock.monotonic() + pause_s > until:
                self.error = problem
                return
            clock.sleep_sync(pause_s)
            pause_s = min(3.0, pause_s * 2)

    def _collect_added(self, prepared: PreparedBatch[SyncJob]) -> Iterator[Added]:
        added = prepared.results
        self.unconfirmed += sum(one.written is None for one in added)
        left = [place for place, one in enumerate(added) if not one.written]
        self.in_order = not left or left == list(range(left[0], len(added)))
        for one in added:
            if one.written:
                self.done += 1
                self.duplicates += one.duplicate
                yield one
