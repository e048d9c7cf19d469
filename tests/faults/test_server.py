"""A server that forgets, hangs up, stalls, fills up, changes its role or loses its data under running workers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import RepeatPattern, SyncQueue
from chasqui.server.link import Link
from tests.faults.conftest import QUICK, add, everywhere
from tests.support.faults.run_ledger import remaining_jobs
from tests.support.faults.scenario import fault_scenario
from tests.support.links import command
from tests.support.processes.engines import CLOCK, wait_until
from tests.support.servers.server import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.faults.scenario import FaultScenario
    from tests.support.servers.binaries import Kind
    from tests.support.servers.pool import ServerPool

PREFETCH = 10
SOON = {"kind": "fixed", "delay_ms": 50, "jitter_ms": 0}


def mixture(queue_client: SyncQueue, count: int) -> tuple[list[str], list[str]]:
    """Jobs of every sort: plain, delayed, failing at first, returning something; and hopeless ones."""
    quarter = count // 4
    good = add(queue_client, ["sleep", 0.01], count=quarter)
    good += add(queue_client, count=quarter, delay_ms=500)
    good += add(queue_client, ["fail_until", 2], count=quarter, attempts=5, backoff=SOON)
    good += add(queue_client, ["give", {"a": 1}], count=quarter)
    return good, add(queue_client, ["fail_unrecoverably"], count=quarter)


@everywhere
def test_fault_09_a_server_that_forgets_its_scripts_changes_nothing(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    with scenario.worker(store_results=True) as worker:
        good, hopeless = mixture(queue_client, 160)
        while remaining_jobs(scenario.bench) != {"stream": 0, "pending": 0, "delayed": 0}:
            scenario.bench.command("SCRIPT", "FLUSH")
            CLOCK.sleep_sync(0.03)
        scenario.await_end([*good, *hopeless])
        assert "NOSCRIPT" not in worker.stderr_text(), "a loop took it for trouble"
    scenario.check_accounts([*good, *hopeless], dead=hopeless)
    expected = {1: 160, 3: 40}
    found = list(scenario.ledger.starts().values())
    assert {times: found.count(times) for times in set(found)} == expected


@everywhere
def test_fault_10_connections_killed_again_and_again_are_back_within_two_seconds(
    scenario: FaultScenario, queue_client: SyncQueue, report_recovery: Callable[[float], None]
) -> None:
    with scenario.worker(concurrency=10), scenario.worker(concurrency=10):
        good, hopeless = mixture(queue_client, 160)
        for _ in range(25):
            scenario.bench.command("CLIENT", "KILL", "TYPE", "normal")
            CLOCK.sleep_sync(0.1)
        more = add(queue_client, count=20)
        took = wait_until(lambda: scenario.ledger.completed(more), "it works again")
        scenario.await_end([*good, *hopeless, *more])
    assert took <= 2
    scenario.check_accounts([*good, *hopeless, *more], dead=hopeless)
    report_recovery(took)


@pytest.mark.parametrize("words", [("DEBUG", "SLEEP", "1.6"), ("CLIENT", "PAUSE", "1600", "ALL")])
def test_fault_11_a_stall_of_most_of_a_lease_makes_no_worker_steal(
    scenario: FaultScenario,
    queue_client: SyncQueue,
    words: tuple[str, ...],
    report_recovery: Callable[[float], None],
) -> None:
    lease: dict[str, Any] = {"claim_min_idle_ms": 2000, "heartbeat_ms": 600, "concurrency": 5}
    with scenario.worker(**lease), scenario.worker(**lease):
        ids = add(queue_client, ["sleep", 3.0], count=5)
        wait_until(lambda: len(scenario.ledger.starts()) == 5, "all have begun")
        scenario.bench.command(*words)
        more = add(queue_client, count=5)
        took = wait_until(lambda: scenario.ledger.completed(more), "it works again")
        scenario.await_end([*ids, *more])
    scenario.check_accounts([*ids, *more])
    assert set(scenario.ledger.starts().values()) == {1}
    report_recovery(took)


@contextmanager
def everything_under_way(
    stage: FaultScenario, queue_client: SyncQueue
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Before the trouble: jobs running, a schedule firing, delays that fall due during it."""
    gate = stage.directory / "gate"
    queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200))
    running = add(queue_client, ["await_file", str(gate)], count=4)
    running += add(queue_client, ["await_file", str(gate)], ["fail_until", 1], count=4, attempts=3, backoff=SOON)
    hopeless = add(queue_client, ["await_file", str(gate)], ["fail_unrecoverably"], count=4)
    delayed = add(queue_client, count=4, delay_ms=1500)
    with stage.worker(concurrency=20):
        wait_until(lambda: set(running) | set(hopeless) <= set(stage.ledger.starts()), "all have begun")
        wait_until(lambda: _ticks(stage), "the schedule fires")
        yield running, hopeless, delayed


