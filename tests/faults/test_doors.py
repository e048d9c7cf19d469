"""Producers, replays and old servers: nothing unread is trimmed, ids are kept unique, dead letters come back once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import RepeatPattern, SyncQueue
from chasqui.errors import QueueFull
from tests.engines import CLOCK, await_that
from tests.faults.conftest import add, everywhere
from tests.faults.test_server import mixture
from tests.ledger import dead

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stage import Stage


@everywhere
@pytest.mark.parametrize("on_full", ["refuse", "grow"])
def test_fault_32_a_backlog_of_ten_times_the_cap_is_refused_or_kept_but_never_trimmed(
    stage: Stage, on_full: Any
) -> None:
    added: list[str] = []
    with SyncQueue(
        stage.queue_name, redis_url=stage.server.url, max_stream_len=1000, on_full=on_full
    ) as door:
        for _ in range(100):
            try:
                added += [job.id for job in door.add_bulk([{"name": "job", "data": {}}] * 100)]
            except QueueFull:
                assert on_full == "refuse"
    assert len(added) == (10_000 if on_full == "grow" else 1000)
    assert stage.bench.say("XLEN", stage.bench.keys.stream) == len(added)
    with stage.worker(concurrency=50, events_enabled=False):
        stage.await_end(added)
    stage.settle(added)


@everywhere
def test_fault_33_unique_ids_from_three_producers_and_again_after_a_restart_make_one_job_each(
    stage: Stage,
) -> None:
    ids = [f"unique-{number}" for number in range(1000)]

    def produce(_: int) -> int:
        with SyncQueue(stage.queue_name, redis_url=stage.server.url) as door:
            return sum(door.add_unique("job", {}, job_id=job_id).created for job_id in ids)

    with ThreadPoolExecutor(3) as pool:
        created = list(pool.map(produce, range(3)))
    assert sum(created) == 1000, "each was told who made the job"
    assert produce(3) == 0
    assert stage.bench.say("XLEN", stage.bench.keys.stream) == 1000
    with stage.worker(concurrency=50):
        stage.await_end(ids)
        assert produce(4) == 0, "done jobs are remembered too"
    stage.settle(ids)


def _length(stage: Stage, key: str) -> int:
    length: int = stage.bench.say("XLEN", getattr(stage.bench.keys, key))
    return length


def _undecodable_letters(stage: Stage, count: int) -> None:
    for number in range(count):
        words = ("d", f"\xc1 {number}", "source_id", "0-1", "reason", "decode_failed")
        stage.bench.say("XADD", stage.bench.keys.dlq, "*", *words)


@everywhere
def test_fault_35_a_replay_reaches_the_good_letters_behind_those_it_cannot_read(
    stage: Stage, door: SyncQueue
) -> None:
    _undecodable_letters(stage, 40)
    remedy = stage.directory / "remedy"
    ids = add(door, ["be_hopeless", str(remedy)], count=10)
    with stage.worker():
        stage.await_end(ids)
        remedy.touch()
        assert [door.replay_dlq(4), door.replay_dlq(4), door.replay_dlq(4), door.replay_dlq(4)] == [
            4,
            4,
            2,
            0,
        ]
        await_that(lambda: stage.ledger.completed(ids), "they run")
        stage.await_end(ids)
    stage.settle(ids)
    assert len(dead(stage.bench)) == 40


def test_fault_35_a_replay_killed_midway_loses_nothing_and_doubles_nothing(
    stage: Stage, door: SyncQueue
) -> None:
    ids = add(door, ["be_hopeless", str(stage.directory / "remedy")], count=3000)
    with stage.worker(concurrency=50, events_enabled=False):
        stage.await_end(ids)
    (stage.directory / "remedy").touch()
    with stage.queue() as remote, ThreadPoolExecutor(1) as pool:
        calling = pool.submit(remote.replay_dlq, 3000)
        await_that(lambda: _length(stage, "dlq") < 3000, "it has begun")
        remote.process.kill()
        calling.exception()
    assert _length(stage, "dlq") + _length(stage, "stream") == 3000
    door.replay_dlq(3000)
    with stage.worker(concurrency=50, events_enabled=False):
        stage.await_end(ids)
    stage.settle(ids)
    assert set(stage.ledger.completions().values()) == {1}


def test_fault_35_two_replays_at_once_move_each_letter_once(stage: Stage, door: SyncQueue) -> None:
    ids = add(door, ["be_hopeless", str(stage.directory / "remedy")], count=1000)
    with stage.worker(concurrency=50, events_enabled=False):
        stage.await_end(ids)
    (stage.directory / "remedy").touch()

    def replay(_: int) -> int:
        with SyncQueue(stage.queue_name, redis_url=stage.server.url) as another:
            return another.replay_dlq(1000)

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(replay, range(3))) == 1000
    with stage.worker(concurrency=50, events_enabled=False):
        stage.await_end(ids)
    assert set(stage.ledger.completions().values()) == {1}


@everywhere
def test_fault_36_every_feature_works_on_every_server_and_a_worker_says_what_stands_in(
    stage: Stage, door: SyncQueue, kind: str
) -> None:
    with stage.worker(store_results=True) as worker:
        good, hopeless = mixture(door, 80)
        door.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200), limit=3)
        gone = add(door, delay_ms=60_000, job_id="gone")
        assert door.cancel_delayed("gone")
        stage.await_end([*good, *hopeless])
        await_that(lambda: sum(run.name == "tick" for run in stage.ledger.runs()) == 3, "it fires thrice")
        stage.await_end([*good, *hopeless])
        assert door.get_job_result(good[-1]) == {"a": 1}
        assert ("scripts stand in" in worker.said()) is (kind != "redis-8.6")
    ticks = {run.id for run in stage.ledger.runs() if run.name == "tick"}
    stage.settle([*good, *hopeless, *ticks], dead=hopeless)
    assert not stage.ledger.runs(gone[0])


@everywhere
def test_fault_38_ten_thousand_dead_consumers_go_and_those_with_jobs_stay(
    stage: Stage, door: SyncQueue
) -> None:
    bench, keys = stage.bench, stage.bench.keys
    bench.run(bench.commands.ensure_group(keys, "default"))
    for number in range(10_000):
        bench.say("XGROUP", "CREATECONSUMER", keys.stream, "default", f"dead-{number}")
    ids = add(door, count=3)
    for number in range(3):
        bench.say("XREADGROUP", "GROUP", "default", f"dead-{number}", "COUNT", 1, "STREAMS", keys.stream, ">")
    CLOCK.pause(0.1)
    kept = bench.do(
        bench.commands.drop_consumers(keys, "default", [f"dead-{number}" for number in range(10_000)])
    )
    assert sorted(kept) == [b"dead-0", b"dead-1", b"dead-2"]
    with stage.worker():
        stage.await_end(ids)
    stage.settle(ids)


@pytest.mark.slow
def test_fault_38_a_worker_removes_the_names_of_the_dead_within_a_minute(
    stage: Stage, door: SyncQueue, recovered: Callable[[float], None]
) -> None:
    bench, keys = stage.bench, stage.bench.keys
    ids = add(door, ["sleep", 0.01], count=500)
    for _ in range(5):
        with stage.worker(concurrency=5) as doomed:
            begun = len(stage.ledger.runs())
            await_that(partial(_has_begun_more, stage, begun), "it works")
            doomed.kill()
    with stage.worker() as last:
        stage.await_end(ids)
        assert len(bench.say("XINFO", "CONSUMERS", keys.stream, "default")) > 1
        took = await_that(
            lambda: len(bench.say("XINFO", "CONSUMERS", keys.stream, "default")) == 1, "only the living", 60
        )
        last.stop()
    stage.settle(ids, extra_runs=5 * 5)
    assert bench.say("XINFO", "CONSUMERS", keys.stream, "default") == [], "who leaves takes his name along"
    recovered(took)


def _has_begun_more(stage: Stage, before: int) -> bool:
    return len(stage.ledger.runs()) > before
