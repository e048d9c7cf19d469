"""A migration while producers produce and consumers consume, with the mover killed again and again: the engine's in a
process of its own, and the command line.

Every message is accounted for: consumed where it was, or moved, and never both. How many there are is said by
CHASQUI_MIGRATION_MESSAGES; `make migration` takes 12,000.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from chasqui import foreign
from chasqui.clock import SystemClock
from chasqui.foreign import JobListKeys, RsmqKeys, joblist, rsmq
from chasqui.foreign.joblist import JobListOptions
from chasqui.foreign.rsmq import Draft
from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.foreign.conftest import ForeignServer
from tests.foreign.test_migration import Road
from tests.support.links import command
from tests.support.servers.binaries import KINDS, Kind
from tests.support.servers.server import Server, start_server

ROOT = Path(__file__).parents[2]
CLOCK = SystemClock()
MESSAGES = int(os.environ.get("CHASQUI_MIGRATION_MESSAGES", "1500"))
PRODUCERS, BATCH = 3, 10
HELD = 30
HOLD_MS = 1500


@dataclass(slots=True)
class Account:
    """What happened to whom, written down by threads."""

    sent: list[str] = field(default_factory=list)
    consumed: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, book: list[str], ids: list[str]) -> None:
        with self.lock:
            book.extend(ids)


class Traffic(Protocol):
    kind: str
    source: Any

    def produce(self, link: Link, number: int) -> list[str]: ...
    def consume(self, link: Link) -> list[str]: ...
    def hold(self, link: Link, account: Account, over: threading.Event) -> None: ...


@dataclass(slots=True)
class RsmqTraffic:
    source: RsmqKeys
    kind: str = "rsmq"

    def produce(self, link: Link, number: int) -> list[str]:
        delay_ms = 3_600_000 if number % 4 == 0 else None
        return link.run(rsmq.send_many(self.source, [Draft(f"{number}", delay_ms)] * BATCH))

    def consume(self, link: Link) -> list[str]:
        message = link.run(rsmq.receive(self.source, vt_ms=60_000))
        return [message.id] if message and link.run(rsmq.delete(self.source, message.id)) else []

    def hold(self, link: Link, account: Account, over: threading.Event) -> None:
        """Receive some and never come back: they may move, but not before they are visible again."""
        while len(account.held) < HELD and not over.is_set():
            for message in link.run(rsmq.receive_many(self.source, HELD, vt_ms=HOLD_MS)):
                account.note(account.held, [message.id])


@dataclass(slots=True)
class JobListTraffic:
    source: JobListKeys
    kind: str = "joblist"

    def produce(self, link: Link, number: int) -> list[str]:
        jobs = [(f"{random.getrandbits(64):016x}", number) for _ in range(BATCH)]
        return link.run(joblist.enqueue_many(self.source, list(jobs), now_ms=CLOCK.now_ms()))

    def consume(self, link: Link) -> list[str]:
        claim = link.run(joblist.claim(self.source, block_ms=100, now_ms=CLOCK.now_ms()))
        if claim is None:
            return []
        options = JobListOptions(ttl_s=3600, history=100_000)
        flow = joblist.complete(self.source, claim.id, claim.token, None, now_ms=CLOCK.now_ms(), options=options)
        return [claim.id] if link.run(flow) else []

    def hold(self, link: Link, account: Account, over: threading.Event) -> None:
        """Without a visibility a claim never expires: the worker completes what it holds at the end."""


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves the messages, as a process to be killed. It prints a line before it begins.

    pace_s: how long producers rest between batches, so that many movers have something to do.
    """

    words: Callable[[Traffic, str, tuple[str, str]], list[str]]
    pace_s: float
    home: Path

    @contextmanager
    def running(self, traffic: Traffic, target: str, urls: tuple[str, str]) -> Iterator[None]:
        process = self._start(self.words(traffic, target, urls), subprocess.STDOUT)
        try:
            assert process.stdout
            assert process.stdout.readline()
            yield
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def last(self, traffic: Traffic, target: str, urls: tuple[str, str]) -> dict[str, int]:
        """Run the command line once more, to its end; answers what is left."""
        words = [word for word in _by_hand(traffic, target, urls) if word != "--follow"]
        process = self._start([*words, "-o", "json"], subprocess.DEVNULL)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        left: dict[str, int] = json.loads(output)["after"]
        return left

    def _start(self, words: list[str], remarks: int) -> subprocess.Popen[bytes]:
        surroundings = {**os.environ, "HOME": str(self.home), "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}"}
        return subprocess.Popen(
            [sys.executable, "-m", *words], cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, stderr=remarks
        )


def _by_engine(traffic: Traffic, target: str, urls: tuple[str, str]) -> list[str]:
    space = getattr(traffic.source, "namespace", "-")
    return [
        "tests.support.processes.migration_process",
        traffic.kind,
        traffic.source.queue,
        space,
        target,
        *urls,
    ]


def _by_hand(traffic: Traffic, target: str, urls: tuple[str, str]) -> list[str]:
    space = f"{traffic.source.namespace}/" if traffic.kind == "rsmq" else ""
    far = ["--to-url", urls[1]] if urls[1] != urls[0] else []
    source = f"{traffic.kind}://{space}{traffic.source.queue}"
    return ["chasqui_cli", "migrate", source, f"chasqui://{target}", "--follow", "--yes", "-u", urls[0], *far]


