"""The account of a fault test: what was added, what the handlers noted, what the server still holds.

The oracle is the same for every fault. A job that was added has been completed at least once or lies in the DLQ with
all its bytes; nothing else ran; nothing is left behind; and few jobs ran twice.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chasqui.server.commands.replies import RawEntry
from chasqui.wire import dead_letter_entry, envelope
from tests.support.processes.engines import CLOCK, PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from chasqui.wire.dead_letter_entry import DeadLetterEntry
    from tests.support.queue_harness import QueueHarness


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job by a handler. Without an outcome it never ended: its worker died, or still lives."""

    id: str
    name: str
    attempt: int
    pid: int
    started: float
    data: str = ""
    created_at_ms: int = 0
    ended: float | None = None
    outcome: str | None = None


@dataclass(slots=True)
class RunLedger:
    """Reads what handlers noted; a job's runs in the order they started."""

    path: Path
    _read: int = 0
    _runs: list[JobRun] = field(default_factory=list)
    _open: dict[tuple[str, int, int], list[int]] = field(default_factory=dict)

    def runs(self, job_id: str | None = None) -> list[JobRun]:
        self._read_on()
        return [run for run in self._runs if job_id is None or run.id == job_id]

    def _read_on(self) -> None:
        """Take in the lines that are new, and whole."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            fresh = file.read()
        for line in fresh[: fresh.rfind(b"\n") + 1].splitlines(keepends=True):
            self._read += len(line)
            self._enter(json.loads(line))

    def _enter(self, line: dict[str, Any]) -> None:
        """A start, or the end of a run: the same job and attempt in the same process, first come first ended."""
        who = (line["id"], line["attempt"], line["pid"])
        if line["word"] == "start":
            self._open.setdefault(who, []).append(len(self._runs))
            self._runs.append(_begun(line))
        else:
            place = self._open[who].pop(0)
            self._runs[place] = replace(self._runs[place], ended=line["at"], outcome=line["outcome"])

    def starts(self) -> Counter[str]:
        return Counter(run.id for run in self.runs())

    def completions(self) -> Counter[str]:
        return Counter(run.id for run in self.runs() if run.outcome == "ok")

    def completed(self, ids: Collection[str]) -> bool:
        """Whether each of these has been completed."""
        return not set(ids) - set(self.completions())


def _begun(line: dict[str, Any]) -> JobRun:
    about = {name: line[name] for name in ("id", "name", "attempt", "pid")}
    return JobRun(
        **about,
        started=line["at"],
        data=line.get("data", ""),
        created_at_ms=line.get("created_at_ms", 0),
    )


def dead_letters(bench: QueueHarness) -> list[DeadLetterEntry]:
    """Every dead letter of the queue."""
    rows = bench.run_calls(bench.commands.oldest_entries(bench.keys.dlq, 100_000))
    return [dead_letter_entry.decode(entry.fields) for entry in RawEntry.list_from_reply(rows)]


def dead_job_ids(bench: QueueHarness) -> Counter[str]:
    """The ids of the dead jobs whose bytes are whole; an entry that does not decode has no id."""
    found: Counter[str] = Counter()
    for letter in dead_letters(bench):
        if letter.reason in {"retries_exhausted", "unrecoverable", "crashed"}:
            found[envelope.decode(letter.d, len(letter.d)).id] += 1
    return found


def remaining_jobs(bench: QueueHarness) -> dict[str, int]:
    """What the queue still holds besides dead letters."""
    pending = 0
    if bench.command("EXISTS", bench.keys.stream):
        groups = bench.command("XINFO", "GROUPS", bench.keys.stream)
        if groups:
            pending = bench.command("XPENDING", bench.keys.stream, "default")[0]
    return {
        "stream": bench.command("XLEN", bench.keys.stream),
        "pending": pending,
        "delayed": bench.command("ZCARD", bench.keys.delayed),
    }


EMPTY = {"stream": 0, "pending": 0, "delayed": 0}


def wait_until_finished(
    bench: QueueHarness, ledger: RunLedger, added: Collection[str], seconds: float = PATIENCE_S
) -> float:
    """Wait until each job is done or dead and nothing is left; answers how long that took."""
    start = CLOCK.monotonic()
    wait_until(lambda: not set(added) - set(ledger.completions()) - set(dead_job_ids(bench)), "all ran", seconds)
    wait_until(lambda: remaining_jobs(bench) == EMPTY, "nothing is left", seconds)
    return CLOCK.monotonic() - start


def check_accounts(
    bench: QueueHarness,
    ledger: RunLedger,
    added: Collection[str],
    *,
    extra_runs: int = 0,
    dead: Collection[str] = (),
) -> None:
    """The common oracle. `extra_runs`: how many completions too many the fault may cause, over all jobs."""
    completions, died = ledger.completions(), dead_job_ids(bench)
    assert set(added) - set(completions) - set(died) == set(), "jobs were lost"
    assert set(completions) | set(died) <= set(added), "jobs that were never added"
    assert set(died) == set(dead), "the wrong jobs are dead"
    assert all(count == 1 for count in died.values()), "a job died twice"
    assert remaining_jobs(bench) == EMPTY
    assert sum(completions.values()) - len(completions) <= extra_runs, "too many runs"
