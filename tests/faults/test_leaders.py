"""Leaders that die, freeze or never let go; and schedules that were missed: each window once, by its policy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import MissedFiresPolicy, RepeatPattern, SyncQueue
from chasqui.supervision.leader_lock import force_unlock
from tests.faults.conftest import add, everywhere
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.faults.scenario import FaultScenario
    from tests.support.processes.engines import EngineProcess

TTL_S = 5


def _windows(stage: FaultScenario, key: str, first_ms: int, interval_ms: int) -> float:
    next_ms = int(float(stage.bench.command("ZSCORE", stage.bench.keys.repeat, key)))
    return (next_ms - first_ms) / interval_ms


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["killed", "frozen"])
def test_fault_29_another_leads_within_the_lock_and_a_second_and_no_window_fires_twice(
    scenario: FaultScenario, queue_client: SyncQueue, fate: str, report_recovery: Callable[[float], None]
) -> None:
    catch_up = MissedFiresPolicy.fire_all(1000)
    key = queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200), missed_fires=catch_up).id
    first_ms = int(float(scenario.bench.command("ZSCORE", scenario.bench.keys.repeat, key)))
    with scenario.worker() as leader:
        wait_until(lambda: len(scenario.ledger.runs()) >= 3, "it leads")
        with scenario.worker() as heir:
            delayed = add(queue_client, count=20, delay_ms=1000)
            if fate == "killed":
                leader.kill()
            else:
                leader.freeze()
            took = wait_until(lambda: scenario.ledger.completed(delayed), "the delayed jobs run", 10)
            wait_until(lambda: any(run.pid == heir.pid for run in scenario.ledger.runs()), "the heir leads")
            if fate == "frozen":
                leader.resume()
                CLOCK.sleep_sync(1)
            for worker in (heir, leader):
                if worker.alive:
                    worker.stop()
    with scenario.worker(run_scheduler=False):
        wait_until(lambda: scenario.bench.command("XLEN", scenario.bench.keys.stream) == 0, "what was fired has run")
    ticks = [run for run in scenario.ledger.runs() if run.name == "tick"]
    fired = int(scenario.bench.command("HGET", scenario.bench.keys.repeat_spec(key), "fired"))
    assert fired == _windows(scenario, key, first_ms, 200)
    assert len({run.id for run in ticks}) == fired
    assert took <= TTL_S + 1
    report_recovery(took)


def test_fault_29_a_leader_that_is_asked_to_stop_is_followed_at_once(
    scenario: FaultScenario, queue_client: SyncQueue, report_recovery: Callable[[float], None]
) -> None:
    with scenario.worker() as leader:
        first = add(queue_client, delay_ms=50)
        wait_until(lambda: scenario.ledger.completed(first), "it leads")
        with scenario.worker():
            leader.stop()
            start = CLOCK.monotonic()
            then = add(queue_client, delay_ms=50)
            wait_until(lambda: scenario.ledger.completed(then), "another leads")
            took = CLOCK.monotonic() - start
    assert took <= 1
    report_recovery(took)


@pytest.mark.parametrize("role", ["promoter", "scheduler"])
def test_fault_29_a_lock_that_never_ends_is_reported_and_can_be_broken(
    scenario: FaultScenario, queue_client: SyncQueue, role: str, report_recovery: Callable[[float], None]
) -> None:
    keys = scenario.bench.keys
    lock = keys.promoter_lock if role == "promoter" else keys.scheduler_lock
    scenario.bench.command("SET", lock, "somebody long gone")
    queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200))
    with scenario.worker() as worker:
        delayed = add(queue_client, delay_ms=50)
        wait_until(lambda: _reports_the_lock(worker), "the lock is reported")
        other_works = "tick" if role == "promoter" else "job"
        wait_until(lambda: any(run.name == other_works for run in scenario.ledger.runs()), "the other one works")
        assert not any(run.name != other_works for run in scenario.ledger.runs())
        broken = scenario.bench.run(force_unlock(scenario.bench.commands, lock))
        assert broken
        assert broken.holder == b"somebody long gone"
        took = wait_until(
            lambda: scenario.ledger.completed(delayed) and any(r.name == "tick" for r in scenario.ledger.runs()),
            "both work",
        )
    assert took <= 2
    report_recovery(took)


def _reports_the_lock(worker: EngineProcess) -> bool:
    return "somebody long gone" in worker.stderr_text() and "never expires" in worker.stderr_text()


@pytest.mark.slow
def test_fault_31_an_interval_shorter_than_a_tick_fires_once_per_tick_at_least(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    for interval in (100, 300, 500, 900, 1000):
        queue_client.upsert_repeatable_job(f"every {interval}", {}, repeat=RepeatPattern.every(interval))
    with scenario.worker(scheduler_tick_ms=1000):
        wait_until(scenario.ledger.runs, "the first fires")
        CLOCK.sleep_sync(6)
    names = [run.name for run in scenario.ledger.runs()]
    for interval in (100, 300, 500, 900, 1000):
        assert 5 <= names.count(f"every {interval}") <= 7000 / interval


POLICIES: dict[str, tuple[Any, int]] = {
    "skip": (None, 0),
    "once": (MissedFiresPolicy.fire_once(), 1),
    "all": (MissedFiresPolicy.fire_all(100), 7),
    "all, at most three": (MissedFiresPolicy.fire_all(3), 3),
}


@everywhere
@pytest.mark.parametrize("policy", POLICIES)
def test_fault_31_after_an_outage_of_61_seconds_each_policy_fires_its_exact_number(
    scenario: FaultScenario, queue_client: SyncQueue, policy: str
) -> None:
    missed, expected = POLICIES[policy]
    bench = scenario.bench
    key = queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(10_000), missed_fires=missed).id
    due_ms = bench.now_ms() - 61_000  # as of a schedule that no scheduler has fired: seven windows have passed
    bench.command("ZADD", bench.keys.repeat, "XX", due_ms, key)
    with scenario.worker():
        wait_until(lambda: float(bench.command("ZSCORE", bench.keys.repeat, key)) > due_ms, "it was served")
        wait_until(lambda: len(scenario.ledger.completions()) == expected, "what it fired has run")
        CLOCK.sleep_sync(0.5)
    assert len(scenario.ledger.runs()) == expected
    assert float(bench.command("ZSCORE", bench.keys.repeat, key)) == due_ms + 70_000


@pytest.mark.slow
def test_fault_31_a_real_outage_of_61_seconds_is_made_up_for_by_each_policy(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    interval_ms = 10_000
    for policy, (missed, _) in POLICIES.items():
        repeat = RepeatPattern.every(interval_ms)
        queue_client.upsert_repeatable_job(policy, {}, repeat=repeat, missed_fires=missed)
    due = {policy: _due_ms(scenario, policy) for policy in POLICIES}
    CLOCK.sleep_sync((max(due.values()) - scenario.bench.now_ms()) / 1000 + 61)
    passed = {policy: (scenario.bench.now_ms() - at) // interval_ms + 1 for policy, at in due.items()}
    assert set(passed.values()) == {7}
    with scenario.worker():
        wait_until(lambda: min(map(partial(_due_ms, scenario), POLICIES)) > scenario.bench.now_ms(), "all are served")
        scenario.await_end([run.id for run in scenario.ledger.runs()])
        CLOCK.sleep_sync(0.5)
    fired = [run.name for run in scenario.ledger.runs()]
    assert {policy: fired.count(policy) for policy in POLICIES} == {
        policy: expected for policy, (_, expected) in POLICIES.items()
    }
    assert {policy: _due_ms(scenario, policy) for policy in POLICIES} == {
        policy: at + 7 * interval_ms for policy, at in due.items()
    }


def _due_ms(stage: FaultScenario, name: str) -> int:
    return int(float(stage.bench.command("ZSCORE", stage.bench.keys.repeat, f"{name}::every:10000")))
