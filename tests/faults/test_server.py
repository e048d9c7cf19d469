"""A server that forgets, hangs up, stalls, fills up, changes its role or loses its data under running workers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import RepeatPattern, SyncQueue
from chasqui.server.link import Link
from tests.engines import CLOCK, await_that
from tests.faults.conftest import QUICK, add, everywhere
from tests.ledger import left
from tests.links import say
from tests.servers import Server, spawn
from tests.stage import stage_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Servers
    from tests.server_binaries import Kind
    from tests.stage import Stage

PREFETCH = 10
SOON = {"kind": "fixed", "delay_ms": 50, "jitter_ms": 0}


def mixture(door: SyncQueue, count: int) -> tuple[list[str], list[str]]:
    """Jobs of every sort: plain, delayed, failing at first, returning something; and hopeless ones."""
    quarter = count // 4
    good = add(door, ["sleep", 0.01], count=quarter)
    good += add(door, count=quarter, delay_ms=500)
    good += add(door, ["fail_until", 2], count=quarter, attempts=5, backoff=SOON)
    good += add(door, ["give", {"a": 1}], count=quarter)
    return good, add(door, ["be_hopeless"], count=quarter)


@everywhere
def test_fault_09_a_server_that_forgets_its_scripts_changes_nothing(stage: Stage, door: SyncQueue) -> None:
    with stage.worker(store_results=True) as worker:
        good, hopeless = mixture(door, 160)
        while left(stage.bench) != {"stream": 0, "pending": 0, "delayed": 0}:
            stage.bench.say("SCRIPT", "FLUSH")
            CLOCK.pause(0.03)
        stage.await_end([*good, *hopeless])
        assert "NOSCRIPT" not in worker.said(), "a loop took it for trouble"
    stage.settle([*good, *hopeless], dead=hopeless)
    expected = {1: 160, 3: 40}
    found = list(stage.ledger.starts().values())
    assert {times: found.count(times) for times in set(found)} == expected


@everywhere
def test_fault_10_connections_killed_again_and_again_are_back_within_two_seconds(
    stage: Stage, door: SyncQueue, recovered: Callable[[float], None]
) -> None:
    with stage.worker(concurrency=10), stage.worker(concurrency=10):
        good, hopeless = mixture(door, 160)
        for _ in range(25):
            stage.bench.say("CLIENT", "KILL", "TYPE", "normal")
            CLOCK.pause(0.1)
        more = add(door, count=20)
        took = await_that(lambda: stage.ledger.completed(more), "it works again")
        stage.await_end([*good, *hopeless, *more])
    assert took <= 2
    stage.settle([*good, *hopeless, *more], dead=hopeless)
    recovered(took)


@pytest.mark.parametrize("words", [("DEBUG", "SLEEP", "1.6"), ("CLIENT", "PAUSE", "1600", "ALL")])
def test_fault_11_a_stall_of_most_of_a_lease_makes_nobody_steal(
    stage: Stage, door: SyncQueue, words: tuple[str, ...], recovered: Callable[[float], None]
) -> None:
    lease: dict[str, Any] = {"claim_min_idle_ms": 2000, "heartbeat_ms": 600, "concurrency": 5}
    with stage.worker(**lease), stage.worker(**lease):
        ids = add(door, ["sleep", 3.0], count=5)
        await_that(lambda: len(stage.ledger.starts()) == 5, "all have begun")
        stage.bench.say(*words)
        more = add(door, count=5)
        took = await_that(lambda: stage.ledger.completed(more), "it works again")
        stage.await_end([*ids, *more])
    stage.settle([*ids, *more])
    assert set(stage.ledger.starts().values()) == {1}
    recovered(took)


@contextmanager
def everything_under_way(stage: Stage, door: SyncQueue) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Before the trouble: jobs running, a schedule firing, delays that fall due during it."""
    gate = stage.directory / "gate"
    door.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200))
    running = add(door, ["await_file", str(gate)], count=4)
    running += add(door, ["await_file", str(gate)], ["fail_until", 1], count=4, attempts=3, backoff=SOON)
    hopeless = add(door, ["await_file", str(gate)], ["be_hopeless"], count=4)
    delayed = add(door, count=4, delay_ms=1500)
    with stage.worker(concurrency=20):
        await_that(lambda: set(running) | set(hopeless) <= set(stage.ledger.starts()), "all have begun")
        await_that(lambda: _ticks(stage), "the schedule fires")
        yield running, hopeless, delayed


