"""Runs handlers that are coroutine functions, in as many resident tasks as handlers may run at once.

No task is made for a job: a slot calls the handler itself, and a handler that never waits costs a few calls. Every
job gets a context of its own, so what it sets is gone when it ends.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context, copy_context
from types import coroutine
from typing import TYPE_CHECKING, Any

from chasqui.consume.entry_checks import JobRun, RejectedEntry
from chasqui.consume.held_entries import FIELDS, ID, IDLE_MS, STARTS, counted_starts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from chasqui.clock import Clock
    from chasqui.consume.crash_suspects import CrashSuspects
    from chasqui.consume.entry_checks import Admission
    from chasqui.consume.held_entries import EntryLease, EntryRow, HeldEntries, JobBuffer
    from chasqui.consume.outcomes import OutcomeHandler

log = logging.getLogger("chasqui.worker")

MAX_SYNC_JOBS, MAX_SYNC_S = 128, 0.002
"""After this many jobs that never waited, or this time, the rest gets its turn: reads, acknowledgements, tasks."""

UnfinishedRun = tuple["EntryRow", "Coroutine[Any, Any, None]"]
"""An entry, and what is left to be awaited for it."""


class AsyncSlots:
    """At most `concurrency` runs at a time."""

    def __init__(
        self,
        handler: Callable[[Any], Coroutine[Any, Any, Any]],
        concurrency: int,
        buffer: JobBuffer,
        admission: Admission,
        held: HeldEntries,
        outcomes: OutcomeHandler,
        suspects: CrashSuspects,
        clock: Clock,
    ) -> None:
        self._handler = handler
        self._concurrency = concurrency
        self._buffer = buffer
        buffer.wake = self.wake
        self._admission = admission
        self._lost = held.lost
        self._outcomes = outcomes
        self._suspects = suspects
        self._mono = clock.monotonic
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._stopping = False
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """Let one more slot work, if there is one. It wakes the next one if its handler has to wait."""
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)
                return
        if len(self._tasks) < self._concurrency and not self._stopping:
            task = self._loop.create_task(self._slot_main(), name=f"chasqui slot {len(self._tasks)}")
            self._tasks.add(task)
            task.add_done_callback(self._on_slot_end)

    async def stop(self, seconds: float) -> None:
        """Cancel what runs, and give it this long to clean up."""
        self._stopping = True
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
        """Run one job after the other until there is none, or one has to wait, or others must have their turn.

        Nearly every job passes here, and nearly all of them complete: what these have in common is done once for
        all of them, at the end.
        """
        popleft, lost, mono, handler = self._buffer.popleft, self._lost, self._mono, self._handler
        decode, outcomes = self._admission.decode_fast, self._outcomes
        encode_events, stores_results = outcomes.encode_started_and_completed, outcomes.stores_results
        completed: list[bytes] = []
        events: list[bytes] = []
        busy_s, yield_at = 0.0, mono() + MAX_SYNC_S
        try:
            for _ in range(min(MAX_SYNC_JOBS, len(self._buffer))):
                row, lease = popleft()
                try:
                    job, started = decode(row[FIELDS]), mono()
                    if job is None or started >= lease.valid_until or lost or (len(row) > IDLE_MS and row[STARTS]):
                        return row, self._run_unusual(row, lease)
                    context = copy_context()
                    try:
                        work = handler(job)
                        waits_for = context.run(work.send, None)
                    except StopIteration as end:
                        ended = mono()
                        if ended >= lease.valid_until or lost or (stores_results and end.value is not None):
                            outcomes.completed(row, lease, job, started, end.value, ended=ended)
                        else:
                            if encode_events:
                                encode_events(events, job, started, ended)
                            completed.append(row[ID])
                            busy_s += ended - started
                        if ended >= yield_at:
                            break
                    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
                        self._on_failure(JobRun(row, lease, job, started), error)
                    else:
                        run = JobRun(row, lease, job, started)
                        return row, self._await_handler(run, _resume_handler(work, waits_for, context))
                except Exception as bug:  # noqa: BLE001 - the top of a loop: one entry must not cost a slot
                    outcomes.drop_after_bug(row, bug)
        finally:
            if completed:
                outcomes.completed_many(completed, events, 2 * len(completed) if encode_events else 0, busy_s)
        return None

    async def _run_unusual(self, row: EntryRow, lease: EntryLease) -> None:
        """Run the job in an unusual entry, if there is one to run."""
        job = await self._admit_unusual(row, lease)
        if job is not None:
            await self._await_handler(JobRun(row, lease, job, self._mono()), _start_handler(self._handler, job))

    async def _admit_unusual(self, row: EntryRow, lease: EntryLease) -> Any:
        """The job in an unusual entry; None when there is none to run, which is handled here.

        Whether it is still ours is known from our own clock, or from the server for one that was delivered before.
        """
        job = self._admission.admit(row)
        if type(job) is RejectedEntry:
            self._outcomes.reject(job)
        elif counted_starts(row):
            return job if await self._suspects.confirm_start(row, job) else None
        elif self._outcomes.is_leased(row, lease):
            return job
        else:
            self._outcomes.release(row)
        return None

    async def _await_handler(self, run: JobRun, work: Awaitable[Any]) -> None:
        """The handler has to wait: let other slots work meanwhile."""
        run = self._outcomes.report_active(run)
        if self._buffer:
            self.wake()
        try:
            result = await work
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
            self._on_failure(run, error)
        else:
            self._outcomes.completed(run.row, run.lease, run.job, run.started, result, active_sent=True)

    def _on_failure(self, run: JobRun, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._outcomes.interrupted(run)
            raise error
        task = asyncio.current_task()
        cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        if cancelled and self._stopping:
            self._outcomes.interrupted(run)
        else:
            self._outcomes.failed(run, error)
        if cancelled:
            raise error  # this task was cancelled from outside, so it ends; another takes its place when needed

    async def _wait_for_work(self) -> None:
        idle = self._loop.create_future()
        self._idle.append(idle)
        await idle

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
            except BaseException as error:  # noqa: BLE001 - it is for the handler
                waits_for = context.run(work.throw, error)
            else:
                waits_for = context.run(work.send, sent)
    except StopIteration as end:
        return end.value
