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

from chasqui.consumer.arrivals import Misfit, Run, delivered_before

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.clock import Clock
    from chasqui.consumer.arrivals import Door
    from chasqui.consumer.holdings import Batch, Holdings, Row
    from chasqui.consumer.outcomes import Outcomes
    from chasqui.consumer.suspects import Delivered, Suspects

log = logging.getLogger("chasqui.worker")

SOON_S = 0.001
"""Enough threads are awake if they can empty the buffer in this time."""
LOOK_S = 0.005
"""How often the event loop looks after the threads: tells of jobs that take longer than that, and wakes another thread
if the awake ones are stuck in such."""
Ended = tuple[Run, Any, BaseException | None, float]
"""A run, what it returned, what it raised, and when."""

MANY = 64
"""So many ended jobs are worth waking the event loop for while there is more to do."""


class Threads:
    """At most `concurrency` threads, started when first needed."""

    def __init__(
        self,
        handler: Callable[[Any], Any],
        concurrency: int,
        buffer: deque[Delivered],
        door: Door,
        holdings: Holdings,
        outcomes: Outcomes,
        suspects: Suspects,
        clock: Clock,
    ) -> None:
        self._handler = handler
        self._concurrency = concurrency
        self._buffer = buffer
        self._door = door
        self._holdings = holdings
        self._outcomes = outcomes
        self._suspects = suspects
        self._mono = clock.mono
        self._loop = asyncio.get_running_loop()
        self._work = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._asleep = 0
        self._running: dict[bytes, Run] = {}
        self._told: set[bytes] = set()
        self._ended: deque[Ended] = deque()
        self._rung = False
        self._looking = False
        self._leaving = False
        self._usual_s = SOON_S

    def wake(self) -> None:
        """There is work: let as many threads do it as that takes."""
        wanted = max(1, min(self._concurrency, int(len(self._buffer) * self._usual_s / SOON_S)))
        while self._threads - self._asleep < wanted and self._one_more():
            pass
        if not self._looking:
            self._looking = True
            self._loop.call_later(LOOK_S, self._look, self._outcomes.done)

    async def abandon(self, seconds: float) -> None:
        """Take no more. A running thread cannot be called off: its job is left to its lease."""
        self._leaving = True
        for _ in range(self._threads):
            self._work.release()

    def _one_more(self) -> bool:
        with self._lock:
            if self._asleep:
                self._asleep -= 1
                self._work.release()
                return True
            if self._threads >= self._concurrency or self._leaving:
                return False
            self._threads += 1
        threading.Thread(target=self._serve, name=f"chasqui slot {self._threads}", daemon=True).start()
        return True

    def _look(self, done: int) -> None:
        """While there is work, see to it that nothing waits for a thread that is stuck, nor for being told."""
        self._collect()
        for entry_id, run in self._running.copy().items():
            if entry_id not in self._told:
                self._told.add(entry_id)
                self._outcomes.active(run)
        if self._buffer and self._outcomes.done == done:
            self._one_more()
        self._looking = self._holdings.load > 0
        if self._looking:
            self._loop.call_later(LOOK_S, self._look, self._outcomes.done)

    def _collect(self) -> None:
        """Work out what follows from the runs that have ended."""
        self._rung = False
        while self._ended:
            run, result, error, ended = self._ended.popleft()
            told = run.row[0] in self._told
            self._told.discard(run.row[0])
            try:
                if error is None:
                    self._outcomes.completed(*run[:4], result, ended=ended, told=told)
                else:
                    self._outcomes.failed(run._replace(told=told), error, ended)
            except Exception as bug:  # noqa: BLE001 - one entry must not keep the others from being told
                self._outcomes.botched(run.row, bug)

    def _serve(self) -> None:
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
            if type(job) is Misfit:
                self._call_soon(self._outcomes.reject, job)
            elif self._may_start(row, batch, job):
                self._run(Run(row, batch, job, self._mono()))

    def _may_start(self, row: Row, batch: Batch, job: Any) -> bool:
        """Whether the job is still ours: by our own clock, or by the server's word for one that came before."""
        if delivered_before(row):
            asked = asyncio.run_coroutine_threadsafe(self._suspects.confirmed(row, job), self._loop)
            return asked.result()
        if self._outcomes.is_ours(row, batch):
            return True
        self._call_soon(self._outcomes.hand_back, row)
        return False

    def _run(self, run: Run) -> None:
        entry_id, result, problem = run.row[0], None, None
        self._running[entry_id] = run
        try:
            result = copy_context().run(self._handler, run.job)
            if inspect.isawaitable(result):
                result = asyncio.run_coroutine_threadsafe(_awaiting(result), self._loop).result()
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
            problem = error
        ended = self._mono()
        del self._running[entry_id]
        self._usual_s += (ended - run.started - self._usual_s) / 8
        self._ended.append((run, result, problem, ended))
        if not self._rung and (not self._buffer or len(self._ended) >= MANY):
            self._rung = True
            self._call_soon(self._collect)

    def _call_soon(self, call: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: this thread came too late
            self._loop.call_soon_threadsafe(call, *args)


async def _awaiting(thing: Any) -> Any:
    return await thing
