"""A server that makes room by deleting keys: workers warn when they start, and outlive what they cannot prevent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engines import CLOCK, await_that
from tests.faults.conftest import add, everywhere
from tests.ledger import EMPTY, left

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui import SyncQueue
    from tests.stage import Stage

FILLER = "x" * 50_000


def _press(stage: Stage) -> None:
    """Fill the memory until the whole queue has gone."""
    bench = stage.bench
    lines = dict(line.split(":", 1) for line in bench.say("INFO", "memory").decode().split() if ":" in line)
    bench.say("CONFIG", "SET", "maxmemory", str(int(lines["used_memory"]) + 1_000_000))
    for number in range(2000):
        bench.say("SET", f"filler-{number}", FILLER)
        if not bench.say("EXISTS", bench.keys.stream, bench.keys.delayed):
            return
    raise AssertionError("nothing was evicted")


@everywhere
@pytest.mark.parametrize("server_args", [("--maxmemory-policy", "allkeys-lru")], ids=["allkeys-lru"])
def test_fault_17_a_worker_warns_of_an_evicting_server_and_outlives_the_loss_of_its_queue(
    stage: Stage, door: SyncQueue, recovered: Callable[[float], None]
) -> None:
    gate = stage.directory / "gate"
    with stage.worker(concurrency=5) as worker:
        await_that(lambda: "maxmemory-policy noeviction" in worker.said(), "it warns")
        begun = add(door, ["await_file", str(gate)], count=5)
        await_that(lambda: len(stage.ledger.starts()) == 5, "all slots are taken")
        add(door, count=500)
        add(door, count=50, delay_ms=60_000)
        _press(stage)
        gate.touch()
        await_that(lambda: stage.ledger.completed(begun), "what ran comes to its end")
        stage.bench.say("CONFIG", "SET", "maxmemory", "0")
        start = CLOCK.mono()
        after = add(door, count=5) + add(door, count=5, delay_ms=100)
        await_that(lambda: stage.ledger.completed(after), "new jobs run")
        took = CLOCK.mono() - start
        assert worker.alive
        assert "NOGROUP" in worker.said() or "UNBLOCKED" in worker.said(), "nobody raised the alarm"
        await_that(lambda: left(stage.bench) == EMPTY, "nothing is left when the worker is killed")
    assert set(stage.ledger.completions().values()) == {1}
    assert took <= 5
    recovered(took)


@everywhere
def test_fault_17_a_server_that_refuses_instead_is_not_warned_of(stage: Stage, door: SyncQueue) -> None:
    with stage.worker() as worker:
        stage.await_end(add(door))
        assert "maxmemory-policy" not in worker.said()
