"""A network that goes silent, refuses, or loses replies: nothing hangs, nothing is lost, nothing is added twice."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import SyncQueue
from chasqui.errors import ChasquiError, Unconfirmed
from tests.engines import CLOCK, await_that
from tests.faults.conftest import add, everywhere
from tests.faults.test_server import mixture
from tests.ledger import dead
from tests.proxy import proxied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proxy import Proxy
    from tests.stage import Stage


@pytest.fixture
def proxy(stage: Stage) -> Iterator[Proxy]:
    with proxied(stage.server.socket) as made:
        yield made


@everywhere
@pytest.mark.slow
def test_fault_18_a_worker_whose_connections_went_silent_works_again(
    stage: Stage, door: SyncQueue, proxy: Proxy, recovered: Callable[[float], None]
) -> None:
    with stage.worker(url=proxy.url):
        before = add(door, count=5)
        stage.await_end(before)
        proxy.fall_silent()
        after = add(door, count=5)
        delayed = add(door, count=5, delay_ms=100)
        took = stage.await_end([*before, *after, *delayed], 30)
    stage.settle([*before, *after, *delayed])
    assert took <= 0.2 + 10  # what a read waits for, and ten seconds
    recovered(took)


@pytest.mark.slow
def test_fault_18_a_producer_whose_connection_went_silent_neither_hangs_nor_doubles(
    stage: Stage, proxy: Proxy, recovered: Callable[[float], None]
) -> None:
    with SyncQueue(stage.queue_name, redis_url=proxy.url) as through:
        through.add("job", {})
        proxy.fall_silent()
        start = CLOCK.mono()
        _insistently(lambda: through.add("job", {}, job_id="second"))
        took = CLOCK.mono() - start
        proxy.fall_silent()
        start = CLOCK.mono()
    assert CLOCK.mono() - start < 1, "closing hangs"
    assert stage.bench.say("XLEN", stage.bench.keys.stream) == 2
    assert took <= 11
    recovered(took)


@pytest.mark.parametrize(
    "seconds", [3, pytest.param(10, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.slow)]
)
def test_fault_19_after_refused_connections_work_goes_on_within_five_seconds(
    stage: Stage, door: SyncQueue, proxy: Proxy, seconds: int, recovered: Callable[[float], None]
) -> None:
    gate = stage.directory / "gate"
    with stage.worker(url=proxy.url, concurrency=10, claim_min_idle_ms=(seconds + 10) * 1000):
        running = add(door, ["await_file", str(gate)], count=5)
        await_that(lambda: len(stage.ledger.starts()) == 5, "all have begun")
        proxy.refuse()
        gate.touch()
        more = add(door, count=5) + add(door, count=5, delay_ms=100)
        CLOCK.pause(seconds)
        proxy.listen()
        took = stage.await_end([*running, *more])
    stage.settle([*running, *more])
    assert set(stage.ledger.starts().values()) == {1}
    assert took <= 5
    recovered(took)


def _insistently(call: Callable[[], Any]) -> Any:
    """What a caller does who was told that something went wrong: once more."""
    try:
        return call()
    except ChasquiError:
        return call()


ADDS: dict[str, Callable[[SyncQueue], Any]] = {
    "add": lambda door: door.add("job", {"a": 1}, job_id="one"),
    "add_unique": lambda door: door.add_unique("job", {"a": 1}, job_id="one"),
    "delayed": lambda door: door.add("job", {"a": 1}, job_id="one", delay_ms=60_000),
    "repeat": lambda door: door.add("job", {"a": 1}, repeat={"kind": "every", "interval_ms": 60_000}),
}


@everywhere
@pytest.mark.parametrize("what", ADDS)
def test_fault_20_an_add_whose_reply_is_lost_anywhere_can_be_made_again(
    stage: Stage, proxy: Proxy, what: str
) -> None:
    bench = stage.bench
    for passed in (0, 1, 2, 3, 5, 8, 12, 16, 20):
        with SyncQueue(stage.queue_name, redis_url=proxy.url) as through:
            through.get_job_result("warm")
            proxy.let_through, proxy.lose_replies = passed, 1
            _insistently(lambda: ADDS[what](through))
            assert proxy.lose_replies == 0, "no reply was lost"
        found = [
            bench.say("XLEN", bench.keys.stream),
            bench.say("ZCARD", bench.keys.delayed),
            bench.say("ZCARD", bench.keys.repeat),
        ]
        assert sum(found) == 1, f"{passed} bytes passed"
        bench.say("FLUSHALL")


@everywhere
def test_fault_20_a_bulk_whose_reply_is_lost_can_be_sent_again_without_doubles(
    stage: Stage, proxy: Proxy
) -> None:
    bench = stage.bench
    with SyncQueue(stage.queue_name, redis_url=proxy.url) as through:
        for passed in (0, 7, 300, 5000):
            jobs = [{"name": "job", "data": {"i": i}} for i in range(1000)]
            through.get_job_result("warm")
            proxy.let_through, proxy.lose_replies = passed, 1
            try:
                through.add_bulk(jobs)
                ids = None
            except Unconfirmed as lost:
                ids = [job.id for job in lost.retry()]
            assert proxy.lose_replies == 0, "no reply was lost"
            rows = bench.say("XRANGE", bench.keys.stream, "-", "+")
            assert len(rows) == 1000
            assert ids is None or len(set(ids)) == 1000
            bench.say("FLUSHALL")


@everywhere
def test_fault_20_a_replay_whose_reply_is_lost_can_be_made_again(
    stage: Stage, door: SyncQueue, proxy: Proxy
) -> None:
    ids = add(door, ["be_hopeless"], count=300)
    with stage.worker():
        stage.await_end(ids)
    with SyncQueue(stage.queue_name, redis_url=proxy.url) as through:
        for passed in (0, 3, 100):
            through.get_job_result("warm")
            proxy.let_through, proxy.lose_replies = passed, 1
            _insistently(lambda: through.replay_dlq(100))
            held = stage.bench.say("XLEN", stage.bench.keys.stream)
            assert held + len(dead(stage.bench)) == 300
        _insistently(lambda: through.replay_dlq(300))
    rows = stage.bench.say("XRANGE", stage.bench.keys.stream, "-", "+")
    assert len(rows) == len({bytes(fields[1]) for _, fields in rows}) == 300
    assert dead(stage.bench) == []


@everywhere
def test_fault_20_a_worker_that_loses_replies_of_every_kind_does_all_jobs(
    stage: Stage, door: SyncQueue, proxy: Proxy, recovered: Callable[[float], None]
) -> None:
    chance = random.Random(20)
    with stage.worker(url=proxy.url, store_results=True):
        await_that(lambda: proxy.connections, "it is connected")
        proxy.mischief = lambda: chance.random() < 0.05
        good, hopeless = mixture(door, 160)
        CLOCK.pause(5)
        proxy.mischief = lambda: False
        took = stage.await_end([*good, *hopeless])
    stage.settle([*good, *hopeless], dead=hopeless)
    recovered(took)
