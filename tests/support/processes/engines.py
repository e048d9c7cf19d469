"""Handles of `engine_process.py`: a worker that can be killed or frozen, a queue that can be called, events to read.

The released engine and this one have the same handles, so a test can put either in either place.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chasqui.clock import SystemClock
from tests.support.processes import reference_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
PATIENCE_S = 20.0
CLOCK = SystemClock()


class RefusedError(Exception):
    """A call that the engine in the other process refused."""


@dataclass(slots=True)
class EngineProcess:
    """A running part of an engine. `log`: its standard error."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def read_message(self) -> Any:
        """The next message; an error with the end of its log when the process ended instead."""
        assert self.process.stdout
        try:
            return pickle.load(self.process.stdout)
        except EOFError:
            raise RuntimeError(f"the process ended:\n{self.stderr_text()[-3000:]}") from None

    def stderr_text(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """No farewell, nothing flushed; over when this returns."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self, seconds: float = PATIENCE_S) -> float:
        """Ask it to finish; answers how long that took."""
        start = CLOCK.monotonic()
        self.signal(signal.SIGTERM)
        self.process.wait(seconds)
        return CLOCK.monotonic() - start

    def end(self) -> None:
        """Leave nothing behind, whatever state it is in."""
        if self.alive:
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


class RemoteQueue:
    """A queue of some engine in a process of its own."""

    def __init__(self, process: EngineProcess) -> None:
        self.process = process

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*words: Any, **options: Any) -> Any:
            assert self.process.process.stdin
            pickle.dump((method, words, options), self.process.process.stdin)
            self.process.process.stdin.flush()
            status, answer = self.process.read_message()
            if status == "refused":
                raise RefusedError(answer)
            return answer

        return call


@dataclass(slots=True)
class EventReader:
    """What a reader of events has read so far: name, job id, job name, fields."""

    process: EngineProcess
    arrived: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    events: list[tuple[str, str | None, str, dict[str, Any]]] = field(default_factory=list)

    def start(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def _listen(self) -> None:
        try:
            while True:
                self.arrived.put(self.process.read_message())
        except (RuntimeError, OSError, ValueError, pickle.UnpicklingError):
            return

    def read(self) -> list[tuple[str, str | None, str, dict[str, Any]]]:
        """Everything that arrived until now."""
        while not self.arrived.empty():
            self.events.append(self.arrived.get())
        return self.events


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by the name of its package, and the interpreter that has it."""

    package: str
    python: Path

    @classmethod
    def ours(cls) -> Engine:
        return cls("chasqui", Path(sys.executable))

    @classmethod
    def reference(cls) -> Engine:
        return cls(reference_engine.PACKAGE, reference_engine.python())

    def start_worker(
        self, queue_name: str, url: str, ledger: Path, *, plain: bool = False, **options: Any
    ) -> EngineProcess:
        """A worker process, up but perhaps not connected yet; `plain` gives it a handler that is a plain function."""
        return self._start("worker", queue_name, url, options, ledger=str(ledger), plain=plain)

    @contextmanager
    def worker(self, queue_name: str, url: str, ledger: Path, **options: Any) -> Iterator[EngineProcess]:
        process = self.start_worker(queue_name, url, ledger, **options)
        try:
            yield process
        finally:
            process.end()

    @contextmanager
    def queue(self, queue_name: str, url: str, log: Path, **options: Any) -> Iterator[RemoteQueue]:
        process = self._start("queue", queue_name, url, options, ledger=str(log))
        try:
            yield RemoteQueue(process)
        finally:
            process.end()

    @contextmanager
    def events(self, queue_name: str, url: str, log: Path, **options: Any) -> Iterator[EventReader]:
        process = self._start("events", queue_name, url, options, ledger=str(log))
        try:
            yield EventReader(process).start()
        finally:
            process.end()

    def _start(self, part: str, queue_name: str, url: str, options: dict[str, Any], **setup: Any) -> EngineProcess:
        words = json.dumps({"queue": queue_name, "url": url, "options": options, **setup})
        log = Path(f"{setup['ledger']}.{self.package}-{part}.log")
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [
                    *_dying_with_parent(),
                    str(self.python),
                    "-m",
                    "tests.support.processes.engine_process",
                    self.package,
                    part,
                    words,
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        started = EngineProcess(process, log)
        assert started.read_message() == "ready"
        return started


def wait_until(holds: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> float:
    """Wait until it holds and return how long that took; the error names what never came true."""
    start = CLOCK.monotonic()
    while not holds():
        if CLOCK.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        CLOCK.sleep_sync(0.01)
    return CLOCK.monotonic() - start


def _dying_with_parent() -> list[str]:
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
