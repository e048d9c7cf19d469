"""Handlers that are coroutines, run by as many resident tasks as there may be handlers at once.

No task is made for a job: a slot calls the handler itself, and a handler that never waits costs a few calls. Every
job gets a context of its own, so what it sets is gone when it ends.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context, copy_context
from types import coroutine
from typing import TYPE_CHECKING, Any

from chasqui.consume.entry_checks import JobRun, RejectedEntry, counted_starts

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from chasqui.clock import Clock
    from chasqui.consume.crash_suspects import BufferedEntry, CrashSuspects
    from chasqui.consume.entry_checks import Admission
    from chasqui.consume.held_entries import EntryLease, EntryRow, HeldEntries
    from chasqui.consume.outcomes import OutcomeHandler

log = logging.getLogger("chasqui.worker")

MAX_SYNC_JOBS, MAX_SYNC_S = 128, 0.002
"""After so many jobs that never waited, or so long, everything else gets its turn: reads, acknowledgements, tasks."""

UnfinishedRun = tuple["EntryRow", "Coroutine[Any, Any, None]"]
"""An entry, and what is left to be awaited for it."""


class AsyncSlots:
    """At most `concurrency` runs at a time. `wake` is called when there is work."""

    def __init__(
        self,
        handler: Callable[[Any], Coroutine[Any, Any, Any]],
        concurrency: int,
        buffer: deque[BufferedEntry],
        door: Admission,
        holdings: HeldEntries,
        outcomes: OutcomeHandler,
        suspects: CrashSuspects,
        clock: Clock,
    ) -> None:
        self._handler = handler
        self._concurrency = concurrency
        self._buffer = buffer
        self._door = door
        self._lost = holdings.lost
        self._outcomes = outcomes
        self._suspects = suspects
        self._mono = clock.monotonic
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._leaving = False
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """Let one more slot work, if there is one. It wakes the next one should its handler have to wait."""
        while self._idle:
            nap = self._idle.pop()
            if not nap.done():
                nap.set_result(None)
                return
        if len(self._tasks) < self._concurrency and not self._leaving:
            task = self._loop.create_task(self._slot_main(), name=f"chasqui slot {len(self._tasks)}")
            self._tasks.add(task)
            task.add_done_callback(self._on_slot_end)

    async def stop(self, seconds: float) -> None:
        """Call off whatever runs, and give it some time to tidy up."""
        self._leaving = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    async def _slot_main(self) -> None:
        while True:
            while self._buffer:
                if unfinished := self._run_buffered():
                    row, rest = unfinished
                    try:
                        await rest
                    except Exception as bug:  # noqa: BLE001 - the top of a loop: one entry must not cost a slot
                        self._outcomes.drop_after_bug(row, bug)
                elif self._buffer:
                    await self._clock.sleep(0)
            await self._wait_for_work()

    def _run_buffered(self) -> UnfinishedRun | None:
        """Run one job after the other until there is none, or one has to wait, or it is time to breathe.

        Nearly every job passes here, and nearly all of them go well: what these have in common is done once for
        all of them, at the end.
        """
        buffer, lost, mono, handler = self._buffer, self._lost, self._mono, self._handler
        opened, outcomes = self._door.decode_fast, self._outcomes
        tell, keeps = outcomes.encode_started_and_completed, outcomes.stores_results
        went_well: list[bytes] = []
        told: list[bytes] = []
        busy_s, breathe_at = 0.0, mono() + MAX_SYNC_S
        try:
            for _ in range(min(MAX_SYNC_JOBS, len(buffer))):
                row, batch = buffer.popleft()
                try:
                    job, started = opened(row[1]), mono()
                    if job is None or started >= batch.valid_until or lost or (len(row) > 2 and row[3]):
                        return row, self._run_unusual(row, batch)
                    context = copy_context()
                    try:
                        work = handler(job)
                        waits_for = context.run(work.send, None)
                    except StopIteration as end:
                        ended = mono()
                        if ended >= batch.valid_until or lost or (keeps and end.value is not None):
                            outcomes.completed(row, batch, job, started, end.value, ended=ended)
                        else:
                            if tell:
                                tell(told, job, started, ended)
                            went_well.append(row[0])
                            busy_s += ended - started
                        if ended >= breathe_at:
                            break
                    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
                        self._on_failure(JobRun(row, batch, job, started), error)
                    else:
                        run = JobRun(row, batch, job, started)
                        return row, self._await_handler(run, _resume_handler(work, waits_for, context))
                except Exception as bug:  # noqa: BLE001 - the top of a loop: one entry must not cost a slot
                    outcomes.drop_after_bug(row, bug)
        finally:
            if went_well:
                outcomes.completed_many(went_well, told, 2 * len(went_well) if tell else 0, busy_s)
        return None

    async def _run_unusual(self, row: EntryRow, batch: EntryLease) -> None:
        """Run the job in an entry that is not the usual case, if there is one to run."""
        job = await self._admit_unusual(row, batch)
        if job is not None:
            await self._await_handler(JobRun(row, batch, job, self._mono()), _start_handler(self._handler, job))

    async def _admit_unusual(self, row: EntryRow, batch: EntryLease) -> Any:
        """The job in an entry that is not the usual case; None when there is none to run, and that is seen to.

        Whether it is still ours says our own clock, or the server for one that came before.
        """
        job = self._door.admit(row)
        if type(job) is RejectedEntry:
            self._outcomes.reject(job)
        elif counted_starts(row):
            return job if await self._suspects.confirm_start(row, job) else None
        elif self._outcomes.is_leased(row, batch):
            return job
        else:
            self._outcomes.release(row)
        return None

    async def _await_handler(self, run: JobRun, work: Awaitable[Any]) -> None:
        """The handler has to wait: let others work meanwhile."""
        run = self._outcomes.report_active(run)
        if self._buffer:
            self.wake()
        try:
            result = await work
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
            self._on_failure(run, error)
        else:
            self._outcomes.completed(run.row, run.batch, run.job, run.started, result, active_sent=True)

    def _on_failure(self, run: JobRun, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._outcomes.interrupted(run)
            raise error
        task = asyncio.current_task()
        called_off = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        if called_off and self._leaving:
            self._outcomes.interrupted(run)
        else:
            self._outcomes.failed(run, error)
        if called_off:
            raise error  # whoever cancelled this task wants it to end; another takes its place when needed

    async def _wait_for_work(self) -> None:
        nap = self._loop.create_future()
        self._idle.append(nap)
        await nap

    def _on_slot_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a slot ended by a bug", exc_info=error)
        if self._buffer:
            self.wake()


@coroutine
def _start_handler(handler: Callable[[Any], Any], job: Any) -> Generator[Any, Any, Any]:
    """A handler from its beginning, in a context of its own."""
    context = copy_context()
    work = handler(job)
    try:
        waits_for = context.run(work.send, None)
    except StopIteration as end:
        return end.value
    return (yield from _resume_handler(work, waits_for, context))


@coroutine
def _resume_handler(work: Any, waits_for: Any, context: Context) -> Generator[Any, Any, Any]:
    """The rest of a coroutine that was started by hand, every step of it in its own context."""
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is thrown at the handler, not at us
                waits_for = context.run(work.throw, error)
            else:
                waits_for = context.run(work.send, sent)
    except StopIteration as end:
        return end.value
