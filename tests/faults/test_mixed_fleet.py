"""Workers of the released engine in our group, killed all the time beside ours: nothing is lost, and nothing stolen."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.engines import CLOCK, Engine, await_that
from tests.interop.conftest import ours, redis, released, stage
from tests.interop.test_fleet import LEASE_MS, fleet

if TYPE_CHECKING:
    from tests.stage import Stage

__all__ = ["ours", "redis", "released", "stage"]

KILLS, SLOTS = 6, 5


@pytest.mark.slow
def test_fault_37_a_mixed_fleet_under_kills_steals_no_renewed_job_and_keeps_names(
    stage: Stage, ours: Engine, released: Engine
) -> None:
    """Long jobs run on a worker of ours that lives; everybody else is killed and replaced meanwhile."""
    plan = random.Random(37)
    with ExitStack() as stack:
        queue = stack.enter_context(stage.queue(released))
        stack.enter_context(stage.worker(ours, concurrency=SLOTS, claim_min_idle_ms=LEASE_MS))
        long = [{"name": "long", "data": {"do": [["sleep", 5 * LEASE_MS / 1000]]}} for _ in range(SLOTS)]
        added = {job["id"]: job["name"] for job in queue.add_bulk(long)}
        longest = set(added)
        await_that(lambda: len(stage.ledger.starts()) == SLOTS, "the long ones have begun")
        workers = fleet(stack, stage, [ours, released, released], concurrency=SLOTS)
        short = [{"name": f"short-{n % 3}", "data": {"do": [["sleep", 0.02]]}} for n in range(400)]
        added |= {job["id"]: job["name"] for job in queue.add_bulk(short)}
        for turn in range(KILLS):
            CLOCK.pause(plan.uniform(0.3, 0.6))
            workers.replace(turn % 3)
        stage.await_end(added, 60)
    stage.settle(added, extra_runs=KILLS * SLOTS)
    assert {stage.ledger.starts()[job_id] for job_id in longest} == {1}, "a renewed job was stolen"
    assert {run.id: run.name for run in stage.ledger.runs()} == added
    assert {run.attempt for run in stage.ledger.runs()} == {0}