def _ticks(stage: FaultScenario) -> int:
    return sum(run.name == "tick" for run in stage.ledger.runs())


def _all_loops_are_back(stage: FaultScenario, queue_client: SyncQueue, delayed: list[str]) -> tuple[float, list[str]]:
    """How long until what was delayed, what is delayed now and the schedule all run again; and what was added."""
    start, before = CLOCK.monotonic(), _ticks(stage)
    fresh = add(queue_client, count=2, delay_ms=100)
    wait_until(lambda: stage.ledger.completed([*delayed, *fresh]), "the promoter is back", 10)
    wait_until(lambda: _ticks(stage) > before, "the scheduler is back", 10)
    return CLOCK.monotonic() - start, fresh


def _settle_all_but_ticks(stage: FaultScenario, added: list[str], hopeless: list[str]) -> None:
    """Nothing ran twice either: a worker that lived through the trouble remembers what it has done."""
    ticks = {run.id for run in stage.ledger.runs() if run.name == "tick"}
    stage.check_accounts([*added, *hopeless, *ticks], dead=hopeless)


def _end_all(stage: FaultScenario, queue_client: SyncQueue, added: list[str]) -> None:
    [spec] = queue_client.get_repeatable_jobs()
    assert queue_client.remove_repeatable_by_key(spec.key)
    stage.await_end(added)


