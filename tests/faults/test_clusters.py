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
from tests.cli.shell import Shell, shell
from tests.clusters import TestCluster, cluster, move_slot, replica
from tests.engines import CLOCK, await_that
from tests.faults.conftest import QUICK, everywhere
from tests.ledger import Ledger
from tests.live.bench import Bench
from tests.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from tests.conftest import Servers
    from tests.server_binaries import Kind

__all__ = ["shell"]

NODE_TIMEOUT_S = 1.5


@pytest.fixture
def trio(kind: Kind, servers: Servers) -> Iterator[TestCluster]:
    servers.get(kind)
    with cluster(kind) as made:
        yield made


@contextmanager
def staged(trio: TestCluster, queue: str, directory: Path) -> Iterator[Stage]:
    """A stage whose server is the whole cluster."""
    home = trio.owner(Keys(queue).stream)
    with Link.open(trio.url) as link:
        bench = Bench(home.server.kind, link, Commands(link.features()), queue)
        yield Stage(home.server, queue, directory, bench, Ledger(directory / "ledger"), QUICK)


class Load(threading.Thread):
    """A producer who never gives a job up: what is not confirmed is finished, what was refused is said again."""

    def __init__(self, queue: str, url: str, **options: Any) -> None:
        super().__init__(daemon=True)
        self._queue, self._url, self._options = queue, url, options
        self._over = threading.Event()
        self.confirmed: list[str] = []
        self.told_at: list[float] = []
        self.troubles: list[str] = []

    def __enter__(self) -> Self:
        self.start()
        await_that(lambda: len(self.confirmed) > 200, "there is load")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(30)
        assert not self.is_alive(), f"the producer hangs: {self.troubles[-1:]}"

    def run(self) -> None:
        with SyncQueue(self._queue, redis_url=self._url, **self._options) as door:
            while not self._over.wait(0.005):
                number = len(self.confirmed)
                jobs: list[dict[str, Any]] = [
                    {"name": "job", "data": {}, "job_id": f"job-{number + n}"} for n in range(5)
                ]
                jobs[0]["delay_ms"] = 20
                self._until_confirmed(door, jobs)
                self.confirmed += [str(job["job_id"]) for job in jobs]
                self.told_at += [CLOCK.mono()] * len(jobs)

    def _until_confirmed(self, door: SyncQueue, jobs: list[dict[str, Any]]) -> None:
        call: Any = lambda: door.add_bulk(jobs)  # noqa: E731 - the next call is what the error says
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
            CLOCK.pause(0.05)

    def confirmed_after(self, moment: float) -> float:
        """How long it took from then until a call that had begun later was confirmed."""
        seen = len(self.confirmed) + 5
        await_that(lambda: len(self.confirmed) > seen, "jobs can be added again", 30)
        return self.told_at[seen] - moment


@everywhere
@pytest.mark.slow
def test_fault_22_after_a_master_was_killed_work_goes_on_with_its_replica(
    trio: TestCluster, kind: Kind, queue: str, tmp_path: Path, recovered: Any
) -> None:
    with ExitStack() as stack:
        home = trio.owner(Keys(queue).stream)
        for _ in range(2):  # one to take over, one to be waited for then
            spare = stack.enter_context(replica(kind, home))
            spare.tell("CONFIG", "SET", "cluster-allow-replica-migration", "no")  # it stays with this shard
        stage = stack.enter_context(staged(trio, queue, tmp_path))
        for _ in range(2):
            stack.enter_context(stage.worker(url=trio.url, concurrency=10))
        with Load(queue, trio.url, durability="replicated") as load:
            home.server.kill()
            killed = CLOCK.mono()
            took = load.confirmed_after(killed)
            seen = list(load.confirmed)
            await_that(lambda: stage.ledger.completed(seen), "workers work again")
            worked = CLOCK.mono() - killed
        stage.await_end(load.confirmed)
        stage.settle(load.confirmed, extra_runs=100)
    assert took <= NODE_TIMEOUT_S + 3
    assert worked <= NODE_TIMEOUT_S + 3 + 2  # and what was leased to be taken up again
    recovered(took)


@everywhere
def test_fault_23_a_slot_that_moves_under_load_thrice_loses_nothing(
    trio: TestCluster, queue: str, tmp_path: Path, recovered: Any
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
                move_slot(trio, slot, source, target, halfway=partial(CLOCK.pause, halfway_s))
                moved = CLOCK.mono()
                load.confirmed_after(moved)
                seen = list(load.confirmed)
                await_that(partial(stage.ledger.completed, seen), "readers go on")
                took.append(CLOCK.mono() - moved)
        stage.await_end(load.confirmed)
        stage.settle(load.confirmed, extra_runs=100)
    assert max(took) <= 3
    recovered(max(took))


async def test_fault_24_a_plain_url_to_the_wrong_node_is_told_and_to_the_right_one_works(
    trio: TestCluster, queue: str, shell: Shell
) -> None:
    home = trio.owner(Keys(queue).stream)
    wrong = trio.others(home)[0]
    with SyncQueue(queue, redis_url=f"redis://{wrong.url}") as door:
        with pytest.raises(ServerError, match="MOVED") as caught:
            door.add("job", {})
    assert "redis+cluster://" in str(caught.value.hint)
    with pytest.raises(ServerError, match="MOVED") as caught:
        await Worker(queue, lambda job: None, redis_url=f"redis://{wrong.url}", burst=True).run()
    assert "redis+cluster://" in str(caught.value.hint)
    told = shell("add", queue, "{}", "--redis-url", f"redis://{wrong.url}")
    assert told.code
    assert "Traceback" not in told.err
    assert "hint: this server is part of a cluster: use redis+cluster://" in told.err

    ran: list[str] = []
    with SyncQueue(queue, redis_url=f"redis://{home.url}") as door:
        job = door.add("job", {})
    await Worker(queue, lambda job: ran.append(job.id), redis_url=f"redis://{home.url}", burst=True).run()
    assert ran == [job.id]
