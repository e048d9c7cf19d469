"""A great many dead letters, and what must hold for them whatever their number; sizes are the tests' to choose."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from chasqui.clock import SystemClock
from chasqui.server.link import Link
from tests.support.cli.subprocess_cli import CommandResult, SubprocessCli
from tests.support.seeds.dead_letters import GARBAGE, DeadLetterSeeder, dead_letter_fields

CLOCK = SystemClock()
REASONS = ("retries_exhausted", "unrecoverable", "stalled")
VIP = "data.kind == 'vip'"


def numbered_dead_letter(number: int) -> list[bytes]:
    """One in a hundred cannot be decoded; one in ten is for a vip."""
    if number % 100 == 7:
        return dead_letter_fields("", d=GARBAGE + b"%d" % number, reason="decode_failed", name="")
    data = {
        "to": f"user{number % 50}@example.org",
        "n": number,
        "kind": "vip" if number % 10 == 0 else "usual",
    }
    return dead_letter_fields(
        f"job-{number:06d}",
        data,
        name=("mail", "charge")[number % 2],
        reason=REASONS[number % 3],
        detail=f"timeout after {number} ms at host-{number % 7}" if number % 2 else None,
    )


@dataclass(frozen=True, slots=True)
class ManyDeadLetters:
    """`size` dead letters on a server, and a shell to work on them."""

    seeder: DeadLetterSeeder
    shell: SubprocessCli
    url: str
    size: int

    def seed(self) -> list[str]:
        return self.seeder.add_dead_letters(map(numbered_dead_letter, range(self.size)))

    def __call__(self, *words: str) -> CommandResult:
        return self.shell("dlq", words[0], self.seeder.queue, *words[1:], "-u", self.url)

    def cost(self, *words: str) -> tuple[CommandResult, float, float]:
        """How it ended, and the seconds it took: by the wall, and of this machine's processor."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
        ended = self(*words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return ended, perf_counter() - began, cpu

    @contextmanager
    def others_writing(self) -> Iterator[list[str]]:
        """Dead letters that match the filter keep arriving, and jobs are added."""
        stop, written = threading.Event(), list[str]()

        def write() -> None:
            with Link.open(self.url) as link:
                seeder = DeadLetterSeeder(link, self.seeder.keys)
                while not stop.wait(0.002):
                    written.append(seeder.add_dead_letter(f"late-{len(written)}", {"kind": "vip"}, reason="stalled"))
                    seeder.command("XADD", seeder.keys.stream, "*", "d", "x")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield written
        finally:
            stop.set()
            writer.join()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "chasqui_cli",
                "dlq",
                words[0],
                self.seeder.queue,
                *words[1:],
                "-u",
                self.url,
            ],
            env=self.shell.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def check_groups(crowd: ManyDeadLetters) -> None:
    crowd.seed()
    ended = crowd("groups", "-o", "json")
    counts = Counter[str]()
    for group in ended.json:
        counts[group["reason"]] += group["count"]
        assert group["error"] in ("", "timeout after <n> ms at <id>"), group
    expected = Counter("decode_failed" if number % 100 == 7 else REASONS[number % 3] for number in range(crowd.size))
    assert counts == expected


def check_that_exactly_what_was_shown_is_replayed(crowd: ManyDeadLetters) -> None:
    """Under writers: what a dry run names is what is then replayed, and what arrives during a run is left alone."""
    ids = crowd.seed()
    vips = {ids[number] for number in range(0, crowd.size, 10)}
    words = ("replay", "--where", VIP, "--limit", "1000000", "-o", "name")
    until = ("--until", f"@{ids[-1]}")
    with crowd.others_writing() as written:
        dry = crowd(*words, *until, "--dry-run").out.split()
        done = crowd(*words, *until, "--yes")
        assert done.code == 0, done.err
        assert set(done.out.split()) == set(dry)
        assert set(dry) - set(written) == vips
        paced = crowd(*words, "--yes", "--rps", "100", "--limit", "100")
        assert len(paced.out.split()) == 100
    assert written
    left = set(crowd.seeder.dead_ids())
    acted = {*done.out.split(), *paced.out.split()}
    assert left == (set(ids) | set(written)) - acted, "something else than what was named was touched"


def check_that_a_kill_loses_and_doubles_nothing(crowd: ManyDeadLetters) -> None:
    crowd.seed()
    before = sorted(fields for _, fields in crowd.seeder.dead_letters())
    unreadable = sum(number % 100 == 7 for number in range(crowd.size))
    words = ("replay", "--limit", "1000000", "--yes", "-q")
    killed = 0
    for part in (0.2, 0.5, 0.8):
        process = crowd.start(*words)
        while process.poll() is None and crowd.seeder.command("XLEN", crowd.seeder.keys.stream) < part * crowd.size:
            CLOCK.sleep_sync(0.001)
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert killed, "none was caught at work, so this proves nothing"
    assert crowd(*words).code == 0
    jobs = Counter(crowd.seeder.job_ids())
    assert len(jobs) == crowd.size - unreadable
    assert set(jobs.values()) == {1}, "doubled"
    assert len(crowd.seeder.dead_letters()) == unreadable
    for op in crowd.shell("log", "-o", "name").out.split():
        undone = crowd.shell("undo", op, "--yes", "-q", "-u", crowd.url, "-o", "jsonl")
        assert undone.code == 0, undone.err
    assert crowd.seeder.jobs() == []
    assert sorted(fields for _, fields in crowd.seeder.dead_letters()) == before


def rate_of(crowd: ManyDeadLetters, count: int, rps: int) -> float:
    """Jobs a second, as the server dated them."""
    crowd("replay", "--limit", str(count), "--rps", str(rps), "--yes", "-q")
    rows = crowd.seeder.command("XRANGE", crowd.seeder.keys.stream, "-", "+")
    times = [int(row[0].split(b"-")[0]) for row in rows]
    batch = max(1, rps // 50)
    return (len(times) - batch) / ((times[-1] - times[0]) / 1000)
