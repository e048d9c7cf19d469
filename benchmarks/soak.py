"""Workers are killed without warning while jobs arrive; at the end every job that was added is accounted for.

    python -m benchmarks.soak [--jobs 200000] [--workers 4] [--concurrency 50] [--seconds 90] [--seed N]

The account is that of a total queue: what was acknowledged must have been done or stand in the DLQ where it belongs,
nothing else may have been seen, and what ran twice is counted. The plan of kills comes from the seed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import chasqui
from tests.support.processes import reference_engine
from tests.support.servers.binaries import obtain
from tests.support.servers.server import Server, start_server

ROOT = Path(__file__).parents[1]
QUEUE = "soak"
KEY = "{chasqui:soak}:"
LEASE_MS = 5_000
KILL_PAUSE_S = (0.3, 1.0)
BATCH = 200
DUPLICATES_ALLOWED = 0.005
SETTLE_S = 60


@dataclass
class Account:
    """What became of every job."""

    fates: dict[str, str]
    starts: Counter[tuple[str, str]] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    def read(self, place: Path) -> None:
        """Take in the files of all workers, dead and alive."""
        for ledger in place.iterdir():
            for line in ledger.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    self._take(*line.split())

    def add_dead_letter(self, job_id: str, reason: str) -> None:
        """Take in one dead letter."""
        self.dead[job_id] += 1
        self.reasons[job_id] = reason

    def story(self, job_id: str) -> str:
        """What is known of one job."""
        runs = {attempt: times for (one, attempt), times in self.starts.items() if one == job_id}
        fate, reason = self.fates.get(job_id), self.reasons.get(job_id)
        return f"{job_id} ({fate}): runs by attempt {runs}, done {self.done[job_id]}, dead {self.dead[job_id]} {reason}"

    def _take(self, word: str, job_id: str, attempt: str) -> None:
        if word == "start":
            self.starts[job_id, attempt] += 1
        else:
            self.done[job_id] += 1

    @property
    def lost(self) -> list[str]:
        """Added, and neither done nor dead."""
        return [job_id for job_id in self.fates if not self.done[job_id] and not self.dead[job_id]]

    @property
    def wrongly_dead(self) -> list[str]:
        """In the DLQ without having asked for it, or more than once, or done as well."""
        return [
            job_id
            for job_id, times in self.dead.items()
            if self.fates.get(job_id) != "doomed" or times > 1 or self.done[job_id]
        ]

    @property
    def unexpected(self) -> list[str]:
        """Run, done or dead without ever having been added."""
        seen = {job_id for job_id, _ in self.starts} | self.done.keys() | self.dead.keys()
        return sorted(seen - self.fates.keys())

    @property
    def repeated(self) -> int:
        """Runs that began again after an earlier one of the same attempt had begun."""
        return sum(times - 1 for times in self.starts.values())


class Fleet:
    """Worker processes, each replaced when it was killed."""

    def __init__(self, library: str, url: str, place: Path, size: int, concurrency: int) -> None:
        python = sys.executable if library == "chasqui" else str(reference_engine.python())
        self._words = [python, "-m", "benchmarks.soak_worker", library, QUEUE, url, str(place)]
        self._words += [str(concurrency), str(LEASE_MS)]
        self._workers = [self._start() for _ in range(size)]
        self.kills = 0

    def _start(self) -> subprocess.Popen[bytes]:
        paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "engine")])}
        return subprocess.Popen(self._words, cwd=ROOT, env=os.environ | paths)

    def kill(self, number: int) -> None:
        """End one without a word and start another in its place."""
        victim = self._workers[number]
        victim.kill()
        if victim.wait() != -signal.SIGKILL:
            raise RuntimeError(f"worker {number} had ended by itself: {victim.returncode}")
        self._workers[number] = self._start()
        self.kills += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def stop(self) -> list[int]:
        """Ask all to end; their exit codes."""
        for worker in self._workers:
            worker.terminate()
        return [worker.wait(timeout=60) for worker in self._workers]


def main() -> int:
    words = _words()
    obtain(words.server)
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as place,
        start_server(words.server, tcp=True) as server,
        Fleet(words.engine, server.url, Path(place), words.workers, words.concurrency) as fleet,
    ):
        account = Account(_storm(words, server, fleet))
        problems = _leftovers(server, words.workers)
        problems += [f"a worker ended with {code}" for code in fleet.stop() if code]
        account.read(Path(place))
        for job_id, reason in _dead_letters(server):
            account.add_dead_letter(job_id, reason)
    problems += _problems(account, fleet, words)
    _print_account(account, fleet, time.monotonic() - begin)
    for problem in problems:
        print(f"FAILED: {problem}")
    if problems:
        print(f"again with: python -m benchmarks.soak --seed {words.seed} --jobs {words.jobs}")
        print(f"kills, as seconds:worker: {' '.join(f'{at:.2f}:{who}' for at, who in fault_plan(words))}")
    return 1 if problems else 0


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=90, help="how long the adding and killing lasts (90)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--engine", choices=("chasqui", "chasquimq"), default="chasqui", help="whose workers")
    parser.add_argument("--server", default="redis-8.6", help="kind of server (redis-8.6)")
    return parser.parse_args()


def fault_plan(words: argparse.Namespace) -> list[tuple[float, int]]:
    """When which worker dies."""
    dice, at, plan = random.Random(words.seed), 1.0, []
    while at < words.seconds:
        plan.append((at, dice.randrange(words.workers)))
        at += dice.uniform(*KILL_PAUSE_S)
    return plan


def _storm(words: argparse.Namespace, server: Server, fleet: Fleet) -> dict[str, str]:
    """Add jobs at an even pace and kill by the plan; the fate of each job by its id."""
    plan, dice = iter(fault_plan(words)), random.Random(words.seed)
    batches = iter(_batches(words.jobs, dice))
    fates: dict[str, str] = {}
    begin = time.monotonic()
    kill_at, victim = next(plan, (float("inf"), 0))
    with chasqui.SyncQueue(QUEUE, redis_url=server.url) as queue:
        while (passed := time.monotonic() - begin) < words.seconds or len(fates) < words.jobs:
            if passed >= kill_at:
                fleet.kill(victim)
                kill_at, victim = next(plan, (float("inf"), 0))
            if len(fates) < min(1.0, passed / words.seconds) * words.jobs:
                batch = next(batches)
                added = queue.add_bulk([{"name": "", "data": data} for data in batch])
                fates |= {job.id: str(data["fate"]) for job, data in zip(added, batch, strict=True)}
            else:
                time.sleep(0.005)
    return fates


def _batches(jobs: int, dice: random.Random) -> Iterator[list[dict[str, object]]]:
    for start in range(0, jobs, BATCH):
        yield [_job(dice) for _ in range(min(BATCH, jobs - start))]


def _job(dice: random.Random) -> dict[str, object]:
    """A few milliseconds of work; one in a hundred fails once, one in two hundred belongs in the DLQ."""
    [fate] = dice.choices(("sound", "flaky", "doomed"), (0.985, 0.010, 0.005))
    return {"ms": dice.randint(1, 4), "fate": fate}


def _leftovers(server: Server, workers: int) -> list[str]:
    """Wait until nothing is left to do and no trace of the dead; what is left after a minute."""
    wanted: dict[str, Callable[[], bool]] = {
        "entries are left in the stream": lambda: server.run_command("XLEN", KEY + "stream") == ":0",
        "jobs are left in the delayed set": lambda: server.run_command("ZCARD", KEY + "delayed") == ":0",
        "dead consumers are left in the group": lambda: _consumers(server) <= workers,
    }
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end and not all(holds() for holds in wanted.values()):
        time.sleep(0.1)
    return [problem for problem, holds in wanted.items() if not holds()]


def _consumers(server: Server) -> int:
    return int(server.run_command("XINFO", "CONSUMERS", KEY + "stream", "default").removeprefix("*"))


def _dead_letters(server: Server) -> Iterator[tuple[str, str]]:
    """The job of each dead letter, and why it died."""
    with chasqui.SyncQueue(QUEUE, redis_url=server.url) as queue:
        for letter in queue.peek_dlq(limit=1_000_000):
            yield chasqui.decode_envelope(letter["payload"]).id, f"{letter['reason']}: {letter['detail']}"


def _problems(account: Account, fleet: Fleet, words: argparse.Namespace) -> Iterator[str]:
    if account.lost:
        yield f"{len(account.lost)} jobs lost: {_stories(account, account.lost)}"
    if account.wrongly_dead:
        yield f"{len(account.wrongly_dead)} jobs wrongly in the DLQ: {_stories(account, account.wrongly_dead)}"
    if account.unexpected:
        yield f"{len(account.unexpected)} jobs nobody added: {_stories(account, account.unexpected)}"
    if account.repeated > fleet.kills * words.concurrency:
        yield f"{account.repeated} repeated runs, more than {fleet.kills} kills explain"
    if account.repeated > DUPLICATES_ALLOWED * words.jobs:
        yield f"{account.repeated} repeated runs, over {DUPLICATES_ALLOWED:.1%} of {words.jobs}"


def _done_twice(account: Account) -> int:
    """Runs whose first try had come to its end, but whose acknowledgement had not."""
    return sum(times - 1 for times in account.done.values())


def _stories(account: Account, job_ids: Sequence[str]) -> str:
    return "; ".join(account.story(job_id) for job_id in job_ids[:5])


def _print_account(account: Account, fleet: Fleet, seconds: float) -> None:
    jobs = len(account.fates)
    print(
        f"{jobs} jobs, {fleet.kills} kills, {seconds:.0f} s: {len(account.lost)} lost,"
        f" {len(account.wrongly_dead)} wrongly dead, {len(account.unexpected)} unexpected,"
        f" {account.repeated} repeated ({account.repeated / jobs:.2%}; {_done_twice(account)} of them were done),"
        f" {account.dead.total() - len(account.wrongly_dead)} rightly dead"
    )


if __name__ == "__main__":
    sys.exit(main())
