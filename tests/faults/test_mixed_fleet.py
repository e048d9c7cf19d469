"""Workers of the released engine in our group, killed all the time next to ours: nothing is lost, and nothing stolen."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.interop.conftest import own_engine, redis, reference_engine, scenario
from tests.interop.test_worker_fleet import LEASE_MS, fleet
from tests.support.processes.engines import CLOCK, Engine, wait_until

if TYPE_CHECKING:
    from tests.support.faults.scenario import FaultScenario

__all__ = ["own_engine", "redis", "reference_engine", "scenario"]

KILLS, SLOTS = 6, 5


@pytest.mark.slow
def test_fault_37_a_mixed_fleet_under_kills_steals_no_renewed_job_and_keeps_names(
    scenario: FaultScenario, own_engine: Engine, reference_engine: Engine
) -> None:
    """Long jobs run on a worker of ours that lives; everybody else is killed and replaced meanwhile."""
    plan = random.Random(37)
    with ExitStack() as stack:
        queue = stack.enter_context(scenario.queue(reference_engine))
        stack.enter_context(scenario.worker(own_engine, concurrency=SLOTS, claim_min_idle_ms=LEASE_MS))
        long = [{"name": "long", "data": {"do": [["sleep", 5 * LEASE_MS / 1000]]}} for _ in range(SLOTS)]
        added = {job["id"]: job["name"] for job in queue.add_bulk(long)}
        longest = set(added)
        wait_until(lambda: len(scenario.ledger.starts()) == SLOTS, "the long ones have begun")
        workers = fleet(stack, scenario, [own_engine, reference_engine, reference_engine], concurrency=SLOTS)
        short = [{"name": f"short-{n % 3}", "data": {"do": [["sleep", 0.02]]}} for n in range(400)]
        added |= {job["id"]: job["name"] for job in queue.add_bulk(short)}
        for turn in range(KILLS):
            CLOCK.sleep_sync(plan.uniform(0.3, 0.6))
            workers.replace(turn % 3)
        scenario.await_end(added, 60)
    scenario.check_accounts(added, extra_runs=KILLS * SLOTS)
    assert {scenario.ledger.starts()[job_id] for job_id in longest} == {1}, "a renewed job was stolen"
    assert {run.id: run.name for run in scenario.ledger.runs()} == added
    assert {run.attempt for run in scenario.ledger.runs()} == {0}
