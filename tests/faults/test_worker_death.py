"""Workers that die, freeze or are asked to stop: others run their jobs, once more at most, and no other job dies."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.conftest import LEASE_S, add, everywhere
from tests.support.faults.run_ledger import dead_letters, remaining_jobs
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from chasqui import SyncQueue
    from tests.support.faults.scenario import FaultScenario

IN_ONE_BREATH = 128
"""Handlers that never wait may end that many times before the loop comes round to acknowledge the first of them."""


@everywhere
def test_fault_01_jobs_of_a_killed_worker_run_again_within_the_lease_and_a_second(
    scenario: FaultScenario, queue_client: SyncQueue, report_recovery: Callable[[float], None]
) -> None:
    gate = scenario.directory / "gate"
    ids = add(queue_client, ["await_file", str(gate)], count=5)
    with scenario.worker(concurrency=5) as doomed:
        wait_until(lambda: len(scenario.ledger.starts()) == 5, "all have begun")
        with scenario.worker(concurrency=5):
            CLOCK.sleep_sync(LEASE_S)  # the second one must not touch what the first keeps alive
            assert set(scenario.ledger.starts().values()) == {1}
            doomed.kill()
            took = wait_until(lambda: set(scenario.ledger.starts().values()) == {2}, "all have begun again")
            gate.touch()
            scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert {run.attempt for run in scenario.ledger.runs()} == {0}, "a crash is not a failed attempt"
    assert took <= LEASE_S + 1
    report_recovery(took)


def _restart_until(stage: FaultScenario, done: Callable[[], bool], **options: Any) -> int:
    """What a supervisor does: whenever the worker dies another is started. Answers how many died."""
    deaths = 0
    with ExitStack() as stack:
        worker = stack.enter_context(stage.worker(**options))
        while not done():
            assert deaths < 30, "they die and die"
            if not worker.alive:
                deaths += 1
                worker = stack.enter_context(stage.worker(**options))
            CLOCK.sleep_sync(0.01)
        assert worker.alive
    return deaths


@everywhere
def test_fault_02_a_job_that_kills_its_worker_is_dead_as_crashed_after_three_starts(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    [poison] = add(queue_client, ["die"])
    deaths = _restart_until(
        scenario, lambda: bool(dead_letters(scenario.bench)), claim_min_idle_ms=300, heartbeat_ms=100
    )
    assert deaths == 3
    assert scenario.ledger.starts() == {poison: 3}
    assert [letter.reason for letter in dead_letters(scenario.bench)] == ["crashed"]
    scenario.check_accounts([poison], dead=[poison])


@pytest.mark.parametrize("concurrency", [1, 10])
def test_fault_03_bystanders_of_a_job_that_kills_its_worker_all_live(
    scenario: FaultScenario, queue_client: SyncQueue, concurrency: int
) -> None:
    good = add(queue_client, count=100)
    [poison] = add(queue_client, ["die"])
    good += add(queue_client, ["sleep", 0.01], count=100)

    def done() -> bool:
        return (
            scenario.ledger.completed(good)
            and bool(dead_letters(scenario.bench))
            and not any(remaining_jobs(scenario.bench).values())
        )

    deaths = _restart_until(scenario, done, concurrency=concurrency, claim_min_idle_ms=300, heartbeat_ms=100)
    assert deaths == 3
    scenario.check_accounts([*good, poison], dead=[poison], extra_runs=IN_ONE_BREATH + deaths * concurrency)


def _outcomes(stage: FaultScenario, job_id: str) -> list[str]:
    """The events of a job's end."""
    rows = stage.bench.command("XRANGE", stage.bench.keys.events, "-", "+")
    events = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in rows]
    ends = {b"completed", b"dlq", b"retry-scheduled"}
    return [event[b"e"].decode() for event in events if event[b"id"] == job_id.encode() and event[b"e"] in ends]


@everywhere
@pytest.mark.parametrize("action", ["succeed", "fail_if", "fail_unrecoverably_if"])
def test_fault_07_a_frozen_worker_that_wakes_up_late_changes_nothing(
    scenario: FaultScenario, queue_client: SyncQueue, action: str, report_recovery: Callable[[float], None]
) -> None:
    gate, spoiler = scenario.directory / "gate", scenario.directory / "spoiler"
    actions = [["await_file", str(gate)]] + ([] if action == "succeed" else [[action, str(spoiler)]])
    [job] = add(queue_client, *actions)
    with scenario.worker() as stale:
        wait_until(lambda: scenario.ledger.runs(job), "it has begun")
        stale.freeze()
        with scenario.worker():
            took = wait_until(lambda: len(scenario.ledger.runs(job)) == 2, "another took it")
            gate.touch()
            wait_until(lambda: "completed" in _outcomes(scenario, job), "it is done")
            spoiler.touch()
            stale.resume()
            wait_until(lambda: all(run.outcome for run in scenario.ledger.runs(job)), "the late one ended too")
            CLOCK.sleep_sync(LEASE_S)  # time for a retry that must not come
            assert len(scenario.ledger.runs(job)) == 2
            # the one that was late still works
            more = add(queue_client, count=20)
            scenario.await_end([job, *more])
    scenario.check_accounts([job, *more], extra_runs=1)
    assert _outcomes(scenario, job) == ["completed"]
    report_recovery(took)


@everywhere
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_fault_08_a_worker_that_is_asked_to_stop_finishes_what_runs_and_hands_on_what_does_not(
    scenario: FaultScenario,
    queue_client: SyncQueue,
    number: signal.Signals,
    report_recovery: Callable[[float], None],
) -> None:
    gate = scenario.directory / "gate"
    quick = add(queue_client, count=300)  # they make a worker believe that it can fetch many in advance
    [running] = add(queue_client, ["await_file", str(gate)])
    waiting = add(queue_client, count=50)
    with scenario.worker(concurrency=1, claim_min_idle_ms=30_000) as leaving:
        wait_until(lambda: scenario.ledger.runs(running), "the long one has begun")
        with scenario.worker(concurrency=1, claim_min_idle_ms=30_000):
            scenario.await_consumers(2)
            leaving.signal(number)
            took = wait_until(lambda: scenario.ledger.completed(waiting), "the others took the rest")
            gate.touch()
            leaving.process.wait(10)
            scenario.await_end([*quick, running, *waiting])
    scenario.check_accounts([*quick, running, *waiting])
    assert leaving.process.returncode == 0
    assert set(scenario.ledger.starts().values()) == {1}
    assert [run.pid for run in scenario.ledger.runs(running)] == [leaving.pid]
    assert took <= 1
    report_recovery(took)


def test_fault_08_a_second_signal_does_not_wait_for_anybody(scenario: FaultScenario, queue_client: SyncQueue) -> None:
    [job] = add(queue_client, ["await_file", str(scenario.directory / "never")])
    with scenario.worker() as leaving:
        wait_until(lambda: scenario.ledger.runs(job), "it has begun")
        leaving.signal(signal.SIGTERM)
        CLOCK.sleep_sync(0.3)
        assert leaving.alive
        leaving.signal(signal.SIGTERM)
        leaving.process.wait(2)
    assert _pending(scenario) == [job]


def _pending(stage: FaultScenario) -> Collection[str]:
    rows = stage.bench.command("XRANGE", stage.bench.keys.stream, "-", "+")
    assert stage.bench.command("XPENDING", stage.bench.keys.stream, "default")[0] == len(rows)
    return [run.id for run in stage.ledger.runs()]
