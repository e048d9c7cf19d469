"""Handlers that take long, hog the processor, or end strangely, while no worker dies: every job still runs once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.conftest import LEASE_S, add, everywhere
from tests.support.faults.run_ledger import dead_job_ids, dead_letters
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from chasqui import SyncQueue
    from tests.support.faults.scenario import FaultScenario

SHORT_LEASE: dict[str, Any] = {"claim_min_idle_ms": 400, "heartbeat_ms": 100}


@everywhere
def test_fault_04_a_healthy_handler_of_ten_leases_is_started_once(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    ids = add(queue_client, ["sleep", 4.0], count=3)
    with scenario.worker(**SHORT_LEASE), scenario.worker(**SHORT_LEASE):
        scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert set(scenario.ledger.starts().values()) == {1}


@pytest.mark.parametrize("action", ["block", "spin"])
@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "function"])
def test_fault_05_a_handler_that_blocks_for_three_leases_is_started_once(
    scenario: FaultScenario, queue_client: SyncQueue, action: str, plain: bool
) -> None:
    ids = add(queue_client, [action, 3 * LEASE_S])
    with scenario.worker(plain=plain) as blocked, scenario.worker(plain=plain) as other:
        scenario.await_end(ids)
        log = blocked.stderr_text() + other.stderr_text()
    scenario.check_accounts(ids)
    assert set(scenario.ledger.starts().values()) == {1}
    if not plain:
        assert "WARNING" in log, "no warning that a handler blocks the loop"


class Watch:
    """Looks at what is pending, again and again: who has held each entry, since when, and for how long in silence."""

    def __init__(self, stage: FaultScenario) -> None:
        self._stage = stage
        self.holders: dict[bytes, set[bytes]] = {}
        self.silent_ms = 0
        self._since: dict[bytes, float] = {}
        self.longest_s = 0.0

    def look(self) -> None:
        bench, now = self._stage.bench, CLOCK.monotonic()
        rows = bench.command("XPENDING", bench.keys.stream, "default", "-", "+", 1000)
        for entry_id, holder, idle_ms, _ in rows:
            self.holders.setdefault(entry_id, set()).add(holder)
            self.silent_ms = max(self.silent_ms, idle_ms)
            self.longest_s = max(self.longest_s, now - self._since.setdefault(entry_id, now))


@everywhere
def test_fault_06_jobs_that_wait_longer_than_the_lease_behind_slow_ones_start_once(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    # the quick ones make a worker believe that it can fetch many in advance
    ids = add(queue_client, count=300) + add(queue_client, ["sleep", 0.1], count=60)
    watch = Watch(scenario)

    def done() -> bool:
        watch.look()
        return scenario.ledger.completed(ids)

    with scenario.worker(concurrency=1, **SHORT_LEASE), scenario.worker(concurrency=1, **SHORT_LEASE):
        scenario.await_consumers(2)
        wait_until(done, "all have run")
        scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert set(scenario.ledger.starts().values()) == {1}
    lease_ms = SHORT_LEASE["claim_min_idle_ms"]
    assert watch.longest_s * 1000 > 2 * lease_ms, "nothing was held for long, so this proves nothing"
    assert watch.silent_ms < lease_ms, "a lease was not renewed in time"
    assert {len(holders) for holders in watch.holders.values()} == {1}, "a job that was held changed hands"


@everywhere
@pytest.mark.parametrize("store_results", [False, True], ids=["results off", "results on"])
def test_fault_34_a_result_that_cannot_be_stored_is_not_a_reason_to_run_again(
    scenario: FaultScenario, queue_client: SyncQueue, store_results: bool
) -> None:
    ids = add(queue_client, ["give_what_cannot_be_stored"], count=3)
    with scenario.worker(store_results=store_results):
        more = add(queue_client, count=3)
        wait_until(lambda: scenario.ledger.completed(more), "the worker lives")
        scenario.await_end([*ids, *more])
    assert set(scenario.ledger.starts().values()) == {1}
    letters = dead_letters(scenario.bench)
    assert {letter.reason for letter in letters} <= {"unrecoverable"}
    scenario.check_accounts([*ids, *more], dead=list(dead_job_ids(scenario.bench)))
    assert all("object" in (letter.detail or "") for letter in letters), "the reason is clear"


@pytest.mark.parametrize(
    ("action", "detail"),
    [("leave", "SystemExit"), ("cancel_oneself", "CancelledError"), ("recurse", "recursion")],
)
def test_fault_34_a_handler_that_ends_strangely_has_failed_and_its_worker_lives(
    scenario: FaultScenario, queue_client: SyncQueue, action: str, detail: str
) -> None:
    ids = add(queue_client, [action], attempts=2, backoff=20)
    with scenario.worker() as worker:
        more = add(queue_client, count=3)
        scenario.await_end([*ids, *more])
        assert worker.alive
    scenario.check_accounts([*ids, *more], dead=ids)
    assert [run.attempt for run in scenario.ledger.runs(ids[0])] == [0, 1]
    [letter] = dead_letters(scenario.bench)
    assert letter.reason == "retries_exhausted"
    assert detail.lower() in (letter.detail or "").lower(), letter.detail
