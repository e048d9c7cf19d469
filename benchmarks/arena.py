"""One server and the processes that compete on it. What is compared, and how it is shown, is `rounds.py`'s business."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.processes import reference_engine
from tests.support.servers.binaries import obtain
from tests.support.servers.server import Server, start_server

ROOT = Path(__file__).parents[1]
QUEUE = "bench"
STREAM = "{chasqui:bench}:stream"
PATIENCE = 180.0
STRETCH = 10
"""Milestones over which the cost at a depth is taken: each is some thousand jobs."""


@dataclass(frozen=True)
class Contender:
    """Who competes, and in how many processes. `jobs`: enough of them for about a second's work."""

    title: str
    library: str
    options: tuple[str, ...] = ()
    processes: int = 1
    jobs: int = 100_000

    def scaled(self, share: float) -> Contender:
        """The same with a part of the jobs."""
        return replace(self, jobs=max(2000, int(self.jobs * share)))


@dataclass(frozen=True)
class Cost:
    """What some work cost, per second and per job."""

    rate: float
    client_us: float
    server_us: float
    peak_mb: float
    memory_mb: tuple[float, ...] = ()


@dataclass(frozen=True)
class Waits:
    """How long after its adding a job began, when everybody was idle."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Depth:
    """What a job costs with much and with little behind it, and over all."""

    deep: Cost
    shallow: Cost
    whole: Cost


class Arena:
    """A server of its own, emptied before each run."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def produce(self, contender: Contender) -> Cost:
        """Add the contender's jobs to an empty queue."""
        self._server.run_command("FLUSHALL")
        [report] = _reports([self._start("produce", contender, "--jobs", str(contender.jobs))])
        if self._server.run_command("XLEN", STREAM) != f":{contender.jobs}":
            raise RuntimeError(f"{contender.title} says it added {contender.jobs} jobs: {report}")
        return _cost([report])

    def drain(self, contender: Contender, *more: str) -> Cost:
        """Work on what is in the queue until nothing is left: what it cost."""
        return _cost(self._worked_off(contender, *more))

    def _worked_off(self, contender: Contender, *more: str) -> list[dict[str, Any]]:
        """Nothing is left, and every job is accounted for."""
        waiting = self._waiting()
        workers = [self._start("drain", contender, *more) for _ in range(contender.processes)]
        self._await_left(0, workers)
        reports = _ended(workers)
        if sum(report["jobs"] for report in reports) != waiting:
            raise RuntimeError(f"{contender.title} handled not {waiting} jobs: {reports}")
        return reports

    def by_depth(self, contender: Contender) -> Depth:
        """Work everything off: what a job cost with nearly everything still waiting, and with little left.

        One process does both, and is long warm by then, so that only the depth differs.
        """
        report = self._worked_off(contender)[0]
        marks = report["milestones"]
        early = report | {"first": marks[1], "last": marks[1 + STRETCH]}
        late = report | {"first": marks[-1 - STRETCH], "last": marks[-1]}
        return Depth(deep=_cost([early]), shallow=_cost([late]), whole=_cost([report]))

    def latency(self, contender: Contender, jobs: int) -> Waits:
        """Add jobs one at a time to an idle worker."""
        self._server.run_command("FLUSHALL")
        workers = [self._start("latency", contender)]
        _await(lambda: self._server.run_command("XPENDING", STREAM, "default").startswith("*"), workers)
        _reports([self._start("trickle", contender, "--jobs", str(jobs))])
        self._await_left(0, workers)
        waits = sorted(_ended(workers)[0]["waits_ms"])
        return Waits(statistics.median(waits), waits[int(len(waits) * 0.99)])

    def _waiting(self) -> int:
        return int(self._server.run_command("XLEN", STREAM).removeprefix(":"))

    def _await_left(self, left: int, workers: Sequence[subprocess.Popen[str]]) -> None:
        _await(lambda: self._waiting() <= left, workers)

    def _start(self, verb: str, contender: Contender, *more: str) -> subprocess.Popen[str]:
        ours = contender.library != "chasquimq"
        python = sys.executable if ours else str(reference_engine.python())
        place = ["--url", self._server.url, "--queue", QUEUE, "--server-pid", str(self._server.pid)]
        return subprocess.Popen(
            [python, "-m", "benchmarks.runner", verb, contender.library, *place, *contender.options, *more],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "engine")] if ours else [str(ROOT)])},
            stdout=subprocess.PIPE,
            text=True,
        )


@contextmanager
def arena() -> Iterator[Arena]:
    """A fresh server on loopback TCP, without persistence; the one kind on which all contenders run."""
    obtain("redis-8.6")
    with start_server("redis-8.6", tcp=True) as server:
        yield Arena(server)


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        rate=statistics.median(cost.rate for cost in costs),
        client_us=statistics.median(cost.client_us for cost in costs),
        server_us=statistics.median(cost.server_us for cost in costs),
        peak_mb=max(cost.peak_mb for cost in costs),
    )


def _await(holds: Any, workers: Sequence[subprocess.Popen[str]]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        if any(worker.poll() is not None for worker in workers):
            raise RuntimeError("a worker ended by itself")
        if time.monotonic() > end:
            for worker in workers:
                worker.kill()
            raise TimeoutError(f"not done after {PATIENCE:.0f} s: {workers[0].args!r}")
        time.sleep(0.01)


def _ended(workers: Sequence[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    for worker in workers:
        worker.terminate()
    return _reports(workers)


def _reports(processes: Sequence[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"a contender failed: {processes[0].args!r}")
    return [json.loads(text.splitlines()[-1]) for text in outputs]


def _cost(reports: Sequence[dict[str, Any]]) -> Cost:
    worked = [report for report in reports if "first" in report]
    jobs = sum(report["last"]["jobs"] - report["first"]["jobs"] for report in worked)

    def span(field: str) -> float:
        begin = min(report["first"][field] for report in worked)
        return float(max(report["last"][field] for report in worked) - begin)

    client = sum(report["last"]["client"] - report["first"]["client"] for report in worked)
    return Cost(
        rate=jobs / span("at"),
        client_us=1e6 * client / jobs,
        server_us=1e6 * span("server") / jobs,
        peak_mb=max(report["peak_kb"] for report in worked) / 1024,
        memory_mb=tuple(kb / 1024 for kb in worked[0]["memory_kb"]),
    )
