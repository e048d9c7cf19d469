"""Handlers that are plain functions, run by resident threads that take one job after the other.

Threads only open jobs and call the handler; what follows from it is done by the event loop, many at a time. While
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

from chasqui.consume.entry_checks import JobRun, RejectedEntry, counted_starts

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.clock import Clock
    from chasqui.consume.crash_suspects import BufferedEntry, CrashSuspects
    from chasqui.consume.entry_checks import Admission
    from chasqui.consume.held_entries import EntryLease, EntryRow, HeldEntries
    from chasqui.consume.outcomes import OutcomeHandler

log = logging.getLogger("chasqui.worker")

EMPTY_BUFFER_WITHIN_S = 0.001
"""Enough threads are awake if they can empty the buffer in this time."""
CHECK_INTERVAL_S = 0.005
"""How often the event loop looks after the threads: tells of jobs that take longer than that, and wakes another thread
if the awake ones are stuck in such."""
EndedRun = tuple[JobRun, Any, BaseException | None, float]
"""A run, what it returned, what it raised, and when."""

NOTIFY_AT = 64
"""So many ended jobs are worth waking the event loop for while there is more to do."""


class ThreadSlots:
    """At most `concurrency` threads, started when first needed."""

    def __init__(
        self,
        handler: Callable[[Any], Any],
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
        self._holdings = holdings
        self._outcomes = outcomes
        self._suspects = suspects
        self._mono = clock.monotonic
        self._loop = asyncio.get_running_loop()
        self._work = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._asleep = 0
        self._running: dict[bytes, JobRun] = {}
        self._told: set[bytes] = set()
        self._ended: deque[EndedRun] = deque()
        self._rung = False
        self._looking = False
        self._leaving = False
        self._usual_s = EMPTY_BUFFER_WITHIN_S

    def wake(self) -> None:
        """There is work: let as many threads do it as that takes."""
        wanted = max(1, min(self._concurrency, int(len(self._buffer) * self._usual_s / EMPTY_BUFFER_WITHIN_S)))
        while self._threads - self._asleep < wanted and self._wake_or_start_thread():
            pass
        if not self._looking:
            self._looking = True
            self._loop.call_later(CHECK_INTERVAL_S, self._check_threads, self._outcomes.done)

    async def stop(self, seconds: float) -> None:
        """Take no more. A running thread cannot be called off: its job is left to its lease."""
        self._leaving = True
        for _ in range(self._threads):
            self._work.release()

    def _wake_or_start_thread(self) -> bool:
        with self._lock:
            if self._asleep:
                self._asleep -= 1
                self._work.release()
                return True
            if self._threads >= self._concurrency or self._leaving:
                return False
            self._threads += 1
        threading.Thread(target=self._thread_main, name=f"chasqui slot {self._threads}", daemon=True).start()
        return True

    def _check_threads(self, done: int) -> None:
        """While there is work, see to it that nothing waits for a thread that is stuck, nor for being told."""
        self._process_ended()
        for entry_id, run in self._running.copy().items():
            if entry_id not in self._told:
                self._told.add(entry_id)
                self._outcomes.report_active(run)
        if self._buffer and self._outcomes.done == done:
            self._wake_or_start_thread()
        self._looking = self._holdings.unfinished > 0
        if self._looking:
            self._loop.call_later(CHECK_INTERVAL_S, self._check_threads, self._outcomes.done)

    def _process_ended(self) -> None:
        """Work out what follows from the runs that have ended."""
        self._rung = False
        while self._ended:
            run, result, error, ended = self._ended.popleft()
            told = run.row[0] in self._told
            self._told.discard(run.row[0])
            try:
                if error is None:
                    self._outcomes.completed(*run[:4], result, ended=ended, active_sent=told)
                else:
                    self._outcomes.failed(run._replace(active_sent=told), error, ended)
            except Exception as bug:  # noqa: BLE001 - one entry must not keep the others from being told
                self._outcomes.drop_after_bug(run.row, bug)

    def _thread_main(self) -> None:
        """What each thread does."""
        while not self._leaving:
            try:
                row, batch = self._buffer.popleft()
            except IndexError:
                with self._lock:
                    self._asleep += 1
                self._work.acquire()
                continue
            job = self._door.admit(row)
            if type(job) is RejectedEntry:
                self._call_soon(self._outcomes.reject, job)
            elif self._can_start(row, batch, job):
                self._run(JobRun(row, batch, job, self._mono()))

    def _can_start(self, row: EntryRow, batch: EntryLease, job: Any) -> bool:
        """Whether the job is still ours: by our own clock, or by the server's word for one that came before."""
        if counted_starts(row):
            asked = asyncio.run_coroutine_threadsafe(self._suspects.confirm_start(row, job), self._loop)
            return asked.result()
        if self._outcomes.is_leased(row, batch):
            return True
        self._call_soon(self._outcomes.release, row)
        return False

    def _run(self, run: JobRun) -> None:
        entry_id, result, problem = run.row[0], None, None
        self._running[entry_id] = run
        try:
            result = copy_context().run(self._handler, run.job)
            if inspect.isawaitable(result):
                result = asyncio.run_coroutine_threadsafe(_await(result), self._loop).result()
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
            problem = error
        ended = self._mono()
        del self._running[entry_id]
        self._usual_s += (ended - run.started - self._usual_s) / 8
        self._ended.append((run, result, problem, ended))
        if not self._rung and (not self._buffer or len(self._ended) >= NOTIFY_AT):
            self._rung = True
            self._call_soon(self._process_ended)

    def _call_soon(self, call: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: this thread came too late
            self._loop.call_soon_threadsafe(call, *args)


async def _await(thing: Any) -> Any:
    return await thing
