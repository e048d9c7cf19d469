"""A worker of a list job queue: nothing is lost, live jobs run once, and dead workers' jobs run again."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.clock import SystemClock
from chasqui.foreign import joblist
from chasqui.foreign.joblist import JobClaim, JobListOptions, JobListWorker
from chasqui.server.link import AsyncLink, Link
from chasqui.server.scripts import script_sha
from tests.foreign.conftest import ForeignServer
from tests.support.clocks import SkewedClock, eventually
from tests.support.faults.proxy import CutReply, proxy_to
from tests.support.processes.engines import wait_until
from tests.support.processes.joblist_worker_process import CONCURRENCY
from tests.support.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[2]
CLOCK = SystemClock()
QUICK = JobListOptions(visibility_ms=300, max_attempts=2)


@asynccontextmanager
async def working(foreign_server: ForeignServer, handler: Any, **options: Any) -> AsyncIterator[JobListWorker]:
    stop = asyncio.Event()
    async with AsyncLink.open(foreign_server.link.address) as link:
        words: dict[str, Any] = {"options": QUICK, "block_ms": 100} | options
        worker = JobListWorker(link, foreign_server.jobs, handler, **words)
        run = asyncio.ensure_future(worker.run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await run


def add(foreign_server: ForeignServer, *payloads: Any) -> list[str]:
    return [
        foreign_server.run(joblist.enqueue(foreign_server.jobs, payload, now_ms=foreign_server.now_ms()))
        for payload in payloads
    ]


async def test_jobs_are_completed_with_their_results_and_failed_with_their_errors(
    foreign_server: ForeignServer,
) -> None:
    good, bad = add(foreign_server, {"n": 1}, {"n": -1})

    def handler(claim: JobClaim) -> Any:
        if claim.payload["n"] < 0:
            raise ValueError("negative")
        return {"twice": claim.payload["n"] * 2}

    async with working(foreign_server, handler) as worker:
        await eventually(lambda: worker.total("completed") == 1 and worker.total("failed") == 1)
    done, failed = (
        foreign_server.run(joblist.read_job(foreign_server.jobs, good)),
        foreign_server.run(joblist.read_job(foreign_server.jobs, bad)),
    )
    assert done is not None
    assert failed is not None
    assert done.value("result") == {"twice": 2}
    assert (failed.text("last_error"), failed.number("attempts")) == ("ValueError: negative", 2)
    assert worker.total("retry") == 1


@pytest.mark.parametrize("kind", ["awaits", "blocks a thread", "blocks the event loop"])
async def test_a_job_that_takes_longer_than_the_visibility_runs_once(foreign_server: ForeignServer, kind: str) -> None:
    """Its claim is renewed, so neither our reclaimers nor the guide's sweep takes it."""
    runs: list[str] = []

    async def awaits(claim: JobClaim) -> None:
        runs.append(claim.id)
        if kind == "awaits":
            await CLOCK.sleep(1.2)
        else:
            CLOCK.sleep_sync(1.2)

    def blocks(claim: JobClaim) -> None:
        runs.append(claim.id)
        CLOCK.sleep_sync(1.2)

    [job_id] = add(foreign_server, "slow")
    handler = blocks if kind == "blocks a thread" else awaits
    reclaimed: list[str] = []
    async with working(foreign_server, handler) as worker, working(foreign_server, handler) as other:
        while not worker.total("completed") + other.total("completed"):
            reclaimed += foreign_server.run(joblist.reclaim(foreign_server.jobs, options=QUICK)).moved
            await CLOCK.sleep(0.02)
    assert (runs, reclaimed) == ([job_id], [])


async def test_what_a_dead_worker_left_runs_again_also_when_it_never_signed(
    foreign_server: ForeignServer,
) -> None:
    signed, unsigned = add(foreign_server, "signed", "unsigned")
    assert foreign_server.run(joblist.claim(foreign_server.jobs, block_ms=100, now_ms=foreign_server.now_ms()))
    foreign_server.command("LMOVE", foreign_server.jobs.pending, foreign_server.jobs.processing, "RIGHT", "LEFT")
    runs: Counter[str] = Counter()

    async def handler(claim: JobClaim) -> None:
        runs[claim.id] += 1

    async with working(foreign_server, handler) as worker:
        await eventually(lambda: worker.total("completed") == 2)
    assert runs == {signed: 1, unsigned: 1}
    assert worker.total("reclaimed") == 2


@pytest.mark.parametrize("wrong_by_ms", [-3_600_000, 3_600_000])
async def test_a_wrong_clock_takes_no_job_from_anyone(foreign_server: ForeignServer, wrong_by_ms: int) -> None:
    runs: Counter[str] = Counter()

    async def handler(claim: JobClaim) -> None:
        runs[claim.id] += 1
        await CLOCK.sleep(0.7)

    job_ids = add(foreign_server, *range(4))
    async with (
        working(foreign_server, handler, clock=SkewedClock(wrong_by_ms), concurrency=2) as worker,
        working(foreign_server, handler, concurrency=2) as other,
    ):
        await eventually(lambda: worker.total("completed") + other.total("completed") == 4)
    assert runs == dict.fromkeys(job_ids, 1)


async def test_many_jobs_on_several_workers_run_once_each(foreign_server: ForeignServer) -> None:
    runs: Counter[str] = Counter()

    async def handler(claim: JobClaim) -> None:
        runs[claim.id] += 1

    job_ids = add(foreign_server, *range(100))
    async with (
        working(foreign_server, handler, concurrency=4) as worker,
        working(foreign_server, handler, concurrency=4) as other,
    ):
        await eventually(lambda: worker.total("completed") + other.total("completed") == 100)
    assert runs == dict.fromkeys(job_ids, 1)
    depths = foreign_server.run(joblist.read_depths(foreign_server.jobs))
    assert (depths.pending, depths.processing) == (0, 0)