def _threads(server: Server, *jobs: Callable[[Link], None]) -> list[threading.Thread]:
    def with_link(job: Callable[[Link], None]) -> None:
        with Link.open(server.url) as link:
            job(link)

    threads = [threading.Thread(target=with_link, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["rsmq", "joblist"])
@pytest.mark.parametrize("far", [False, True], ids=["same server", "another server"])
@pytest.mark.parametrize("by", ["engine", "command line"])
def test_nothing_is_lost_and_nothing_doubled(
    servers: Any,
    queue: str,
    kind: str,
    far: bool,
    by: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    mover = Mover(_by_engine, 0.02, tmp_path) if by == "engine" else Mover(_by_hand, 0.05, tmp_path)
    home: Kind = KINDS[0] if kind == "rsmq" else KINDS[-1]
    server = servers.get(home)
    with start_server("redis-7.0") as other, Link.open(server.url) as link, Link.open(other.url) as there:
        traffic: Traffic = (
            RsmqTraffic(RsmqKeys("orders", queue)) if kind == "rsmq" else JobListTraffic(JobListKeys(queue))
        )
        if kind == "rsmq":
            link.run(rsmq.create_queue(traffic.source))
        account = Account()
        urls = (server.url, other.url if far else server.url)
        kills, caught = _storm(link, server, traffic, account, mover, queue, urls)
        road = Road(ForeignServer(link, queue), there if far else link, far=far)
        alive = len(road.arrived())
        while True:
            left = mover.last(traffic, queue, urls)
            if not any(left[name] for name in ("ready", "delayed", "held", "parked")):
                break
            CLOCK.sleep_sync(0.05)
        _settle(account, road)
        where = "far" if far else "near"
        record_property(f"migration {kind} {where} by {by} kills", kills)
        moved = len(road.arrived())
        print(
            f"{kind} {where} by {by}: {len(account.sent)} sent, {len(account.consumed)} consumed, {moved} moved "
            f"({alive} by those that were killed), {kills} kills, {caught} with messages set aside: 0 lost, 0 doubled"
        )
        assert kills >= 3
        assert alive, "whatever was killed had moved nothing, so this proves nothing"
        assert link.run(command("EXISTS", traffic.source.in_migration)) == 0


def _storm(
    link: Link,
    server: Server,
    traffic: Traffic,
    account: Account,
    mover: Mover,
    target: str,
    urls: tuple[str, str],
) -> tuple[int, int]:
    """Producers, consumers and holders at work, and movers that die young; answers how many did, and how many of
    them while messages were on their way.
    """
    over = threading.Event()

    def produce(link: Link) -> None:
        for number in range(MESSAGES // PRODUCERS // BATCH):
            account.note(account.sent, traffic.produce(link, number))
            CLOCK.sleep_sync(mover.pace_s)

    def consume(link: Link) -> None:
        while not over.is_set():
            ids = traffic.consume(link)
            account.note(account.consumed, ids)
            CLOCK.sleep_sync(0.004 if ids else 0.02)

    producers = _threads(server, *[produce] * PRODUCERS)
    others = _threads(server, consume, lambda link: traffic.hold(link, account, over))
    kills = caught = 0
    chance = random.Random(7)
    while any(thread.is_alive() for thread in producers) or kills < 3:
        with mover.running(traffic, target, urls):
            CLOCK.sleep_sync(chance.uniform(0.0, 0.3))
        kills += 1
        caught += link.run(command("EXISTS", traffic.source.in_migration))
    over.set()
    for thread in (*producers, *others):
        thread.join()
    return kills, caught


def _settle(account: Account, road: Road) -> None:
    moved = Counter(road.arrived())
    consumed = Counter(account.consumed)
    assert len(account.sent) == MESSAGES // PRODUCERS // BATCH * PRODUCERS * BATCH
    assert not [one for one, count in moved.items() if count > 1], "moved twice"
    assert not [one for one, count in consumed.items() if count > 1], "consumed twice"
    assert not moved.keys() & consumed.keys(), "consumed and moved"
    assert set(account.sent) == moved.keys() | consumed.keys(), "lost, or made up"
    assert moved, "everything was consumed, so this proves nothing"
    assert consumed, "nothing was consumed, so this proves nothing"
    if account.held:
        attempts = {job.id: job.attempt for job in road.stream()}
        assert all(attempts[one] >= 1 for one in set(account.held) & attempts.keys())


def test_what_is_held_moves_only_when_it_is_visible_again(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    foreign_server.run(rsmq.send(foreign_server.rsmq, "x"))
    received = foreign_server.run(rsmq.receive(foreign_server.rsmq, vt_ms=700))
    assert received is not None
    moved_at: list[int] = []

    def keep_on(report: foreign.MigrationReport) -> bool:
        if report.moved:
            moved_at.append(foreign_server.now_ms())
        return not report.moved

    way = foreign.Migration(foreign_server.link, foreign_server.rsmq, Keys(foreign_server.name))
    way.run(should_continue=keep_on, poll_s=0.02)
    assert 0 <= moved_at[0] - received.visible_at_ms < 5000
