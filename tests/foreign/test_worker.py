"""A worker of a list job queue: nothing is lost, live jobs run once, and dead workers' jobs run again."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.clock import SystemClock
from chasqui.foreign import joblist
from chasqui.foreign.joblist import Claim, JobListWorker, Options
from chasqui.server.link import AsyncLink
from tests.clocks import SkewedClock, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.foreign.conftest import Desk

CLOCK = SystemClock()
QUICK = Options(visibility_ms=300, max_attempts=2)


@asynccontextmanager
async def working(desk: Desk, handler: Any, **options: Any) -> AsyncIterator[JobListWorker]:
    stop = asyncio.Event()
    async with AsyncLink.open(desk.link.address) as link:
        words: dict[str, Any] = {"options": QUICK, "block_ms": 100} | options
        worker = JobListWorker(link, desk.jobs, handler, **words)
        run = asyncio.ensure_future(worker.run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await run


def add(desk: Desk, *payloads: Any) -> list[str]:
    return [desk.run(joblist.enqueue(desk.jobs, payload, now_ms=desk.now_ms())) for payload in payloads]


async def test_jobs_are_completed_with_their_results_and_failed_with_their_errors(desk: Desk) -> None:
    good, bad = add(desk, {"n": 1}, {"n": -1})

    def handler(claim: Claim) -> Any:
        if claim.payload["n"] < 0:
            raise ValueError("negative")
        return {"twice": claim.payload["n"] * 2}

    async with working(desk, handler) as worker:
        await eventually(lambda: worker.total("completed") == 1 and worker.total("failed") == 1)
    done, failed = desk.run(joblist.job(desk.jobs, good)), desk.run(joblist.job(desk.jobs, bad))
    assert done is not None
    assert failed is not None
    assert done.value("result") == {"twice": 2}
    assert (failed.text("last_error"), failed.number("attempts")) == ("ValueError: negative", 2)
    assert worker.total("retry") == 1


@pytest.mark.parametrize("kind", ["awaits", "blocks a thread", "blocks the event loop"])
async def test_a_job_that_takes_longer_than_the_visibility_runs_once(desk: Desk, kind: str) -> None:
    """Its claim is renewed, so neither our reclaimers nor the guide's sweep takes it."""
    runs: list[str] = []

    async def awaits(claim: Claim) -> None:
        runs.append(claim.id)
        if kind == "awaits":
            await CLOCK.sleep(1.2)
        else:
            CLOCK.pause(1.2)

    def blocks(claim: Claim) -> None:
        runs.append(claim.id)
        CLOCK.pause(1.2)

    [job_id] = add(desk, "slow")
    handler = blocks if kind == "blocks a thread" else awaits
    reclaimed: list[str] = []
    async with working(desk, handler) as worker, working(desk, handler) as other:
        while not worker.total("completed") + other.total("completed"):
            reclaimed += desk.run(joblist.reclaim(desk.jobs, options=QUICK)).moved
            await CLOCK.sleep(0.02)
    assert (runs, reclaimed) == ([job_id], [])


async def test_what_a_dead_worker_left_runs_again_also_when_it_never_signed(desk: Desk) -> None:
    signed, unsigned = add(desk, "signed", "unsigned")
    assert desk.run(joblist.claim(desk.jobs, block_ms=100, now_ms=desk.now_ms()))
    desk.say("LMOVE", desk.jobs.pending, desk.jobs.processing, "RIGHT", "LEFT")
    runs: Counter[str] = Counter()

    async def handler(claim: Claim) -> None:
        runs[claim.id] += 1

    async with working(desk, handler) as worker:
        await eventually(lambda: worker.total("completed") == 2)
    assert runs == {signed: 1, unsigned: 1}
    assert worker.total("reclaimed") == 2


@pytest.mark.parametrize("wrong_by_ms", [-3_600_000, 3_600_000])
async def test_a_wrong_clock_takes_no_job_from_anyone(desk: Desk, wrong_by_ms: int) -> None:
    runs: Counter[str] = Counter()

    async def handler(claim: Claim) -> None:
        runs[claim.id] += 1
        await CLOCK.sleep(0.7)

    job_ids = add(desk, *range(4))
    async with (
        working(desk, handler, clock=SkewedClock(wrong_by_ms), concurrency=2) as worker,
        working(desk, handler, concurrency=2) as other,
    ):
        await eventually(lambda: worker.total("completed") + other.total("completed") == 4)
    assert runs == dict.fromkeys(job_ids, 1)


async def test_many_jobs_on_several_workers_run_once_each(desk: Desk) -> None:
    runs: Counter[str] = Counter()

    async def handler(claim: Claim) -> None:
        runs[claim.id] += 1

    job_ids = add(desk, *range(100))
    async with (
        working(desk, handler, concurrency=4) as worker,
        working(desk, handler, concurrency=4) as other,
    ):
        await eventually(lambda: worker.total("completed") + other.total("completed") == 100)
    assert runs == dict.fromkeys(job_ids, 1)
    depths = desk.run(joblist.depths(desk.jobs))
    assert (depths.pending, depths.processing) == (0, 0)


async def test_a_job_that_cannot_be_judged_is_told_and_the_rest_goes_on(desk: Desk) -> None:
    [odd] = add(desk, "odd")
    desk.say("LMOVE", desk.jobs.pending, desk.jobs.processing, "RIGHT", "LEFT")
    desk.say("HSET", desk.jobs.job(odd), "claimed_at_ms", "soon")
    add(desk, "fine")

    async def handler(_: Claim) -> None:
        return None

    async with working(desk, handler) as worker:
        await eventually(lambda: worker.total("completed") == 1)
        await eventually(lambda: any(odd in note for state in worker.states for note in state.notes))
