"""Runs handlers that are plain functions, in resident threads that take one job after the other.

Threads only decode jobs and call the handler; the outcomes are handled by the event loop, many at a time. While
jobs are short few threads are awake, since handing work from thread to thread costs more than a short job.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from chasqui.consume.entry_checks import JobRun, RejectedEntry
from chasqui.consume.held_entries import ID, counted_starts

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.clock import Clock
    from chasqui.consume.crash_suspects import CrashSuspects
    from chasqui.consume.entry_checks import Admission
    from chasqui.consume.held_entries import EntryLease, EntryRow, HeldEntries, JobBuffer
    from chasqui.consume.outcomes import OutcomeHandler

log = logging.getLogger("chasqui.worker")

EMPTY_BUFFER_WITHIN_S = 0.001
"""Enough threads are awake if they can empty the buffer in this time."""
CHECK_INTERVAL_S = 0.005
"""How often the event loop checks the threads: it sends the `active` events of jobs that take longer, and wakes another
thread if the awake ones are busy with such jobs."""
EndedRun = tuple[JobRun, Any, BaseException | None, float]
"""A run, what it returned, what it raised, and when."""

NOTIFY_AT = 64
"""With this many ended jobs the event loop is woken although there is more to run."""


class ThreadSlots:
    """At most `concurrency` threads, started when first needed."""

    def __init__(
        self,
        handler: Callable[[Any], Any],
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
        self._held = held
        self._outcomes = outcomes
        self._suspects = suspects
        self._mono = clock.monotonic
        self._loop = asyncio.get_running_loop()
        self._wakeups = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._asleep = 0
        self._running: dict[bytes, JobRun] = {}
        self._active_sent: set[bytes] = set()
        self._ended: deque[EndedRun] = deque()
        self._notified = False
        self._checking = False
        self._stopping = False
        self._average_s = EMPTY_BUFFER_WITHIN_S

    def wake(self) -> None:
        """There is work: wake or start as many threads as it needs."""
        wanted = max(1, min(self._concurrency, int(len(self._buffer) * self._average_s / EMPTY_BUFFER_WITHIN_S)))
        while self._threads - self._asleep < wanted and self._wake_or_start_thread():
            pass
        if not self._checking:
            self._checking = True
            self._loop.call_later(CHECK_INTERVAL_S, self._check_threads, self._outcomes.done)

    async def stop(self, seconds: float) -> None:
        """Start no more. A running thread cannot be cancelled: its job is left to its lease."""
        self._stopping = True
        for _ in range(self._threads):
            self._wakeups.release()

    def _wake_or_start_thread(self) -> bool:
        with self._lock:
            if self._asleep:
                self._asleep -= 1
                self._wakeups.release()
                return True
            if self._threads >= self._concurrency or self._stopping:
                return False
            self._threads += 1
        threading.Thread(target=self._thread_main, name=f"chasqui slot {self._threads}", daemon=True).start()
        return True

    def _check_threads(self, done: int) -> None:
        """While there is work: handle what ended, send the `active` events of long runs, wake a thread if all are busy."""
        self._process_ended()
        for entry_id, run in self._running.copy().items():
            if entry_id not in self._active_sent:
                self._active_sent.add(entry_id)
                self._outcomes.report_active(run)
        if self._buffer and self._outcomes.done == done:
            self._wake_or_start_thread()
        self._checking = self._held.unfinished > 0
        if self._checking:
            self._loop.call_later(CHECK_INTERVAL_S, self._check_threads, self._outcomes.done)

    def _process_ended(self) -> None:
        """Handle the outcomes of the runs that have ended."""
        self._notified = False
        while self._ended:
            run, result, error, ended = self._ended.popleft()
            active_sent = run.row[ID] in self._active_sent
            self._active_sent.discard(run.row[ID])
            try:
                if error is None:
                    self._outcomes.completed(*run[:4], result, ended=ended, active_sent=active_sent)
                else:
                    self._outcomes.failed(run._replace(active_sent=active_sent), error, ended)
            except Exception as bug:  # noqa: BLE001 - one entry must not hold up the others
                self._outcomes.drop_after_bug(run.row, bug)

    def _thread_main(self) -> None:
        while not self._stopping:
            try:
                row, lease = self._buffer.popleft()
            except IndexError:
                with self._lock:
                    self._asleep += 1
                self._wakeups.acquire()
                continue
            try:
                self._run_entry(row, lease)
            except Exception as bug:  # noqa: BLE001 - the top of a loop: one entry must not cost a thread
                self._call_soon(self._outcomes.drop_after_bug, row, bug)

    def _run_entry(self, row: EntryRow, lease: EntryLease) -> None:
        job = self._admission.admit(row)
        if type(job) is RejectedEntry:
            self._call_soon(self._outcomes.reject, job)
        elif self._can_start(row, lease, job):
            self._run(JobRun(row, lease, job, self._mono()))

    def _can_start(self, row: EntryRow, lease: EntryLease, job: Any) -> bool:
        """Whether the job is still ours: known from our own clock, or from the server for one that was delivered before."""
        if counted_starts(row):
            return asyncio.run_coroutine_threadsafe(self._suspects.confirm_start(row, job), self._loop).result()
        if self._outcomes.is_leased(row, lease):
            return True
        self._call_soon(self._outcomes.release, row)
        return False

    def _run(self, run: JobRun) -> None:
        entry_id, result, raised = run.row[ID], None, None
        self._running[entry_id] = run
        try:
            result = copy_context().run(self._handler, run.job)
            if inspect.isawaitable(result):
                result = asyncio.run_coroutine_threadsafe(_await(result), self._loop).result()
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
            raised = error
        ended = self._mono()
        del self._running[entry_id]
        self._average_s += (ended - run.started - self._average_s) / 8
        self._ended.append((run, result, raised, ended))
        if not self._notified and (not self._buffer or len(self._ended) >= NOTIFY_AT):
            self._notified = True
            self._call_soon(self._process_ended)

    def _call_soon(self, call: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: this thread came too late
            self._loop.call_soon_threadsafe(call, *args)


async def _await(result: Any) -> Any:
    return await result