@everywhere
@pytest.mark.parametrize("seconds", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_fault_12_after_the_server_was_full_every_loop_is_back_and_nothing_is_lost(
    scenario: FaultScenario, queue_client: SyncQueue, seconds: int, report_recovery: Callable[[float], None]
) -> None:
    with everything_under_way(scenario, queue_client) as (running, hopeless, delayed):
        scenario.bench.command("CONFIG", "SET", "maxmemory", "1")
        (scenario.directory / "gate").touch()
        CLOCK.sleep_sync(seconds)
        scenario.bench.command("CONFIG", "SET", "maxmemory", "0")
        took, fresh = _all_loops_are_back(scenario, queue_client, delayed)
        _end_all(scenario, queue_client, [*running, *hopeless, *delayed, *fresh])
    _settle_all_but_ticks(scenario, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    report_recovery(took)


class Node:
    """A server with a line of its own, for what is done to servers behind everybody's back."""

    def __init__(self, server: Server, link: Link) -> None:
        self.server, self._link = server, link

    def command(self, *words: str) -> Any:
        return self._link.run(command(*words))

    def info(self, name: str) -> str:
        """One line of INFO replication."""
        lines: list[str] = self.command("INFO", "replication").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line).get(name, "")

    def follow(self, master: Node) -> None:
        self.command("REPLICAOF", "127.0.0.1", str(master.server.port))
        wait_until(lambda: self.info("master_link_status") == "up", "the replica is in step")
        wait_until(lambda: "state=online" in master.info("slave0"), "the master knows it")

    def fail_over(self) -> None:
        wait_until(lambda: "state=online" in self.info("slave0"), "there is a replica")
        self.command("FAILOVER", "TIMEOUT", "5000")
        wait_until(lambda: self.info("role") == "slave", "the roles have changed")


@pytest.fixture
def two_nodes(kind: Kind, servers: ServerPool) -> Iterator[tuple[Node, Node]]:
    servers.get(kind)
    args = ("--repl-diskless-sync-delay", "0")
    with start_server(kind, tcp=True, args=args) as first, start_server(kind, tcp=True, args=args) as second:
        with Link.open(first.url) as to_first, Link.open(second.url) as to_second:
            yield Node(first, to_first), Node(second, to_second)


@everywhere
def test_fault_13_after_three_seconds_as_a_replica_every_loop_is_back(
    two_nodes: tuple[Node, Node], queue: str, tmp_path: Path, report_recovery: Callable[[float], None]
) -> None:
    first, second = two_nodes
    url = first.server.url
    with (
        fault_scenario(first.server, queue, tmp_path, **QUICK) as stage,
        SyncQueue(queue, redis_url=url) as queue_client,
    ):
        second.follow(first)
        with everything_under_way(stage, queue_client) as (running, hopeless, delayed):
            first.fail_over()
            (tmp_path / "gate").touch()
            CLOCK.sleep_sync(3)
            second.fail_over()
            wait_until(lambda: first.info("role") == "master", "the roles are as before")
            took, fresh = _all_loops_are_back(stage, queue_client, delayed)
            _end_all(stage, queue_client, [*running, *hopeless, *delayed, *fresh])
        _settle_all_but_ticks(stage, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    report_recovery(took)


DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@everywhere
@pytest.mark.parametrize("server_args", [DURABLE], ids=["durable"])
def test_fault_15_a_server_killed_and_started_again_with_its_data_loses_nothing(
    scenario: FaultScenario, queue_client: SyncQueue, report_recovery: Callable[[float], None]
) -> None:
    with everything_under_way(scenario, queue_client) as (running, hopeless, delayed):
        scenario.server.kill()
        (scenario.directory / "gate").touch()
        CLOCK.sleep_sync(1)
        scenario.server.start()
        took, fresh = _all_loops_are_back(scenario, queue_client, delayed)
        _end_all(scenario, queue_client, [*running, *hopeless, *delayed, *fresh])
    _settle_all_but_ticks(scenario, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    report_recovery(took)


@pytest.mark.parametrize("server_args", [(*DURABLE, "--loading-process-events-interval-bytes", "1024")])
@pytest.mark.parametrize("seconds", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_fault_15_a_server_that_loads_for_seconds_is_waited_for(
    scenario: FaultScenario, queue_client: SyncQueue, seconds: int, report_recovery: Callable[[float], None]
) -> None:
    with everything_under_way(scenario, queue_client) as (running, hopeless, delayed):
        scenario.bench.command("DEBUG", "POPULATE", str((seconds + 1) * 1000))
        scenario.bench.command("BGREWRITEAOF")
        wait_until(lambda: b"aof_rewrite_in_progress:0" in scenario.bench.command("INFO", "persistence"), "rewritten")
        scenario.server.command += ["--key-load-delay", "1000"]
        scenario.server.kill()
        (scenario.directory / "gate").touch()
        start = CLOCK.monotonic()
        scenario.server.start()
        assert CLOCK.monotonic() - start > seconds, "it loaded for a while"
        took, fresh = _all_loops_are_back(scenario, queue_client, delayed)
        _end_all(scenario, queue_client, [*running, *hopeless, *delayed, *fresh])
    _settle_all_but_ticks(scenario, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    report_recovery(took)


def _lose_everything(stage: FaultScenario) -> None:
    stage.server.kill()
    stage.server.start()


LOSSES: dict[str, Callable[[FaultScenario], object]] = {
    "restart without data": _lose_everything,
    "FLUSHALL": lambda stage: stage.bench.command("FLUSHALL"),
    "DEL stream": lambda stage: stage.bench.command("DEL", stage.bench.keys.stream),
    "XGROUP DESTROY": lambda stage: stage.bench.command("XGROUP", "DESTROY", stage.bench.keys.stream, "default"),
}


@everywhere
@pytest.mark.parametrize("loss", LOSSES)
def test_fault_16_a_group_that_is_gone_is_made_again_and_new_jobs_run(
    scenario: FaultScenario, queue_client: SyncQueue, loss: str, report_recovery: Callable[[float], None]
) -> None:
    with scenario.worker() as worker:
        before = add(queue_client, count=5)
        scenario.await_end(before)
        LOSSES[loss](scenario)
        start = CLOCK.monotonic()
        after = add(queue_client, count=5)
        delayed = add(queue_client, count=2, delay_ms=100)
        wait_until(lambda: scenario.ledger.completed(after), "new jobs run")
        took = CLOCK.monotonic() - start
        scenario.await_end([*after, *delayed])
        assert worker.alive
        assert "NOGROUP" in worker.stderr_text() or "UNBLOCKED" in worker.stderr_text(), "no worker raised the alarm"
    scenario.check_accounts([*before, *after, *delayed])
    assert took <= 2
    report_recovery(took)


def test_fault_16_jobs_that_waited_when_the_group_was_destroyed_still_run_once(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    gate = scenario.directory / "gate"
    [running] = add(queue_client, ["await_file", str(gate)])
    with scenario.worker(concurrency=1):
        wait_until(lambda: scenario.ledger.runs(running), "it has begun")
        waiting = add(queue_client, count=50)
        scenario.bench.command("XGROUP", "DESTROY", scenario.bench.keys.stream, "default")
        gate.touch()
        scenario.await_end([running, *waiting])
    # the group took the memory of who runs what with it: what ran then may run again, what waited may not
    scenario.check_accounts([running, *waiting], extra_runs=1 + PREFETCH)
