"""Workers that die, freeze or are told to go: their jobs are run by others, once more at most, and nobody else's die."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.engines import CLOCK, await_that
from tests.faults.conftest import LEASE_S, add, everywhere
from tests.ledger import dead, left

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from chasqui import SyncQueue
    from tests.stage import Stage

IN_ONE_BREATH = 128
"""Handlers that never wait may end so many times before the loop comes round to acknowledge the first of them."""


@everywhere
def test_fault_01_jobs_of_a_killed_worker_run_again_within_the_lease_and_a_second(
    stage: Stage, door: SyncQueue, recovered: Callable[[float], None]
) -> None:
    gate = stage.directory / "gate"
    ids = add(door, ["await_file", str(gate)], count=5)
    with stage.worker(concurrency=5) as doomed:
        await_that(lambda: len(stage.ledger.starts()) == 5, "all have begun")
        with stage.worker(concurrency=5):
            CLOCK.pause(LEASE_S)  # the second one must not touch what the first keeps alive
            assert set(stage.ledger.starts().values()) == {1}
            doomed.kill()
            took = await_that(lambda: set(stage.ledger.starts().values()) == {2}, "all have begun again")
            gate.touch()
            stage.await_end(ids)
    stage.settle(ids)
    assert {run.attempt for run in stage.ledger.runs()} == {0}, "a crash is not a failed attempt"
    assert took <= LEASE_S + 1
    recovered(took)


def _restart_until(stage: Stage, done: Callable[[], bool], **options: Any) -> int:
    """What a supervisor does: whenever the worker dies another is started. Answers how many died."""
    deaths = 0
    with ExitStack() as stack:
        worker = stack.enter_context(stage.worker(**options))
        while not done():
            assert deaths < 30, "they die and die"
            if not worker.alive:
                deaths += 1
                worker = stack.enter_context(stage.worker(**options))
            CLOCK.pause(0.01)
        assert worker.alive
    return deaths


@everywhere
def test_fault_02_a_job_that_kills_its_worker_is_buried_as_crashed_after_three_starts(
    stage: Stage, door: SyncQueue
) -> None:
    [poison] = add(door, ["die"])
    deaths = _restart_until(stage, lambda: bool(dead(stage.bench)), claim_min_idle_ms=300, heartbeat_ms=100)
    assert deaths == 3
    assert stage.ledger.starts() == {poison: 3}
    assert [letter.reason for letter in dead(stage.bench)] == ["crashed"]
    stage.settle([poison], dead=[poison])


@pytest.mark.parametrize("concurrency", [1, 10])
def test_fault_03_bystanders_of_a_job_that_kills_its_worker_all_live(
    stage: Stage, door: SyncQueue, concurrency: int
) -> None:
    good = add(door, count=100)
    [poison] = add(door, ["die"])
    good += add(door, ["sleep", 0.01], count=100)

    def done() -> bool:
        return (
            stage.ledger.completed(good) and bool(dead(stage.bench)) and not any(left(stage.bench).values())
        )

    deaths = _restart_until(stage, done, concurrency=concurrency, claim_min_idle_ms=300, heartbeat_ms=100)
    assert deaths == 3
    stage.settle([*good, poison], dead=[poison], extra_runs=IN_ONE_BREATH + deaths * concurrency)


def _outcomes(stage: Stage, job_id: str) -> list[str]:
    """The events that tell a job's end."""
    rows = stage.bench.say("XRANGE", stage.bench.keys.events, "-", "+")
    told = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in rows]
    ends = {b"completed", b"dlq", b"retry-scheduled"}
    return [event[b"e"].decode() for event in told if event[b"id"] == job_id.encode() and event[b"e"] in ends]


@everywhere
@pytest.mark.parametrize("deed", ["succeed", "fail_if", "be_hopeless_if"])
def test_fault_07_a_frozen_worker_that_wakes_up_late_changes_nothing(
    stage: Stage, door: SyncQueue, deed: str, recovered: Callable[[float], None]
) -> None:
    gate, spoiler = stage.directory / "gate", stage.directory / "spoiler"
    deeds = [["await_file", str(gate)]] + ([] if deed == "succeed" else [[deed, str(spoiler)]])
    [job] = add(door, *deeds)
    with stage.worker() as stale:
        await_that(lambda: stage.ledger.runs(job), "it has begun")
        stale.freeze()
        with stage.worker():
            took = await_that(lambda: len(stage.ledger.runs(job)) == 2, "another took it")
            gate.touch()
            await_that(lambda: "completed" in _outcomes(stage, job), "it is done")
            spoiler.touch()
            stale.thaw()
            await_that(lambda: all(run.outcome for run in stage.ledger.runs(job)), "the late one ended too")
            CLOCK.pause(LEASE_S)  # time for a retry that must not come
            assert len(stage.ledger.runs(job)) == 2
            # the one that was late still works
            more = add(door, count=20)
            stage.await_end([job, *more])
    stage.settle([job, *more], extra_runs=1)
    assert _outcomes(stage, job) == ["completed"]
    recovered(took)


@everywhere
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_fault_08_a_worker_told_to_go_finishes_what_runs_and_hands_on_what_does_not(
    stage: Stage, door: SyncQueue, number: signal.Signals, recovered: Callable[[float], None]
) -> None:
    gate = stage.directory / "gate"
    quick = add(door, count=300)  # they make a worker believe that it can fetch many in advance
    [running] = add(door, ["await_file", str(gate)])
    waiting = add(door, count=50)
    with stage.worker(concurrency=1, claim_min_idle_ms=30_000) as leaving:
        await_that(lambda: stage.ledger.runs(running), "the long one has begun")
        with stage.worker(concurrency=1, claim_min_idle_ms=30_000):
            stage.await_consumers(2)
            leaving.signal(number)
            took = await_that(lambda: stage.ledger.completed(waiting), "the others took the rest")
            gate.touch()
            leaving.process.wait(10)
            stage.await_end([*quick, running, *waiting])
    stage.settle([*quick, running, *waiting])
    assert leaving.process.returncode == 0
    assert set(stage.ledger.starts().values()) == {1}
    assert [run.pid for run in stage.ledger.runs(running)] == [leaving.pid]
    assert took <= 1
    recovered(took)


def test_fault_08_a_second_signal_does_not_wait_for_anybody(stage: Stage, door: SyncQueue) -> None:
    [job] = add(door, ["await_file", str(stage.directory / "never")])
    with stage.worker() as leaving:
        await_that(lambda: stage.ledger.runs(job), "it has begun")
        leaving.signal(signal.SIGTERM)
        CLOCK.pause(0.3)
        assert leaving.alive
        leaving.signal(signal.SIGTERM)
        leaving.process.wait(2)
    assert _pending(stage) == [job]


def _pending(stage: Stage) -> Collection[str]:
    rows = stage.bench.say("XRANGE", stage.bench.keys.stream, "-", "+")
    assert stage.bench.say("XPENDING", stage.bench.keys.stream, "default")[0] == len(rows)
    return [run.id for run in stage.ledger.runs()]