async def test_a_job_that_cannot_be_judged_is_reported_and_the_rest_goes_on(
    foreign_server: ForeignServer,
) -> None:
    [odd] = add(foreign_server, "odd")
    foreign_server.command("LMOVE", foreign_server.jobs.pending, foreign_server.jobs.processing, "RIGHT", "LEFT")
    foreign_server.command("HSET", foreign_server.jobs.job(odd), "claimed_at_ms", "soon")
    add(foreign_server, "fine")

    async def handler(_: JobClaim) -> None:
        return None

    async with working(foreign_server, handler) as worker:
        await eventually(lambda: worker.total("completed") == 1)
        await eventually(lambda: any(odd in note for state in worker.loop_states for note in state.notes))


async def test_lost_replies_neither_lose_a_job_nor_run_it_twice(any_server: Server, queue: str) -> None:
    """A take or a signature whose reply is lost is reclaimed before it ran; a completion is found to be done."""
    options = JobListOptions(visibility_ms=1500, history=1000)
    chance = random.Random(3)
    runs: Counter[str] = Counter()

    async def handler(claim: JobClaim) -> None:
        runs[claim.id] += 1

    with Link.open(any_server.url) as link, proxy_to(any_server.socket) as proxy:
        foreign_server = ForeignServer(link, queue)
        job_ids = add(foreign_server, *range(60))
        async with AsyncLink.open(proxy.url) as shaky:
            worker = JobListWorker(shaky, foreign_server.jobs, handler, options=options, concurrency=3, block_ms=100)
            stop = asyncio.Event()
            run = asyncio.ensure_future(worker.run(stop))
            await eventually(lambda: worker.total("completed") > 0)
            proxy.mischief = lambda: chance.random() < 0.1
            await eventually(
                lambda: len(link.run(joblist.list_ids(foreign_server.jobs, "completed", limit=99))) == 60, 60
            )
            proxy.mischief = lambda: False
            stop.set()
            await run
        assert runs == dict.fromkeys(job_ids, 1)
        assert sorted(link.run(joblist.list_ids(foreign_server.jobs, "completed", limit=99))) == sorted(job_ids)
        assert link.run(joblist.read_depths(foreign_server.jobs)).processing == 0


@pytest.mark.parametrize(("max_attempts", "outcome"), [(2, "retry"), (1, "failed")])
async def test_a_failure_whose_reply_is_lost_is_counted_and_published(
    any_server: Server, queue: str, max_attempts: int, outcome: str
) -> None:
    def is_failure(request: bytes, _: bytes) -> bool:
        return script_sha("joblist/fail").encode() in request

    async def handler(claim: JobClaim) -> None:
        if claim.attempts == 1:
            raise ValueError("once")

    with Link.open(any_server.url) as link, proxy_to(any_server.socket) as proxy:
        foreign_server = ForeignServer(link, queue)
        proxy.cut = CutReply(0, is_failure)
        async with AsyncLink.open(proxy.url) as shaky, AsyncLink.open(any_server.url) as listener:
            options = JobListOptions(max_attempts=max_attempts)
            worker = JobListWorker(shaky, foreign_server.jobs, handler, options=options, block_ms=100)
            events = joblist.follow_events_async(listener, foreign_server.jobs)
            first = asyncio.ensure_future(anext(events))
            await eventually(lambda: foreign_server.command("PUBSUB", "NUMSUB", foreign_server.jobs.events)[1] == 1)
            [job_id] = add(foreign_server, "x")
            stop = asyncio.Event()
            run = asyncio.ensure_future(worker.run(stop))
            event = await asyncio.wait_for(first, 20)
            await eventually(lambda: worker.total(outcome) == 1)
            stop.set()
            await run
    assert proxy.cut.happened
    assert (event.id, event.status) == (job_id, outcome)
    assert worker.total("lost") == 0


def test_killed_workers_lose_no_job_and_repeat_only_what_they_had_in_hand(
    any_server: Server, queue: str, tmp_path: Path
) -> None:
    ledger, kills = tmp_path / "ledger", 0
    with Link.open(any_server.url) as link:
        foreign_server = ForeignServer(link, queue)
        job_ids = add(foreign_server, *range(400))
        steady = _start(any_server.url, queue, ledger)
        try:
            while link.run(joblist.read_depths(foreign_server.jobs)).completed < 400:
                mortal = _start(any_server.url, queue, ledger)
                before = len(_noted(ledger, "start"))
                wait_until(
                    lambda before=before: (
                        len(_noted(ledger, "start")) > before + 30  # type: ignore[misc]
                        or link.run(joblist.read_depths(foreign_server.jobs)).completed == 400
                    ),
                    "they get on",
                )
                mortal.kill()
                mortal.wait()
                kills += 1
        finally:
            steady.kill()
            steady.wait()
        depths = link.run(joblist.read_depths(foreign_server.jobs))
    starts = Counter(_noted(ledger, "start"))
    assert (depths.pending, depths.processing) == (0, 0)
    assert set(_noted(ledger, "done")) == set(job_ids)
    assert starts.total() - 400 <= kills * CONCURRENCY, "more than the killed ones had in hand ran twice"
    assert kills >= 2


def _start(url: str, queue: str, ledger: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.joblist_worker_process", url, queue, str(ledger)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'engine'}"},
    )


def _noted(ledger: Path, word: str) -> list[str]:
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [line.split()[1] for line in lines if line.startswith(word)]
