"""Runs several worker processes: started, started again when they crash, stopped together.

A process uses one core however many jobs it runs at once; a fleet uses as many as it has processes. A process calls
its target, which usually runs `serve` on a worker.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from chasqui.clock import SystemClock
from chasqui.errors import ArgumentError
from chasqui.supervision.supervisor import ErrorBackoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.context import SpawnProcess

    from chasqui.clock import Clock

log = logging.getLogger("chasqui.fleet")

RESTART_BACKOFF = ErrorBackoff(0.1, 30.0)
STABLE_AFTER_S = 60.0
"""A process that ran for this long did not crash while starting."""
ORPHAN_TIMEOUT_S = 60.0
"""How long a process may outlive the one that started it, to finish its jobs."""

_SPAWN = multiprocessing.get_context("spawn")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_fleet(
    processes: int, target: Callable[..., object], args: Sequence[Any] = (), *, clock: Clock | None = None
) -> int:
    """Run `target(*args)` in this many processes until they have ended; returns 0 if every one ended well.

    One that crashes is started again, after a while that doubles when it crashes at once. At the first SIGTERM or
    SIGINT each process is sent SIGTERM, and those that end are not replaced; at the second once more, by which `serve`
    leaves at once; at the third they are killed. Should this process die, they go too. Call it in the main thread;
    target and args must be picklable.
    """
    if processes < 1:
        raise ArgumentError(f"a fleet has at least one process, not {processes}")
    with _ProcessFleet(
        [_WorkerProcess(at, target, args) for at in range(processes)], clock or SystemClock()
    ).handling_signals() as fleet:
        return fleet.run()


@dataclass(slots=True)
class _WorkerProcess:
    """One place in the fleet: its current process, and when the next one starts."""

    number: int
    target: Callable[..., object]
    args: Sequence[Any]
    process: SpawnProcess | None = None
    started: float = 0.0
    start_at: float | None = 0.0
    crashes: int = 0
    code: int = 0

    def start(self, now: float) -> None:
        self.start_at, self.started = None, now
        name = f"chasqui worker {self.number + 1}"
        self.process = _SPAWN.Process(target=_process_main, args=(self.target, self.args), name=name)
        self.process.start()

    def on_exit(self, now: float, *, final: bool) -> None:
        """Record how it ended, and when it is started again, if it is."""
        if self.process:
            self.process.join()
            self.code, self.process = self.process.exitcode or 0, None
        if self.code == 0 or final:
            return
        self.crashes = 1 if now - self.started > STABLE_AFTER_S else self.crashes + 1
        pause_s = RESTART_BACKOFF.delay_s(self.crashes)
        self.start_at = now + pause_s
        log.warning("worker %d ended with %s; again in %.1f s", self.number + 1, _exit_text(self.code), pause_s)


@dataclass(slots=True)
class _ProcessFleet:
    processes: list[_WorkerProcess]
    clock: Clock
    stop_signals: int = 0
    _bell: tuple[int, int] = field(default_factory=os.pipe)

    @contextmanager
    def handling_signals(self) -> Iterator[_ProcessFleet]:
        """Handle signals while it runs; then restore the handlers, and kill processes that are left."""
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield self
        finally:
            for place in self.processes:
                if place.process:
                    place.process.kill()
                    place.process.join()
            for number, handler in before.items():
                signal.signal(number, handler)
            for end in self._bell:
                os.close(end)

    def run(self) -> int:
        while True:
            now = self.clock.monotonic()
            for place in self.processes:
                if place.start_at is not None and place.start_at <= now and not self.stop_signals:
                    place.start(now)
            if not self._has_work():
                return 0 if all(place.code == 0 for place in self.processes) else 1
            self._wait()

    def _has_work(self) -> bool:
        """Whether a process runs, or will be started."""
        waiting = not self.stop_signals and any(place.start_at is not None for place in self.processes)
        return waiting or any(place.process for place in self.processes)

    def _wait(self) -> None:
        """Wait until a process ends, one is due to start, or a signal comes."""
        running = {place.process.sentinel: place for place in self.processes if place.process}
        due = [place.start_at for place in self.processes if place.start_at is not None and not self.stop_signals]
        left = max(0.0, min(due) - self.clock.monotonic()) if due else None
        for ready in wait([*running, self._bell[0]], left):
            if ready == self._bell[0]:
                os.read(self._bell[0], 1)
                self._forward_signal()
            elif isinstance(ready, int):
                running[ready].on_exit(self.clock.monotonic(), final=bool(self.stop_signals))

    def _on_signal(self, number: int, _: object) -> None:
        self.stop_signals += 1
        os.write(self._bell[1], b"!")

    def _forward_signal(self) -> None:
        log.info("asked to go for the %s time", ("first", "second", "last")[min(self.stop_signals, 3) - 1])
        for place in self.processes:
            if place.process and self.stop_signals < 3:
                place.process.terminate()
            elif place.process:
                place.process.kill()


def _process_main(target: Callable[..., object], args: Sequence[Any]) -> None:
    """What runs in each process. It is a group of its own: Ctrl-C is for the parent, which passes it on once."""
    os.setpgid(0, 0)
    threading.Thread(target=_exit_with_parent, name="chasqui parent watch", daemon=True).start()
    target(*args)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        SystemClock().sleep_sync(ORPHAN_TIMEOUT_S)
        os._exit(1)


def _exit_text(code: int) -> str:
    if code > 0:
        return f"code {code}"
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
