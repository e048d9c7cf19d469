"""Workers of both engines in one group: who dies, who leads and who promotes may change; the jobs do not notice."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.support.processes.engines import CLOCK, Engine, EngineProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.conftest import EnginePair
    from tests.support.faults.scenario import FaultScenario

LEASE_MS = 1000
JOBS = 1000
KILLS = 8


class Fleet:
    """Two workers of each engine; one that dies is replaced by another of the same kind."""

    def __init__(self, stage: FaultScenario, engines: list[Engine], **options: Any) -> None:
        self._stage, self._options = stage, options
        self.members = [(engine, self._start(engine)) for engine in engines]

    def _start(self, engine: Engine) -> EngineProcess:
        return self._stage.start_worker(engine, claim_min_idle_ms=LEASE_MS, **self._options)

    def replace(self, place: int, *, gently: bool = False) -> None:
        engine, process = self.members[place]
        if gently:
            process.stop()
        process.end()
        self.members[place] = (engine, self._start(engine))

    def end(self) -> None:
        for _, process in self.members:
            process.end()


def fleet(stack: ExitStack, stage: FaultScenario, engines: list[Engine], **options: Any) -> Fleet:
    made = Fleet(stage, engines, **options)
    stack.callback(made.end)
    return made


def test_a_mixed_fleet_under_kills_loses_nothing_and_keeps_names_and_attempts(
    scenario: FaultScenario, own_engine: Engine, reference_engine: Engine
) -> None:
    plan = random.Random(7)
    with ExitStack() as stack:
        workers = fleet(stack, scenario, [own_engine, reference_engine, own_engine, reference_engine], concurrency=5)
        added: dict[str, str] = {}
        for engine in (own_engine, reference_engine):
            queue = stack.enter_context(scenario.queue(engine))
            jobs = [{"name": f"{engine.package}-{i % 3}", "data": {"do": [["sleep", 0.02]]}} for i in range(JOBS)]
            added |= {job["id"]: job["name"] for job in queue.add_bulk(jobs)}
        for _ in range(KILLS):
            CLOCK.sleep_sync(plan.uniform(0.2, 0.5))
            workers.replace(plan.randrange(4))
        scenario.await_end(added, 60)
    # a killed worker of either engine may have finished up to its concurrency of jobs without reporting it
    scenario.check_accounts(added, extra_runs=KILLS * 5)
    assert {run.id: run.name for run in scenario.ledger.runs()} == added
    assert {run.attempt for run in scenario.ledger.runs()} == {0}


def test_a_long_job_of_ours_is_not_stolen_by_the_released_engine(
    scenario: FaultScenario, own_engine: Engine, reference_engine: Engine
) -> None:
    with (
        scenario.queue(reference_engine) as queue,
        scenario.worker(own_engine, concurrency=10, claim_min_idle_ms=LEASE_MS),
    ):
        jobs = [{"name": "long", "data": {"do": [["sleep", 4 * LEASE_MS / 1000]]}} for _ in range(10)]
        ids = [job["id"] for job in queue.add_bulk(jobs)]
        wait_until(lambda: len(scenario.ledger.starts()) == 10, "all have begun")
        with scenario.worker(reference_engine, concurrency=10, claim_min_idle_ms=LEASE_MS):
            scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert set(scenario.ledger.starts().values()) == {1}


def test_a_job_left_by_a_dead_worker_of_one_engine_is_taken_by_the_other(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    gate = scenario.directory / "gate"
    with (
        scenario.queue(engine_pair.first) as queue,
        scenario.worker(engine_pair.first, concurrency=10) as doomed,
    ):
        ids = [job["id"] for job in queue.add_bulk([{"name": "n", "data": {"do": [["await_file", str(gate)]]}}] * 10)]
        wait_until(lambda: len(scenario.ledger.starts()) == 10, "all have begun")
        doomed.kill()
        gate.touch()
        with scenario.worker(engine_pair.second, claim_min_idle_ms=LEASE_MS):
            took = scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert took < LEASE_MS / 1000 + 2
    assert set(scenario.ledger.starts().values()) == {2}


def _delayed(count: int, prefix: str) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "name": prefix,
            "data": {"i": number},
            "job_id": f"{prefix}-{number}" if number % 2 else None,
            "delay_ms": 100 + number * 5,
        }


def test_a_mixed_fleet_promotes_each_delayed_job_once(
    scenario: FaultScenario, own_engine: Engine, reference_engine: Engine
) -> None:
    with ExitStack() as stack:
        added: list[str] = []
        for engine in (own_engine, reference_engine):
            queue = stack.enter_context(scenario.queue(engine))
            added += [job["id"] for job in queue.add_bulk(list(_delayed(500, engine.package)))]
        workers = fleet(stack, scenario, [own_engine, reference_engine], concurrency=10)
        for turn in range(6):  # the leader hands over, in turn
            CLOCK.sleep_sync(0.3)
            workers.replace(turn % 2, gently=True)
        scenario.await_end(added, 30)
    scenario.check_accounts(added)
    assert set(scenario.ledger.starts().values()) == {1}
