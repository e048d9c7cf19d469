"""What a stretch of work cost: wall time, this process's CPU, the server's CPU, and the memory at its peak.

Only the standard library, because every contender's interpreter runs this file.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

MILESTONE = 10_000
"""Jobs between two recorded marks: what a job costs early and late can be compared."""


@dataclass(frozen=True)
class Mark:
    """One look at the clocks. `at` is comparable between processes."""

    jobs: int
    at: float
    client: float
    server: float


@dataclass
class Meter:
    """Marks the first job and every `every`th later one; what lies between the first and last mark counts.

    Nothing has to know which job is the last, so any number of processes can share a queue.
    """

    server_pid: int
    every: int = 1000
    jobs: int = 0
    first: Mark | None = None
    last: Mark | None = None
    memory: list[int] = field(default_factory=list)
    milestones: list[Mark] = field(default_factory=list)

    def mark(self) -> Mark:
        """Look at the clocks now."""
        self.last = Mark(self.jobs, time.monotonic(), time.process_time(), server_seconds(self.server_pid))
        self.first = self.first or self.last
        return self.last

    def count(self) -> None:
        """One more job has come to its handler."""
        self.jobs += 1
        if self.jobs % self.every == 1:
            self.mark()
        if self.jobs % MILESTONE == 1:
            self.milestones.append(self.mark())
            self.memory.append(memory_kb("VmRSS"))

    def report(self) -> dict[str, object]:
        """Everything, as plain values for the table's process."""
        marks = {name: asdict(mark) for name in ("first", "last") if (mark := getattr(self, name))}
        milestones = [asdict(mark) for mark in self.milestones]
        memory = {"peak_kb": memory_kb("VmHWM"), "memory_kb": self.memory}
        return {"jobs": self.jobs, **marks, "milestones": milestones, **memory}


def server_seconds(pid: int) -> float:
    """CPU seconds of the server's main thread, which runs the commands."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory_kb(field_name: str) -> int:
    """A line of this process's own account. Unlike `ru_maxrss` it does not begin with the parent's size."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field_name + ":"):
            return int(line.split()[1])
    raise LookupError(field_name)


def burn(seconds: float) -> None:
    """Use this much of a core: a handler that computes."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