def _ticks(stage: Stage) -> int:
    return sum(run.name == "tick" for run in stage.ledger.runs())


def _all_loops_are_back(stage: Stage, door: SyncQueue, delayed: list[str]) -> tuple[float, list[str]]:
    """How long until what was delayed, what is delayed now and the schedule all run again; and what was added."""
    start, before = CLOCK.mono(), _ticks(stage)
    fresh = add(door, count=2, delay_ms=100)
    await_that(lambda: stage.ledger.completed([*delayed, *fresh]), "the promoter is back", 10)
    await_that(lambda: _ticks(stage) > before, "the scheduler is back", 10)
    return CLOCK.mono() - start, fresh


def _settle_all_but_ticks(stage: Stage, added: list[str], hopeless: list[str]) -> None:
    """Nothing ran twice either: a worker that lived through the trouble remembers what it has done."""
    ticks = {run.id for run in stage.ledger.runs() if run.name == "tick"}
    stage.settle([*added, *hopeless, *ticks], dead=hopeless)


def _end_all(stage: Stage, door: SyncQueue, added: list[str]) -> None:
    [spec] = door.get_repeatable_jobs()
    assert door.remove_repeatable_by_key(spec.key)
    stage.await_end(added)


@everywhere
@pytest.mark.parametrize("seconds", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_fault_12_after_the_server_was_full_every_loop_is_back_and_nothing_is_lost(
    stage: Stage, door: SyncQueue, seconds: int, recovered: Callable[[float], None]
) -> None:
    with everything_under_way(stage, door) as (running, hopeless, delayed):
        stage.bench.say("CONFIG", "SET", "maxmemory", "1")
        (stage.directory / "gate").touch()
        CLOCK.pause(seconds)
        stage.bench.say("CONFIG", "SET", "maxmemory", "0")
        took, fresh = _all_loops_are_back(stage, door, delayed)
        _end_all(stage, door, [*running, *hopeless, *delayed, *fresh])
    _settle_all_but_ticks(stage, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    recovered(took)


class Node:
    """A server with a line of its own, for what is done to servers behind everybody's back."""

    def __init__(self, server: Server, link: Link) -> None:
        self.server, self._link = server, link

    def tell(self, *words: str) -> Any:
        return self._link.run(say(*words))

    def info(self, name: str) -> str:
        """One line of INFO replication."""
        lines: list[str] = self.tell("INFO", "replication").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line).get(name, "")

    def follow(self, master: Node) -> None:
        self.tell("REPLICAOF", "127.0.0.1", str(master.server.port))
        await_that(lambda: self.info("master_link_status") == "up", "the replica is in step")
        await_that(lambda: "state=online" in master.info("slave0"), "the master knows it")

    def fail_over(self) -> None:
        await_that(lambda: "state=online" in self.info("slave0"), "there is a replica")
        self.tell("FAILOVER", "TIMEOUT", "5000")
        await_that(lambda: self.info("role") == "slave", "the roles have changed")


@pytest.fixture
def two_nodes(kind: Kind, servers: Servers) -> Iterator[tuple[Node, Node]]:
    servers.get(kind)
    args = ("--repl-diskless-sync-delay", "0")
    with spawn(kind, tcp=True, args=args) as first, spawn(kind, tcp=True, args=args) as second:
        with Link.open(first.url) as to_first, Link.open(second.url) as to_second:
            yield Node(first, to_first), Node(second, to_second)


@everywhere
def test_fault_13_after_three_seconds_as_a_replica_every_loop_is_back(
    two_nodes: tuple[Node, Node], queue: str, tmp_path: Path, recovered: Callable[[float], None]
) -> None:
    first, second = two_nodes
    url = first.server.url
    with stage_on(first.server, queue, tmp_path, **QUICK) as stage, SyncQueue(queue, redis_url=url) as door:
        second.follow(first)
        with everything_under_way(stage, door) as (running, hopeless, delayed):
            first.fail_over()
            (tmp_path / "gate").touch()
            CLOCK.pause(3)
            second.fail_over()
            await_that(lambda: first.info("role") == "master", "the roles are as before")
            took, fresh = _all_loops_are_back(stage, door, delayed)
            _end_all(stage, door, [*running, *hopeless, *delayed, *fresh])
        _settle_all_but_ticks(stage, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    recovered(took)


DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@everywhere
@pytest.mark.parametrize("server_args", [DURABLE], ids=["durable"])
def test_fault_15_a_server_killed_and_started_again_with_its_data_loses_nothing(
    stage: Stage, door: SyncQueue, recovered: Callable[[float], None]
) -> None:
    with everything_under_way(stage, door) as (running, hopeless, delayed):
        stage.server.kill()
        (stage.directory / "gate").touch()
        CLOCK.pause(1)
        stage.server.start()
        took, fresh = _all_loops_are_back(stage, door, delayed)
        _end_all(stage, door, [*running, *hopeless, *delayed, *fresh])
    _settle_all_but_ticks(stage, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    recovered(took)


@pytest.mark.parametrize("server_args", [(*DURABLE, "--loading-process-events-interval-bytes", "1024")])
@pytest.mark.parametrize("seconds", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_fault_15_a_server_that_loads_for_seconds_is_waited_for(
    stage: Stage, door: SyncQueue, seconds: int, recovered: Callable[[float], None]
) -> None:
    with everything_under_way(stage, door) as (running, hopeless, delayed):
        stage.bench.say("DEBUG", "POPULATE", str((seconds + 1) * 1000))
        stage.bench.say("BGREWRITEAOF")
        await_that(
            lambda: b"aof_rewrite_in_progress:0" in stage.bench.say("INFO", "persistence"), "rewritten"
        )
        stage.server.command += ["--key-load-delay", "1000"]
        stage.server.kill()
        (stage.directory / "gate").touch()
        start = CLOCK.mono()
        stage.server.start()
        assert CLOCK.mono() - start > seconds, "it loaded for a while"
        took, fresh = _all_loops_are_back(stage, door, delayed)
        _end_all(stage, door, [*running, *hopeless, *delayed, *fresh])
    _settle_all_but_ticks(stage, [*running, *delayed, *fresh], hopeless)
    assert took <= 5
    recovered(took)


def _lose_everything(stage: Stage) -> None:
    stage.server.kill()
    stage.server.start()


LOSSES: dict[str, Callable[[Stage], object]] = {
    "restart without data": _lose_everything,
    "FLUSHALL": lambda stage: stage.bench.say("FLUSHALL"),
    "DEL stream": lambda stage: stage.bench.say("DEL", stage.bench.keys.stream),
    "XGROUP DESTROY": lambda stage: stage.bench.say("XGROUP", "DESTROY", stage.bench.keys.stream, "default"),
}


@everywhere
@pytest.mark.parametrize("loss", LOSSES)
def test_fault_16_a_group_that_is_gone_is_made_again_and_new_jobs_run(
    stage: Stage, door: SyncQueue, loss: str, recovered: Callable[[float], None]
) -> None:
    with stage.worker() as worker:
        before = add(door, count=5)
        stage.await_end(before)
        LOSSES[loss](stage)
        start = CLOCK.mono()
        after = add(door, count=5)
        delayed = add(door, count=2, delay_ms=100)
        await_that(lambda: stage.ledger.completed(after), "new jobs run")
        took = CLOCK.mono() - start
        stage.await_end([*after, *delayed])
        assert worker.alive
        assert "NOGROUP" in worker.said() or "UNBLOCKED" in worker.said(), "nobody raised the alarm"
    stage.settle([*before, *after, *delayed])
    assert took <= 2
    recovered(took)


def test_fault_16_jobs_that_waited_when_the_group_was_destroyed_still_run_once(
    stage: Stage, door: SyncQueue
) -> None:
    gate = stage.directory / "gate"
    [running] = add(door, ["await_file", str(gate)])
    with stage.worker(concurrency=1):
        await_that(lambda: stage.ledger.runs(running), "it has begun")
        waiting = add(door, count=50)
        stage.bench.say("XGROUP", "DESTROY", stage.bench.keys.stream, "default")
        gate.touch()
        stage.await_end([running, *waiting])
    # the group took the memory of who runs what with it: what ran then may run again, what waited may not
    stage.settle([running, *waiting], extra_runs=1 + PREFETCH)
