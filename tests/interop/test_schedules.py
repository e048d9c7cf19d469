"""Schedules written by either engine and fired by both: each window once, with either engine as the leader."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.interop.test_worker_fleet import LEASE_MS, fleet
from tests.support.processes.engines import CLOCK, Engine, wait_until

if TYPE_CHECKING:
    from tests.interop.conftest import EnginePair
    from tests.support.faults.scenario import FaultScenario

ALL = {"kind": "fire-all", "max_catchup": 100}
PATTERNS: dict[str, dict[str, Any]] = {
    "every": {"kind": "every", "interval_ms": 500},
    "cron": {"kind": "cron", "expression": "* * * * * *", "tz": "Europe/Berlin"},
}
STEP_MS = {"every": 500, "cron": 1000}


def test_a_mixed_fleet_fires_every_window_exactly_once(
    scenario: FaultScenario, own_engine: Engine, reference_engine: Engine
) -> None:
    bench = scenario.bench
    with ExitStack() as stack:
        keys: dict[str, str] = {}
        for engine in (own_engine, reference_engine):
            queue = stack.enter_context(scenario.queue(engine))
            for kind, pattern in PATTERNS.items():
                name = f"{engine.package} {kind}"
                keys[name] = queue.add(name, {"by": name}, repeat=pattern, missed_fires=ALL)["id"]
        first_ms = {name: _next_ms(scenario, key) for name, key in keys.items()}
        workers = fleet(stack, scenario, [own_engine, reference_engine], concurrency=5)
        for turn in range(4):
            CLOCK.sleep_sync(0.8)
            workers.replace(turn % 2, gently=True)
        CLOCK.sleep_sync(0.5)
        workers.replace(0)  # and one leader dies without handing over: its lock outlives it by five seconds
        workers.replace(1)
        wait_until(lambda: all(count >= 14 for count in _fired(scenario, keys).values()), "they go on firing", 20)
        for _, process in workers.members:
            process.stop()
    with scenario.worker(own_engine, run_scheduler=False, claim_min_idle_ms=LEASE_MS):
        wait_until(lambda: bench.command("XLEN", bench.keys.stream) == 0, "what was fired has run")
    # a job that ran when its worker was killed runs again: what counts is how many jobs there were
    runs = Counter({run.id: run.name for run in scenario.ledger.runs()}.values())
    fired = _fired(scenario, keys)
    for name, key in keys.items():
        windows = (_next_ms(scenario, key) - first_ms[name]) / STEP_MS[name.split()[1]]
        assert runs[name] == fired[name] == windows, name
    assert sum(scenario.ledger.starts().values()) - len(scenario.ledger.starts()) <= 2 * 5
    assert {run.data for run in scenario.ledger.runs()} == {repr({"by": name}) for name in keys}


def _next_ms(stage: FaultScenario, key: str) -> int:
    return int(float(stage.bench.command("ZSCORE", stage.bench.keys.repeat, key)))


def _fired(stage: FaultScenario, keys: dict[str, str]) -> dict[str, int]:
    hashes = {name: stage.bench.keys.repeat_spec(key) for name, key in keys.items()}
    return {name: int(stage.bench.command("HGET", at, "fired") or 0) for name, at in hashes.items()}


def test_a_limit_set_by_one_engine_is_respected_by_the_other(scenario: FaultScenario, engine_pair: EnginePair) -> None:
    with scenario.queue(engine_pair.first) as queue, scenario.worker(engine_pair.second):
        often = {"kind": "every", "interval_ms": 300}
        queue.upsert_repeatable_job("thrice", {"i": 1}, repeat=often, limit=3)
        wait_until(lambda: len(scenario.ledger.completions()) == 3, "three fires")
        wait_until(lambda: queue.get_repeatable_jobs() == [], "the spec is gone")
        CLOCK.sleep_sync(0.7)
    assert [run.name for run in scenario.ledger.runs()] == ["thrice"] * 3


def test_both_engines_list_the_same_schedules_and_remove_each_others(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    with scenario.queue(engine_pair.first) as first, scenario.queue(engine_pair.second) as second:
        first.add("hourly", {"a": 1}, repeat={"kind": "cron", "expression": "0 * * * *", "tz": "Asia/Tokyo"})
        first.add("often", {"b": 2}, repeat={"kind": "every", "interval_ms": 60_000}, missed_fires=ALL)
        second.add("daily", {}, repeat={"kind": "cron", "expression": "@daily"}, missed_fires={"kind": "fire-once"})
        metas = second.get_repeatable_jobs()
        assert first.get_repeatable_jobs() == metas
        assert {meta["job_name"] for meta in metas} == {"hourly", "often", "daily"}
        keys = [meta["key"] for meta in metas]
        assert [second.remove_repeatable_by_key(key) for key in keys] == [True] * 3
        assert first.get_repeatable_jobs() == second.get_repeatable_jobs() == []
        assert [first.remove_repeatable_by_key(key) for key in keys] == [False] * 3
