"""Producers and a network that loses replies: every job is added once, and the caller knows what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui import Link, Unconfirmed, Unreachable
from chasqui.errors import ServerError
from chasqui.server.commands import Commands
from tests.support.faults.proxy import Proxy, proxy_to
from tests.support.queue_harness import QueueHarness
from tests.support.queues import both_queues, delayed_jobs, waiting_jobs
from tests.support.servers.server import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Opener = Callable[..., Any]

JOBS = [{"name": "n", "data": number} for number in range(1200)]


@pytest.fixture
def bench(server: Server, queue: str) -> Iterator[QueueHarness]:
    with Link.open(server.url) as link:
        yield QueueHarness(server.kind, link, Commands(link.features()), queue)


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxy_to(server.socket) as made:
        yield made


CALLS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda producer: producer.add("n", 1),
    "named": lambda producer: producer.add("n", 1, job_id="x"),
    "unique": lambda producer: producer.add_unique("n", 1, job_id="x"),
    "delayed": lambda producer: producer.add("n", 1, delay_ms=60_000),
    "delayed and named": lambda producer: producer.add("n", 1, delay_ms=60_000, job_id="x"),
    "repeated": lambda producer: producer.add("n", 1, repeat={"kind": "every", "interval_ms": 60_000}),
}
ADDS = [what for what in CALLS if what != "repeated"]


@both_queues
@pytest.mark.parametrize("what", ADDS)
async def test_a_reply_lost_once_is_not_even_noticed(
    bench: QueueHarness, proxy: Proxy, open_queue: Opener, queue: str, what: str
) -> None:
    async with open_queue(queue, redis_url=proxy.url, on_full="grow") as producer:
        await producer.peek_dlq()
        proxy.lose_replies = 1
        job = await CALLS[what](producer)
        assert proxy.lose_replies == 0
    assert job.created
    assert len(waiting_jobs(bench)) + len(delayed_jobs(bench)) == 1


@both_queues
async def test_a_delayed_job_that_became_due_before_the_second_try_is_not_scheduled_again(
    bench: QueueHarness, proxy: Proxy, open_queue: Opener, queue: str
) -> None:
    def promoted_and_lost() -> bool:
        proxy.mischief = lambda: False
        return bool(bench.command("DEL", bench.keys.delayed))

    async with open_queue(queue, redis_url=proxy.url) as producer:
        await producer.peek_dlq()
        proxy.mischief = promoted_and_lost
        await producer.add("n", 1, delay_ms=60_000)
    assert delayed_jobs(bench) == {}


@both_queues
@pytest.mark.parametrize("passed", [0, 5, 24, 60])
async def test_a_bulk_whose_replies_are_lost_twice_can_be_finished_without_doubles(
    bench: QueueHarness, proxy: Proxy, open_queue: Opener, queue: str, passed: int
) -> None:
    async with open_queue(queue, redis_url=proxy.url, on_full="grow") as producer:
        await producer.peek_dlq()
        proxy.lose_replies, proxy.let_through = 2, passed
        with pytest.raises(Unconfirmed, match="1200 of 1200 jobs are not known to be added") as lost:
            await producer.add_bulk(JOBS)
        assert isinstance(lost.value.__cause__, Unreachable)
        assert lost.value.transient
        assert lost.value.written == [None] * 1200
        assert lost.value.jobs[-1].data == 1199
        finished = lost.value.retry()
        added = await finished if hasattr(finished, "__await__") else finished
    assert [job.id for job in added] == [job.id for job in lost.value.jobs]
    assert waiting_jobs(bench) == [(job.id, "n", job.data) for job in added]


@both_queues
async def test_what_is_known_to_be_added_is_not_sent_again(
    bench: QueueHarness, proxy: Proxy, open_queue: Opener, queue: str
) -> None:
    many = [{"name": "n", "data": number} for number in range(10_500)]
    async with open_queue(queue, redis_url=proxy.url, on_full="grow") as producer:
        await producer.peek_dlq()
        proxy.mischief = lambda: bench.command("XLEN", bench.keys.stream) > 10_000
        with pytest.raises(Unconfirmed, match="500 of 10500 jobs are not known to be added") as lost:
            await producer.add_bulk(many)
        assert lost.value.written == [True] * 10_000 + [None] * 500
        proxy.mischief = lambda: False
        before = len(proxy.requests)
        finished = lost.value.retry()
        added = await finished if hasattr(finished, "__await__") else finished
        assert len(proxy.requests) - before < 100_000
    assert [data for _, _, data in waiting_jobs(bench)] == list(range(10_500))
    assert len(added) == 10_500


@both_queues
async def test_what_cannot_have_reached_the_server_raises_its_own_error(open_queue: Opener, queue: str) -> None:
    async with open_queue(queue, redis_url="redis://127.0.0.1:1") as producer:
        for call in CALLS.values():
            with pytest.raises(Unreachable, match="nothing listens"):
                await call(producer)
        with pytest.raises(Unreachable, match="nothing listens"):
            await producer.add_bulk(JOBS)


@both_queues
async def test_a_server_that_becomes_full_on_the_way_keeps_what_it_took(
    bench: QueueHarness, open_queue: Opener, queue: str
) -> None:
    large = [{"name": "n", "data": "x" * 2000} for _ in range(20_000)]
    with start_server(kind_of(bench), args=["--maxmemory", "20mb"]) as small, Link.open(small.url) as link:
        boss = QueueHarness("small", link, Commands(link.features()), queue)
        async with open_queue(queue, redis_url=small.url) as producer:
            with pytest.raises(Unconfirmed, match="OOM") as full:
                await producer.add_bulk(large)
            held = len(waiting_jobs(boss))
            assert 500 <= held == full.value.written.count(True)
            assert None not in full.value.written
            boss.command("CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(ServerError, match="OOM") as refused:
                await producer.add("n", 1)
            assert not isinstance(refused.value, Unconfirmed)
            boss.command("CONFIG", "SET", "maxmemory", 0)
            finished = full.value.retry()
            added = await finished if hasattr(finished, "__await__") else finished
        assert len(waiting_jobs(boss)) == len(added) == 20_000


def kind_of(bench: QueueHarness) -> Any:
    return bench.label
