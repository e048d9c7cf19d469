"""A master that dies before its replica has everything: what was added with `durability="replicated"` is not lost."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import SyncQueue
from chasqui.errors import ServerError, Unconfirmed
from tests.faults.conftest import QUICK, everywhere
from tests.faults.test_server import Node, two_nodes
from tests.support.cli.subprocess_cli import SubprocessCli, cli_process
from tests.support.faults.scenario import fault_scenario
from tests.support.processes.engines import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from chasqui.produce.queue_base import Durability

__all__ = ["cli_process", "two_nodes"]


@contextmanager
def lagging(replica: Node) -> Iterator[None]:
    """It gets no further for this long, and no client notices: its connection stays."""
    os.kill(replica.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(replica.server.pid, signal.SIGCONT)


def _crash(master: Node, replica: Node) -> None:
    """The master dies while the replica still lags; what had not come across by then never comes."""
    with lagging(replica):
        master.server.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    wait_until(lambda: replica.info("role") == "master", "it is the master now")


def _present(replica: Node, queue: str) -> int:
    length: int = replica.command("XLEN", f"{{chasqui:{queue}}}:stream")
    return length


@everywhere
def test_fault_14_a_crash_loses_no_more_than_was_added_while_the_replica_lagged(
    two_nodes: tuple[Node, Node], queue: str
) -> None:
    first, second = two_nodes
    second.follow(first)
    with SyncQueue(queue, redis_url=first.server.url) as queue_client:
        queue_client.add_bulk([{"name": "job", "data": n} for n in range(500)])
        wait_until(lambda: _present(second, queue) == 500, "the replica has them")
        with lagging(second):
            queue_client.add_bulk([{"name": "job", "data": n} for n in range(500)])
            first.server.kill()
        second.command("REPLICAOF", "NO", "ONE")
    assert 500 <= _present(second, queue) <= 1000


class Insistent(threading.Thread):
    """A producer that goes on until its server is gone, and records what was confirmed."""

    def __init__(self, queue: str, url: str, durability: Durability) -> None:
        super().__init__(daemon=True)
        self._queue, self._url, self._durability = queue, url, durability
        self.confirmed: list[str] = []
        self.tried: list[str] = []

    def run(self) -> None:
        with SyncQueue(self._queue, redis_url=self._url, durability=self._durability) as queue_client:
            number = 0
            while True:
                ids = [f"job-{number + n}" for n in range(3)]
                number += 3
                self.tried += ids
                later: dict[str, Any] = {"delay_ms": 50} if number % 2 else {}
                try:
                    queue_client.add_bulk([{"name": "job", "data": {}, "job_id": job_id, **later} for job_id in ids])
                except Unconfirmed as lost:
                    self.confirmed += [i for i, known in zip(ids, lost.written, strict=True) if known]
                    return
                except ServerError:
                    return
                self.confirmed += ids


@everywhere
def test_fault_14_what_a_replica_was_waited_for_survives_a_crash_under_load(
    two_nodes: tuple[Node, Node], queue: str, tmp_path: Path, report_recovery: Callable[[float], None]
) -> None:
    first, second = two_nodes
    second.follow(first)
    producer = Insistent(queue, first.server.url, "replicated")
    producer.start()
    wait_until(lambda: len(producer.confirmed) > 300, "there is load")
    _crash(first, second)
    producer.join(30)
    with fault_scenario(second.server, queue, tmp_path, **QUICK) as stage, stage.worker(concurrency=20):
        took = stage.await_end(producer.confirmed)
        unsure = set(stage.ledger.completions()) - set(producer.confirmed)
        assert unsure <= set(producer.tried)
        stage.check_accounts([*producer.confirmed, *unsure])
    report_recovery(took)


@everywhere
def test_fault_14_a_replica_that_lags_is_an_error_that_can_be_finished(
    two_nodes: tuple[Node, Node], queue: str
) -> None:
    first, second = two_nodes
    second.follow(first)
    with SyncQueue(queue, redis_url=first.server.url, durability="replicated") as queue_client:
        with lagging(second):
            with pytest.raises(Unconfirmed, match="0 of 1 replicas") as caught:
                queue_client.add_bulk([{"name": "job", "data": n} for n in range(1500)])
            with pytest.raises(Unconfirmed):
                queue_client.add_unique("job", {}, job_id="one")
            with pytest.raises(Unconfirmed, match="0 of 1 replicas"):
                caught.value.retry()  # writes nothing, and yet waits for what was written
        caught.value.retry()
        assert queue_client.add_unique("job", {}, job_id="one").created is False
    assert _present(second, queue) == 1501


def test_fault_14_a_script_that_was_forgotten_is_waited_for_too(two_nodes: tuple[Node, Node], queue: str) -> None:
    """The server replies to WAIT before it has run what it was sent again: WAIT is sent again."""
    first, second = two_nodes
    second.follow(first)
    with SyncQueue(queue, redis_url=first.server.url, durability="replicated") as queue_client:
        queue_client.add_unique("job", {}, job_id="first")
        with lagging(second):
            first.command("SCRIPT", "FLUSH")
            with pytest.raises(Unconfirmed, match="0 of 1 replicas"):
                queue_client.add_unique("job", {}, job_id="second")


def test_fault_14_the_command_line_waits_for_a_replica_too(
    two_nodes: tuple[Node, Node], queue: str, cli_process: SubprocessCli
) -> None:
    first, second = two_nodes
    words = ("add", queue, "{}", "--durability", "replicated", "--redis-url", first.server.url)
    refused = cli_process(*words)
    assert refused.code
    assert "0 of 1 replicas" in refused.err
    second.follow(first)
    assert cli_process(*words).code == 0
    assert _present(second, queue) == 2
