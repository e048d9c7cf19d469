"""A network that goes silent or refuses: nothing hangs, nothing is lost, nothing is added twice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import SyncQueue
from chasqui.errors import ServerError, Unconfirmed
from tests.faults.conftest import add, everywhere, retry
from tests.support.faults.proxy import NetworkConditions
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.faults.proxy import Proxy
    from tests.support.faults.scenario import FaultScenario


@everywhere
@pytest.mark.slow
def test_fault_18_a_worker_whose_connections_went_silent_works_again(
    scenario: FaultScenario, queue_client: SyncQueue, proxy: Proxy, report_recovery: Callable[[float], None]
) -> None:
    with scenario.worker(url=proxy.url):
        before = add(queue_client, count=5)
        scenario.await_end(before)
        proxy.go_silent()
        after = add(queue_client, count=5)
        delayed = add(queue_client, count=5, delay_ms=100)
        took = scenario.await_end([*before, *after, *delayed], 30)
    scenario.check_accounts([*before, *after, *delayed])
    assert took <= 0.2 + 10  # what a read waits for, and ten seconds
    report_recovery(took)


@pytest.mark.slow
def test_fault_18_a_producer_whose_connection_went_silent_neither_hangs_nor_doubles(
    scenario: FaultScenario, proxy: Proxy, report_recovery: Callable[[float], None]
) -> None:
    with SyncQueue(scenario.queue_name, redis_url=proxy.url) as through:
        through.add("job", {})
        proxy.go_silent()
        start = CLOCK.monotonic()
        retry(lambda: through.add("job", {}, job_id="second"))
        took = CLOCK.monotonic() - start
        proxy.go_silent()
        start = CLOCK.monotonic()
    assert CLOCK.monotonic() - start < 1, "closing hangs"
    assert scenario.bench.command("XLEN", scenario.bench.keys.stream) == 2
    assert took <= 11
    report_recovery(took)


WEATHERS = {
    "200 ms": NetworkConditions(latency_s=0.2),
    "1 % resets": NetworkConditions(reset_chance=0.01),
    "64 kB/s": NetworkConditions(bytes_per_s=64_000),
}


@everywhere
@pytest.mark.parametrize(
    "weather",
    ["1 % resets", *(pytest.param(one, marks=pytest.mark.slow) for one in ("200 ms", "64 kB/s"))],
)
def test_fault_21_a_slow_a_breaking_and_a_narrow_network_lose_nothing_and_steal_nothing(
    scenario: FaultScenario, proxy: Proxy, weather: str
) -> None:
    proxy.weather = replace(WEATHERS[weather])
    lease: dict[str, Any] = {"claim_min_idle_ms": 2000, "heartbeat_ms": 600, "concurrency": 20}
    with SyncQueue(scenario.queue_name, redis_url=proxy.url) as through:
        with scenario.worker(url=proxy.url, **lease), scenario.worker(url=proxy.url, **lease):
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
            scenario.await_end(ids, 60)
    scenario.check_accounts(ids)
    assert {scenario.ledger.starts()[f"long-{n}"] for n in range(5)} == {1}, "somebody stole a job that was running"
    if proxy.weather.reset_chance:
        assert proxy.weather.resets, "the network never broke"


def _surely(call: Callable[[], Any]) -> None:
    """Do what a caller does after an error: finish the batch with the error's call, or send it again."""
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
    scenario: FaultScenario,
    queue_client: SyncQueue,
    proxy: Proxy,
    seconds: int,
    report_recovery: Callable[[float], None],
) -> None:
    gate = scenario.directory / "gate"
    with scenario.worker(url=proxy.url, concurrency=10, claim_min_idle_ms=(seconds + 10) * 1000):
        running = add(queue_client, ["await_file", str(gate)], count=5)
        wait_until(lambda: len(scenario.ledger.starts()) == 5, "all have begun")
        proxy.refuse()
        gate.touch()
        more = add(queue_client, count=5) + add(queue_client, count=5, delay_ms=100)
        CLOCK.sleep_sync(seconds)
        proxy.listen()
        took = scenario.await_end([*running, *more])
    scenario.check_accounts([*running, *more])
    assert set(scenario.ledger.starts().values()) == {1}
    assert took <= 5
    report_recovery(took)
