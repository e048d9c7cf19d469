"""Producers, replays and old servers: nothing unread is trimmed, ids stay unique, dead letters come back once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import RepeatPattern, SyncQueue
from chasqui.errors import QueueFull
from tests.faults.conftest import add, everywhere
from tests.faults.test_server import mixture
from tests.support.faults.run_ledger import dead_letters
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.faults.scenario import FaultScenario


@everywhere
@pytest.mark.parametrize("on_full", ["refuse", "grow"])
def test_fault_32_a_backlog_of_ten_times_the_cap_is_refused_or_stored_but_never_trimmed(
    scenario: FaultScenario, on_full: Any
) -> None:
    added: list[str] = []
    with SyncQueue(
        scenario.queue_name, redis_url=scenario.server.url, max_stream_len=1000, on_full=on_full
    ) as queue_client:
        for _ in range(100):
            try:
                added += [job.id for job in queue_client.add_bulk([{"name": "job", "data": {}}] * 100)]
            except QueueFull:
                assert on_full == "refuse"
    assert len(added) == (10_000 if on_full == "grow" else 1000)
    assert scenario.bench.command("XLEN", scenario.bench.keys.stream) == len(added)
    with scenario.worker(concurrency=50, events_enabled=False):
        scenario.await_end(added)
    scenario.check_accounts(added)


@everywhere
def test_fault_33_unique_ids_from_three_producers_and_again_after_a_restart_make_one_job_each(
    scenario: FaultScenario,
) -> None:
    ids = [f"unique-{number}" for number in range(1000)]

    def produce(_: int) -> int:
        with SyncQueue(scenario.queue_name, redis_url=scenario.server.url) as queue_client:
            return sum(queue_client.add_unique("job", {}, job_id=job_id).created for job_id in ids)

    with ThreadPoolExecutor(3) as pool:
        created = list(pool.map(produce, range(3)))
    assert sum(created) == 1000, "each was told who made the job"
    assert produce(3) == 0
    assert scenario.bench.command("XLEN", scenario.bench.keys.stream) == 1000
    with scenario.worker(concurrency=50):
        scenario.await_end(ids)
        assert produce(4) == 0, "done jobs are remembered too"
    scenario.check_accounts(ids)


def _length(stage: FaultScenario, key: str) -> int:
    length: int = stage.bench.command("XLEN", getattr(stage.bench.keys, key))
    return length


def _undecodable_letters(stage: FaultScenario, count: int) -> None:
    for number in range(count):
        words = ("d", f"\xc1 {number}", "source_id", "0-1", "reason", "decode_failed")
        stage.bench.command("XADD", stage.bench.keys.dlq, "*", *words)


@everywhere
def test_fault_35_a_replay_reaches_the_good_letters_behind_those_it_cannot_read(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    _undecodable_letters(scenario, 40)
    remedy = scenario.directory / "remedy"
    ids = add(queue_client, ["fail_unrecoverably", str(remedy)], count=10)
    with scenario.worker():
        scenario.await_end(ids)
        remedy.touch()
        assert [
            queue_client.replay_dlq(4),
            queue_client.replay_dlq(4),
            queue_client.replay_dlq(4),
            queue_client.replay_dlq(4),
        ] == [
            4,
            4,
            2,
            0,
        ]
        wait_until(lambda: scenario.ledger.completed(ids), "they run")
        scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert len(dead_letters(scenario.bench)) == 40


def test_fault_35_a_replay_killed_midway_loses_nothing_and_doubles_nothing(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    ids = add(queue_client, ["fail_unrecoverably", str(scenario.directory / "remedy")], count=3000)
    with scenario.worker(concurrency=50, events_enabled=False):
        scenario.await_end(ids)
    (scenario.directory / "remedy").touch()
    with scenario.queue() as remote, ThreadPoolExecutor(1) as pool:
        calling = pool.submit(remote.replay_dlq, 3000)
        wait_until(lambda: _length(scenario, "dlq") < 3000, "it has begun")
        remote.process.kill()
        calling.exception()
    assert _length(scenario, "dlq") + _length(scenario, "stream") == 3000
    queue_client.replay_dlq(3000)
    with scenario.worker(concurrency=50, events_enabled=False):
        scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert set(scenario.ledger.completions().values()) == {1}


def test_fault_35_two_replays_at_once_move_each_letter_once(scenario: FaultScenario, queue_client: SyncQueue) -> None:
    ids = add(queue_client, ["fail_unrecoverably", str(scenario.directory / "remedy")], count=1000)
    with scenario.worker(concurrency=50, events_enabled=False):
        scenario.await_end(ids)
    (scenario.directory / "remedy").touch()

    def replay(_: int) -> int:
        with SyncQueue(scenario.queue_name, redis_url=scenario.server.url) as another:
            return another.replay_dlq(1000)

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(replay, range(3))) == 1000
    with scenario.worker(concurrency=50, events_enabled=False):
        scenario.await_end(ids)
    assert set(scenario.ledger.completions().values()) == {1}


@everywhere
def test_fault_36_every_feature_works_on_every_server_and_a_worker_logs_what_is_replaced(
    scenario: FaultScenario, queue_client: SyncQueue, kind: str
) -> None:
    with scenario.worker(store_results=True) as worker:
        good, hopeless = mixture(queue_client, 80)
        queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200), limit=3)
        gone = add(queue_client, delay_ms=60_000, job_id="gone")
        assert queue_client.cancel_delayed("gone")
        scenario.await_end([*good, *hopeless])
        wait_until(lambda: sum(run.name == "tick" for run in scenario.ledger.runs()) == 3, "it fires thrice")
        scenario.await_end([*good, *hopeless])
        assert queue_client.get_job_result(good[-1]) == {"a": 1}
        assert ("scripts stand in" in worker.stderr_text()) is (kind != "redis-8.6")
    ticks = {run.id for run in scenario.ledger.runs() if run.name == "tick"}
    scenario.check_accounts([*good, *hopeless, *ticks], dead=hopeless)
    assert not scenario.ledger.runs(gone[0])


@everywhere
def test_fault_38_ten_thousand_dead_consumers_go_and_those_with_jobs_stay(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    bench, keys = scenario.bench, scenario.bench.keys
    bench.run(bench.commands.ensure_group(keys, "default"))
    for number in range(10_000):
        bench.command("XGROUP", "CREATECONSUMER", keys.stream, "default", f"dead-{number}")
    ids = add(queue_client, count=3)
    for number in range(3):
        bench.command("XREADGROUP", "GROUP", "default", f"dead-{number}", "COUNT", 1, "STREAMS", keys.stream, ">")
    CLOCK.sleep_sync(0.1)
    dead = bench.run_calls(
        bench.commands.drop_consumers(keys, "default", [f"dead-{number}" for number in range(10_000)])
    )
    assert sorted(dead) == [b"dead-0", b"dead-1", b"dead-2"]
    with scenario.worker():
        scenario.await_end(ids)
    scenario.check_accounts(ids)


@pytest.mark.slow
def test_fault_38_a_worker_removes_the_names_of_the_dead_within_a_minute(
    scenario: FaultScenario, queue_client: SyncQueue, report_recovery: Callable[[float], None]
) -> None:
    bench, keys = scenario.bench, scenario.bench.keys
    ids = add(queue_client, ["sleep", 0.01], count=500)
    for _ in range(5):
        with scenario.worker(concurrency=5) as doomed:
            begun = len(scenario.ledger.runs())
            wait_until(partial(_has_begun_more, scenario, begun), "it works")
            doomed.kill()
    with scenario.worker() as last:
        scenario.await_end(ids)
        assert len(bench.command("XINFO", "CONSUMERS", keys.stream, "default")) > 1
        took = wait_until(
            lambda: len(bench.command("XINFO", "CONSUMERS", keys.stream, "default")) == 1,
            "only the living",
            60,
        )
        last.stop()
    scenario.check_accounts(ids, extra_runs=5 * 5)
    assert bench.command("XINFO", "CONSUMERS", keys.stream, "default") == [], "who leaves takes his name along"
    report_recovery(took)


def _has_begun_more(stage: FaultScenario, before: int) -> bool:
    return len(stage.ledger.runs()) > before
