"""A server that makes room by deleting keys: workers warn when they start, and outlive what they cannot prevent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import add, everywhere
from tests.support.faults.run_ledger import EMPTY, remaining_jobs
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui import SyncQueue
    from tests.support.faults.scenario import FaultScenario

FILLER = "x" * 50_000


def _press(stage: FaultScenario) -> None:
    """Fill the memory until the whole queue has gone."""
    bench = stage.bench
    lines = dict(line.split(":", 1) for line in bench.command("INFO", "memory").decode().split() if ":" in line)
    bench.command("CONFIG", "SET", "maxmemory", str(int(lines["used_memory"]) + 1_000_000))
    for number in range(2000):
        bench.command("SET", f"filler-{number}", FILLER)
        if not bench.command("EXISTS", bench.keys.stream, bench.keys.delayed):
            return
    raise AssertionError("nothing was evicted")


@everywhere
@pytest.mark.parametrize("server_args", [("--maxmemory-policy", "allkeys-lru")], ids=["allkeys-lru"])
def test_fault_17_a_worker_warns_of_an_evicting_server_and_outlives_the_loss_of_its_queue(
    scenario: FaultScenario, queue_client: SyncQueue, report_recovery: Callable[[float], None]
) -> None:
    gate = scenario.directory / "gate"
    with scenario.worker(concurrency=5) as worker:
        wait_until(lambda: "maxmemory-policy noeviction" in worker.stderr_text(), "it warns")
        begun = add(queue_client, ["await_file", str(gate)], count=5)
        wait_until(lambda: len(scenario.ledger.starts()) == 5, "all slots are taken")
        add(queue_client, count=500)
        add(queue_client, count=50, delay_ms=60_000)
        _press(scenario)
        gate.touch()
        wait_until(lambda: scenario.ledger.completed(begun), "what ran comes to its end")
        scenario.bench.command("CONFIG", "SET", "maxmemory", "0")
        start = CLOCK.monotonic()
        after = add(queue_client, count=5) + add(queue_client, count=5, delay_ms=100)
        wait_until(lambda: scenario.ledger.completed(after), "new jobs run")
        took = CLOCK.monotonic() - start
        assert worker.alive
        assert "NOGROUP" in worker.stderr_text() or "UNBLOCKED" in worker.stderr_text(), "no worker raised the alarm"
        wait_until(lambda: remaining_jobs(scenario.bench) == EMPTY, "nothing is left when the worker is killed")
    assert set(scenario.ledger.completions().values()) == {1}
    assert took <= 5
    report_recovery(took)


@everywhere
def test_fault_17_a_server_that_refuses_instead_is_not_warned_of(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    with scenario.worker() as worker:
        scenario.await_end(add(queue_client))
        assert "maxmemory-policy" not in worker.stderr_text()
