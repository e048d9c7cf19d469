"""A cluster whose master dies or whose slots move under load, and callers who knock at the wrong node."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import SyncQueue, Worker
from chasqui.errors import ServerError, Unconfirmed
from chasqui.server.cluster import slot_of
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.faults.conftest import QUICK, everywhere
from tests.support.cli.subprocess_cli import SubprocessCli, cli_process
from tests.support.faults.run_ledger import RunLedger
from tests.support.faults.scenario import FaultScenario
from tests.support.processes.engines import CLOCK, wait_until
from tests.support.queue_harness import QueueHarness
from tests.support.servers.clusters import ClusterServers, cluster_servers, move_slot, replica

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from tests.support.servers.binaries import Kind
    from tests.support.servers.pool import ServerPool

__all__ = ["cli_process"]

NODE_TIMEOUT_S = 1.5


@pytest.fixture
def trio(kind: Kind, servers: ServerPool) -> Iterator[ClusterServers]:
    servers.get(kind)
    with cluster_servers(kind) as made:
        yield made


@contextmanager
def staged(trio: ClusterServers, queue: str, directory: Path) -> Iterator[FaultScenario]:
    """A stage whose server is the whole cluster."""
    home = trio.owner(Keys(queue).stream)
    with Link.open(trio.url) as link:
        bench = QueueHarness(home.server.kind, link, Commands(link.features()), queue)
        yield FaultScenario(home.server, queue, directory, bench, RunLedger(directory / "ledger"), QUICK)


class Load(threading.Thread):
    """A producer who never gives a job up: what is not confirmed is finished, what was refused is said again."""

    def __init__(self, queue: str, url: str, **options: Any) -> None:
        super().__init__(daemon=True)
        self._queue, self._url, self._options = queue, url, options
        self._over = threading.Event()
        self.confirmed: list[str] = []
        self.confirmed_at: list[float] = []
        self.troubles: list[str] = []

    def __enter__(self) -> Self:
        self.start()
        wait_until(lambda: len(self.confirmed) > 200, "there is load")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(30)
        assert not self.is_alive(), f"the producer hangs: {self.troubles[-1:]}"

    def run(self) -> None:
        with SyncQueue(self._queue, redis_url=self._url, **self._options) as queue_client:
            while not self._over.wait(0.005):
                number = len(self.confirmed)
                jobs: list[dict[str, Any]] = [
                    {"name": "job", "data": {}, "job_id": f"job-{number + n}"} for n in range(5)
                ]
                jobs[0]["delay_ms"] = 20
                self._until_confirmed(queue_client, jobs)
                self.confirmed += [str(job["job_id"]) for job in jobs]
                self.confirmed_at += [CLOCK.monotonic()] * len(jobs)

    def _until_confirmed(self, queue_client: SyncQueue, jobs: list[dict[str, Any]]) -> None:
        call: Any = lambda: queue_client.add_bulk(jobs)  # noqa: E731 - the error names the next call
        while True:
            try:
                call()
            except Unconfirmed as lost:
                self.troubles.append(str(lost))
                call = lost.retry
            except ServerError as error:
                self.troubles.append(str(error))
            else:
                return
            CLOCK.sleep_sync(0.05)

    def confirmed_after(self, moment: float) -> float:
        """How long it took from then until a call that had begun later was confirmed."""
        seen = len(self.confirmed) + 5
        wait_until(lambda: len(self.confirmed) > seen, "jobs can be added again", 30)
        return self.confirmed_at[seen] - moment


@everywhere
@pytest.mark.slow
def test_fault_22_after_a_master_was_killed_work_goes_on_with_its_replica(
    trio: ClusterServers, kind: Kind, queue: str, tmp_path: Path, report_recovery: Any
) -> None:
    with ExitStack() as stack:
        home = trio.owner(Keys(queue).stream)
        for _ in range(2):  # one to take over, one to be waited for then
            spare = stack.enter_context(replica(kind, home))
            spare.send("CONFIG", "SET", "cluster-allow-replica-migration", "no")  # it stays with this shard
        stage = stack.enter_context(staged(trio, queue, tmp_path))
        for _ in range(2):
            stack.enter_context(stage.worker(url=trio.url, concurrency=10))
        with Load(queue, trio.url, durability="replicated") as load:
            home.server.kill()
            killed = CLOCK.monotonic()
            took = load.confirmed_after(killed)
            seen = list(load.confirmed)
            wait_until(lambda: stage.ledger.completed(seen), "workers work again")
            worked = CLOCK.monotonic() - killed
        stage.await_end(load.confirmed)
        stage.check_accounts(load.confirmed, extra_runs=100)
    assert took <= NODE_TIMEOUT_S + 3
    assert worked <= NODE_TIMEOUT_S + 3 + 2  # and what was leased to be taken up again
    report_recovery(took)


@everywhere
def test_fault_23_a_slot_that_moves_under_load_thrice_loses_nothing(
    trio: ClusterServers, queue: str, tmp_path: Path, report_recovery: Any
) -> None:
    slot, home = slot_of(Keys(queue).stream), trio.owner(Keys(queue).stream)
    one, other = trio.others(home)
    took: list[float] = []
    with (
        staged(trio, queue, tmp_path) as stage,
        stage.worker(url=trio.url),
        stage.worker(url=trio.url),
    ):
        with Load(queue, trio.url) as load:
            for source, target, halfway_s in ((home, one, 0.0), (one, other, 1.0), (other, home, 0.3)):
                move_slot(trio, slot, source, target, halfway=partial(CLOCK.sleep_sync, halfway_s))
                moved = CLOCK.monotonic()
                load.confirmed_after(moved)
                seen = list(load.confirmed)
                wait_until(partial(stage.ledger.completed, seen), "readers go on")
                took.append(CLOCK.monotonic() - moved)
        stage.await_end(load.confirmed)
        stage.check_accounts(load.confirmed, extra_runs=100)
    assert max(took) <= 3
    report_recovery(max(took))


async def test_fault_24_a_plain_url_to_the_wrong_node_is_refused_with_a_hint_and_to_the_right_one_works(
    trio: ClusterServers, queue: str, cli_process: SubprocessCli
) -> None:
    home = trio.owner(Keys(queue).stream)
    wrong = trio.others(home)[0]
    with SyncQueue(queue, redis_url=f"redis://{wrong.url}") as queue_client:
        with pytest.raises(ServerError, match="MOVED") as caught:
            queue_client.add("job", {})
    assert "redis+cluster://" in str(caught.value.hint)
    with pytest.raises(ServerError, match="MOVED") as caught:
        await Worker(queue, lambda job: None, redis_url=f"redis://{wrong.url}", burst=True).run()
    assert "redis+cluster://" in str(caught.value.hint)
    result = cli_process("add", queue, "{}", "--redis-url", f"redis://{wrong.url}")
    assert result.code
    assert "Traceback" not in result.err
    assert "hint: this server is part of a cluster: use redis+cluster://" in result.err

    ran: list[str] = []
    with SyncQueue(queue, redis_url=f"redis://{home.url}") as queue_client:
        job = queue_client.add("job", {})
    await Worker(queue, lambda job: ran.append(job.id), redis_url=f"redis://{home.url}", burst=True).run()
    assert ran == [job.id]
