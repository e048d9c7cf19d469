"""Leaders that die, freeze or never let go; and schedules that were missed: each window once, by its policy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import MissedFiresPolicy, RepeatPattern, SyncQueue
from chasqui.lease import force_unlock
from tests.engines import CLOCK, await_that
from tests.faults.conftest import add, everywhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engines import EngineProcess
    from tests.stage import Stage

TTL_S = 5


def _windows(stage: Stage, key: str, first_ms: int, interval_ms: int) -> float:
    next_ms = int(float(stage.bench.say("ZSCORE", stage.bench.keys.repeat, key)))
    return (next_ms - first_ms) / interval_ms


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["killed", "frozen"])
def test_fault_29_another_leads_within_the_lock_and_a_second_and_no_window_fires_twice(
    stage: Stage, door: SyncQueue, fate: str, recovered: Callable[[float], None]
) -> None:
    catch_up = MissedFiresPolicy.fire_all(1000)
    key = door.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200), missed_fires=catch_up).id
    first_ms = int(float(stage.bench.say("ZSCORE", stage.bench.keys.repeat, key)))
    with stage.worker() as leader:
        await_that(lambda: len(stage.ledger.runs()) >= 3, "it leads")
        with stage.worker() as heir:
            delayed = add(door, count=20, delay_ms=1000)
            if fate == "killed":
                leader.kill()
            else:
                leader.freeze()
            took = await_that(lambda: stage.ledger.completed(delayed), "the delayed jobs run", 10)
            await_that(lambda: any(run.pid == heir.pid for run in stage.ledger.runs()), "the heir leads")
            if fate == "frozen":
                leader.thaw()
                CLOCK.pause(1)
            for worker in (heir, leader):
                if worker.alive:
                    worker.stop()
    with stage.worker(run_scheduler=False):
        await_that(lambda: stage.bench.say("XLEN", stage.bench.keys.stream) == 0, "what was fired has run")
    ticks = [run for run in stage.ledger.runs() if run.name == "tick"]
    fired = int(stage.bench.say("HGET", stage.bench.keys.repeat_spec(key), "fired"))
    assert fired == _windows(stage, key, first_ms, 200)
    assert len({run.id for run in ticks}) == fired
    assert took <= TTL_S + 1
    recovered(took)


def test_fault_29_a_leader_told_to_go_is_followed_at_once(
    stage: Stage, door: SyncQueue, recovered: Callable[[float], None]
) -> None:
    with stage.worker() as leader:
        first = add(door, delay_ms=50)
        await_that(lambda: stage.ledger.completed(first), "it leads")
        with stage.worker():
            leader.stop()
            start = CLOCK.mono()
            then = add(door, delay_ms=50)
            await_that(lambda: stage.ledger.completed(then), "another leads")
            took = CLOCK.mono() - start
    assert took <= 1
    recovered(took)


@pytest.mark.parametrize("role", ["promoter", "scheduler"])
def test_fault_29_a_lock_that_never_ends_is_told_and_can_be_broken(
    stage: Stage, door: SyncQueue, role: str, recovered: Callable[[float], None]
) -> None:
    keys = stage.bench.keys
    lock = keys.promoter_lock if role == "promoter" else keys.scheduler_lock
    stage.bench.say("SET", lock, "somebody long gone")
    door.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200))
    with stage.worker() as worker:
        delayed = add(door, delay_ms=50)
        await_that(lambda: _told_of_the_lock(worker), "the lock is told")
        other_works = "tick" if role == "promoter" else "job"
        await_that(lambda: any(run.name == other_works for run in stage.ledger.runs()), "the other one works")
        assert not any(run.name != other_works for run in stage.ledger.runs())
        broken = stage.bench.run(force_unlock(stage.bench.commands, lock))
        assert broken
        assert broken.holder == b"somebody long gone"
        took = await_that(
            lambda: stage.ledger.completed(delayed) and any(r.name == "tick" for r in stage.ledger.runs()),
            "both work",
        )
    assert took <= 2
    recovered(took)


def _told_of_the_lock(worker: EngineProcess) -> bool:
    return "somebody long gone" in worker.said() and "never expires" in worker.said()


@pytest.mark.slow
def test_fault_31_an_interval_shorter_than_a_tick_fires_once_per_tick_at_least(
    stage: Stage, door: SyncQueue
) -> None:
    for interval in (100, 300, 500, 900, 1000):
        door.upsert_repeatable_job(f"every {interval}", {}, repeat=RepeatPattern.every(interval))
    with stage.worker(scheduler_tick_ms=1000):
        await_that(stage.ledger.runs, "the first fires")
        CLOCK.pause(6)
    names = [run.name for run in stage.ledger.runs()]
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
    stage: Stage, door: SyncQueue, policy: str
) -> None:
    missed, expected = POLICIES[policy]
    bench = stage.bench
    key = door.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(10_000), missed_fires=missed).id
    due_ms = bench.now_ms() - 61_000  # as a schedule looks that nobody served: seven windows have passed
    bench.say("ZADD", bench.keys.repeat, "XX", due_ms, key)
    with stage.worker():
        await_that(lambda: float(bench.say("ZSCORE", bench.keys.repeat, key)) > due_ms, "it was served")
        await_that(lambda: len(stage.ledger.completions()) == expected, "what it fired has run")
        CLOCK.pause(0.5)
    assert len(stage.ledger.runs()) == expected
    assert float(bench.say("ZSCORE", bench.keys.repeat, key)) == due_ms + 70_000


@pytest.mark.slow
def test_fault_31_a_real_outage_of_61_seconds_is_made_up_for_by_each_policy(
    stage: Stage, door: SyncQueue
) -> None:
    interval_ms = 10_000
    for policy, (missed, _) in POLICIES.items():
        repeat = RepeatPattern.every(interval_ms)
        door.upsert_repeatable_job(policy, {}, repeat=repeat, missed_fires=missed)
    due = {policy: _due_ms(stage, policy) for policy in POLICIES}
    CLOCK.pause((max(due.values()) - stage.bench.now_ms()) / 1000 + 61)
    passed = {policy: (stage.bench.now_ms() - at) // interval_ms + 1 for policy, at in due.items()}
    assert set(passed.values()) == {7}
    with stage.worker():
        await_that(
            lambda: min(map(partial(_due_ms, stage), POLICIES)) > stage.bench.now_ms(), "all are served"
        )
        stage.await_end([run.id for run in stage.ledger.runs()])
        CLOCK.pause(0.5)
    fired = [run.name for run in stage.ledger.runs()]
    assert {policy: fired.count(policy) for policy in POLICIES} == {
        policy: expected for policy, (_, expected) in POLICIES.items()
    }
    assert {policy: _due_ms(stage, policy) for policy in POLICIES} == {
        policy: at + 7 * interval_ms for policy, at in due.items()
    }


def _due_ms(stage: Stage, name: str) -> int:
    return int(float(stage.bench.say("ZSCORE", stage.bench.keys.repeat, f"{name}::every:10000")))
