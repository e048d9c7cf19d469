"""A network that goes silent or refuses: nothing hangs, nothing is lost, nothing is added twice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import SyncQueue
from chasqui.errors import ServerError, Unconfirmed
from tests.engines import CLOCK, await_that
from tests.faults.conftest import add, everywhere, insistently
from tests.proxy import Weather

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


WEATHERS = {
    "200 ms": Weather(latency_s=0.2),
    "1 % resets": Weather(reset_chance=0.01),
    "64 kB/s": Weather(bytes_per_s=64_000),
}


@everywhere
@pytest.mark.parametrize(
    "weather",
    ["1 % resets", *(pytest.param(one, marks=pytest.mark.slow) for one in ("200 ms", "64 kB/s"))],
)
def test_fault_21_a_slow_a_breaking_and_a_narrow_network_lose_nothing_and_steal_nothing(
    stage: Stage, proxy: Proxy, weather: str
) -> None:
    proxy.weather = replace(WEATHERS[weather])
    lease: dict[str, Any] = {"claim_min_idle_ms": 2000, "heartbeat_ms": 600, "concurrency": 20}
    with SyncQueue(stage.queue_name, redis_url=proxy.url) as through:
        with stage.worker(url=proxy.url, **lease), stage.worker(url=proxy.url, **lease):
            ids = [f"long-{n}" for n in range(5)]
            for job_id in ids:
                _surely(partial(through.add, "job", {"do": [["sleep", 5.0]]}, job_id=job_id))
            for number in range(0, 100, 10):
                some = [f"job-{number + n}" for n in range(10)]
                data = {"do": [["fail_until", number % 3 == 0]], "filler": "x" * 2000}
                jobs: list[dict[str, Any]] = [
                    {"name": "job", "data": data, "job_id": one, "attempts": 5} for one in some
                ]
                jobs[0]["delay_ms"] = 300
                _surely(partial(through.add_bulk, jobs))
                ids += some
            stage.await_end(ids, 60)
    stage.settle(ids)
    assert {stage.ledger.starts()[f"long-{n}"] for n in range(5)} == {1}, (
        "somebody stole a job that was running"
    )
    if proxy.weather.reset_chance:
        assert proxy.weather.resets, "the network never broke"


def _surely(call: Callable[[], Any]) -> None:
    """What a caller does who is told that something went wrong: finish it, as the error says, or say it again."""
    for _ in range(20):
        try:
            call()
        except Unconfirmed as lost:
            call = lost.retry
        except ServerError:
            continue
        else:
            return
    raise AssertionError("it never went through")


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
