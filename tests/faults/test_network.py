"""A network that goes silent or refuses: nothing hangs, nothing is lost, nothing is added twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui import SyncQueue
from tests.engines import CLOCK, await_that
from tests.faults.conftest import add, everywhere, insistently

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proxy import Proxy
    from tests.stage import Stage


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
        insistently(lambda: through.add("job", {}, job_id="second"))
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
