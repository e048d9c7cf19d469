"""Following events on real servers: nothing missed, nothing read twice, and no gap that is not reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.defaults import FollowOptions as TailOptions
from chasqui.errors import ArgumentError, ServerError
from chasqui.inspect.events import Gap, StoredEvent
from chasqui.queue_events import EventFollower, QueueEvent, QueueEvents
from chasqui.server.flow import Arg, Call
from chasqui.server.link import AsyncLink, Link
from chasqui.wire.keys import Keys
from tests.support.faults.proxy import proxy_to
from tests.support.links import command, command_batch
from tests.support.servers.clusters import cluster_servers
from tests.support.servers.server import Server, start_server

CLOCK = SystemClock()
MANY = 20_000


def event(keys: Keys, number: object, entry_id: str = "*") -> Call:
    words = (
        "XADD",
        keys.events,
        entry_id,
        "e",
        "active",
        "id",
        str(number),
        "ts",
        1,
        "n",
        "mail",
        "attempt",
        1,
    )
    return Call(words, keys=(keys.events,))


def add_events(server: Server, *calls: Call) -> None:
    with Link.open(server.url) as link:
        link.run(command_batch(*calls))


def do(server: Server, *words: Arg) -> Any:
    with Link.open(server.url) as link:
        return link.run(command(*words))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await CLOCK.sleep(0.005)


@asynccontextmanager
async def following(events: QueueEvents) -> AsyncIterator[list[QueueEvent | Gap]]:
    """What is received, as it grows."""
    received: list[QueueEvent | Gap] = []

    async def listen() -> None:
        async for one in events.with_gaps():
            received.append(one)  # noqa: PERF401 - others watch it grow

    async with events:
        task = asyncio.create_task(listen())
        try:
            yield received
        finally:
            await events.close()
            await asyncio.wait_for(task, 5)


def jobs(received: list[QueueEvent | Gap]) -> list[str | None]:
    return [one.job_id for one in received if isinstance(one, QueueEvent)]


def gaps(received: list[QueueEvent | Gap]) -> list[tuple[str, int | None]]:
    return [(one.why, one.lost_estimate) for one in received if isinstance(one, Gap)]


async def test_an_event_is_read_with_the_fields_users_know(server: Server, queue: str) -> None:
    keys = Keys(queue)
    events = QueueEvents(queue, redis_url=server.url, last_event_id="0", block_ms=100)
    assert events.name == queue
    words = ("XADD", keys.events, "5-1", "e", "failed", "id", "j", "ts", 7, "n", "mail", "attempt", 2)
    extras = ("reason", "no\xff such", "duration_us", 12, "backoff_ms", "soon", "of", "others")
    add_events(server, Call((*words, *extras)), Call(("XADD", keys.events, "6-0", "e", "drained", "id", "", "ts", 8)))
    iterator = aiter(events)
    first, second = await anext(iterator), await anext(iterator)
    assert first == QueueEvent(
        name="failed",
        job_id="j",
        job_name="mail",
        fields={
            "ts": 7, "attempt": 2, "reason": "no\xff such", "duration_us": 12, "backoff_ms": "soon", "of": "others",
        },
        queue=queue,
        entry_id="5-1",
    )  # fmt: skip
    assert (second.name, second.job_id, second.job_name, second.fields) == ("drained", None, "", {"ts": 8})
    await events.close()


async def test_of_a_tight_producer_not_one_event_is_missed(server: Server, queue: str) -> None:
    """The producer is never idle between two polls, so a `$` asked for again each time would lose events."""
    keys, producing = Keys(queue), 0

    def produce(link: Link) -> None:
        nonlocal producing
        for start in range(0, MANY, 50):
            link.run(command_batch(*(event(keys, number) for number in range(start, start + 50))))
            producing = start + 50

    events = QueueEvents(queue, redis_url=server.url, count=7 if server.kind == "redis-7.0" else 100)
    with Link.open(server.url) as link:
        async with following(events) as received:
            work = asyncio.create_task(asyncio.to_thread(produce, link))
            await until(lambda: len(received) >= MANY)
            await work
    assert jobs(received) == [str(number) for number in range(MANY)]
    assert gaps(received) == []


async def test_events_that_come_between_two_reads_are_read_later(server: Server, queue: str) -> None:
    events, received = QueueEvents(queue, redis_url=server.url, block_ms=10), []
    async with events:
        iterator = aiter(events)
        for number in range(5):
            add_events(server, event(Keys(queue), 2 * number), event(Keys(queue), 2 * number + 1))
            received += [(await anext(iterator)).job_id, (await anext(iterator)).job_id]
    assert received == [str(number) for number in range(10)]


async def test_a_second_iteration_goes_on_where_the_first_was_left(server: Server, queue: str) -> None:
    events = QueueEvents(queue, redis_url=server.url, last_event_id="0")
    add_events(server, *(event(Keys(queue), number) for number in range(6)))
    received = []
    for _ in range(3):
        async for one in events:
            received.append(one.job_id)
            if len(received) % 2 == 0:
                break
    assert received == ["0", "1", "2", "3", "4", "5"]
    await events.close()


async def test_reading_resumes_after_an_id(server: Server, queue: str) -> None:
    add_events(server, *(event(Keys(queue), number) for number in range(4)))
    events = QueueEvents(queue, redis_url=server.url, last_event_id="0")
    second = [one async for one in _first(events, 2)][-1]
    await events.close()
    later = QueueEvents(queue, redis_url=server.url, last_event_id=second.entry_id)
    assert [one.job_id async for one in _first(later, 2)] == ["2", "3"]
    await later.close()


async def _first(events: QueueEvents, most: int) -> AsyncIterator[QueueEvent]:
    numbers = count(1)
    async for one in events:
        yield one
        if next(numbers) == most:
            return


async def test_closing_ends_a_wait_at_once(server: Server, queue: str) -> None:
    events = QueueEvents(queue, redis_url=server.url, block_ms=60_000)
    async with following(events) as received:
        await CLOCK.sleep(0)
        began = CLOCK.monotonic()
        await events.close()
    assert CLOCK.monotonic() - began < 10
    assert received == []


async def test_a_link_that_was_lent_stays_open(server: Server, queue: str) -> None:
    async with AsyncLink.open(server.url) as link:
        async with QueueEvents(queue, link=link) as events:
            add_events(server, event(Keys(queue), "1"))
            assert (await anext(aiter(events))).job_id == "1"
        assert await link.run(command("PING")) == b"PONG"


async def test_tls_turns_a_plain_url_into_a_secured_one() -> None:
    events = QueueEvents("q", redis_url="redis://127.0.0.1:1", tls=True)
    assert str(events._link.address) == "rediss://127.0.0.1:1"
    await events.close()


async def test_a_wrong_start_is_an_error(server: Server, queue: str) -> None:
    events = QueueEvents(queue, redis_url=server.url, last_event_id="yesterday")
    with pytest.raises(ArgumentError, match="is no event id"):
        await anext(aiter(events))
    await events.close()


async def test_a_missing_server_is_an_error_when_the_context_is_entered() -> None:
    with pytest.raises(ServerError, match="nothing listens"):
        async with QueueEvents("q", redis_url="redis://127.0.0.1:1"):
            pass


# What is lost is reported


async def test_a_trim_during_an_outage_is_reported_with_the_number_lost(server: Server, queue: str) -> None:
    keys = Keys(queue)
    with proxy_to(server.socket) as proxy:
        async with following(QueueEvents(queue, redis_url=proxy.url, block_ms=100)) as received:
            add_events(server, event(keys, "before"))
            await until(lambda: jobs(received) == ["before"])
            proxy.refuse()
            add_events(server, *(event(keys, number) for number in range(100)))
            do(server, "XTRIM", keys.events, "MAXLEN", 10)
            proxy.listen()
            await until(lambda: len(jobs(received)) == 11)
    assert gaps(received) == [("trimmed", 90)]
    assert isinstance(received[1], Gap)
    assert jobs(received) == ["before", *(str(number) for number in range(90, 100))]


async def test_a_trim_before_anything_was_read_is_not_a_loss(server: Server, queue: str) -> None:
    keys = Keys(queue)
    add_events(server, *(event(keys, number) for number in range(100)))
    do(server, "XTRIM", keys.events, "MAXLEN", 10)
    async with following(QueueEvents(queue, redis_url=server.url, last_event_id="0", block_ms=50)) as received:
        await until(lambda: len(jobs(received)) == 10)
        do(server, "XTRIM", keys.events, "MAXLEN", 0)
        add_events(server, event(keys, "after"))
        await until(lambda: len(jobs(received)) == 11)
    assert gaps(received) == []


async def test_a_deleted_stream_is_reported_and_followed_again(server: Server, queue: str) -> None:
    keys = Keys(queue)
    async with following(QueueEvents(queue, redis_url=server.url, block_ms=50)) as received:
        add_events(server, event(keys, "1"))
        await until(lambda: jobs(received) == ["1"])
        do(server, "DEL", keys.events)
        await until(lambda: gaps(received) == [("deleted", None)])
        add_events(server, event(keys, "2"))
        await until(lambda: jobs(received) == ["1", "2"])
    assert gaps(received) == [("deleted", None)]


async def test_a_stream_created_again_between_two_reads_is_reported(server: Server, queue: str) -> None:
    keys = Keys(queue)
    async with following(QueueEvents(queue, redis_url=server.url, block_ms=60_000)) as received:
        add_events(server, *(event(keys, number) for number in range(3)))
        await until(lambda: len(jobs(received)) == 3)
        add_events(server, Call(("DEL", keys.events)), event(keys, "new"))
        await until(lambda: jobs(received)[3:] == ["new"])
    assert gaps(received) == [("recreated", None)]


async def test_a_stream_created_again_with_lower_ids_is_read_from_its_beginning(server: Server, queue: str) -> None:
    keys = Keys(queue)
    async with following(QueueEvents(queue, redis_url=server.url, block_ms=50)) as received:
        add_events(server, event(keys, "high", "99999999999999-0"))
        await until(lambda: jobs(received) == ["high"])
        add_events(server, Call(("DEL", keys.events)), event(keys, "low", "5-0"), event(keys, "lower", "6-0"))
        await until(lambda: jobs(received)[1:] == ["low", "lower"])
    assert [why for why, _ in gaps(received)] in (["rewound"], ["deleted"])


async def test_gaps_are_for_the_callback_or_the_log_when_only_events_are_wanted(
    server: Server, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    keys, gaps = Keys(queue), list[Gap]()
    for on_gap in (gaps.append, None):
        do(server, "DEL", keys.events)
        add_events(server, event(keys, "1"))
        events = QueueEvents(queue, redis_url=server.url, on_gap=on_gap)
        async with events:
            add_events(server, event(keys, "2"), event(keys, "3"))
            do(server, "XTRIM", keys.events, "MAXLEN", 1)
            with caplog.at_level(logging.WARNING, "chasqui.events"):
                assert (await anext(aiter(events))).job_id == "3"
    assert [gap.lost_estimate for gap in gaps] == [1]
    assert [record.message for record in caplog.records if "were lost (1; trimmed)" in record.message]


# What passes is waited for


async def test_a_restarted_server_is_followed_again(server: Server) -> None:
    keys = Keys("q")
    with start_server(server.kind, args=["--appendonly", "yes"], tcp=True) as own:
        async with following(QueueEvents("q", redis_url=own.url, block_ms=200)) as received:
            await asyncio.to_thread(add_events, own, event(keys, "1"))
            await until(lambda: jobs(received) == ["1"])
            await asyncio.to_thread(own.restart)
            await asyncio.to_thread(add_events, own, event(keys, "2"))
            await until(lambda: jobs(received) == ["1", "2"])
        assert gaps(received) == []


async def test_a_server_that_forgot_everything_is_followed_again_and_the_gap_reported(server: Server) -> None:
    keys = Keys("q")
    with start_server(server.kind, tcp=True) as own:
        async with following(QueueEvents("q", redis_url=own.url, block_ms=200)) as received:
            await asyncio.to_thread(add_events, own, event(keys, "1"), event(keys, "2"))
            await until(lambda: jobs(received) == ["1", "2"])
            own.kill()
            await asyncio.to_thread(own.start)
            await asyncio.to_thread(add_events, own, event(keys, "3"))
            await until(lambda: jobs(received) == ["1", "2", "3"])
        assert [why for why, _ in gaps(received)] in (["recreated"], ["deleted"])


async def test_lost_replies_lose_and_repeat_nothing(server: Server, queue: str) -> None:
    keys = Keys(queue)
    with proxy_to(server.socket) as proxy:
        async with following(QueueEvents(queue, redis_url=proxy.url, block_ms=50, count=3)) as received:
            for number in range(20):
                proxy.lose_replies = number % 3
                add_events(server, event(keys, 2 * number), event(keys, 2 * number + 1))
                await until(lambda: len(jobs(received)) == 2 * number + 2)  # noqa: B023 - awaited in the same turn
    assert jobs(received) == [str(number) for number in range(40)]
    assert gaps(received) == []


async def test_a_key_of_another_type_is_waited_out(server: Server, queue: str) -> None:
    keys = Keys(queue)
    do(server, "SET", keys.events, "no stream")
    async with following(QueueEvents(queue, redis_url=server.url, block_ms=50)) as received:
        do(server, "DEL", keys.events)
        add_events(server, event(keys, "1"))
        await until(lambda: jobs(received) == ["1"])


# Many queues


@asynccontextmanager
async def tailing(link: AsyncLink, tail: EventFollower) -> AsyncIterator[list[StoredEvent | Gap]]:
    received: list[StoredEvent | Gap] = []

    async def listen() -> None:
        async for one in tail:
            received.append(one)  # noqa: PERF401 - others watch it grow

    await tail.start()
    task = asyncio.create_task(listen())
    try:
        yield received
    finally:
        await tail.close()
        await asyncio.wait_for(task, 5)


def queues_and_ids(received: list[StoredEvent | Gap]) -> set[tuple[str, str | None]]:
    return {(one.queue, one.event.job_id) for one in received if isinstance(one, StoredEvent)}


async def test_many_queues_are_awaited_in_one_call(server: Server, queue: str) -> None:
    names = [f"{queue}-{number}" for number in range(50)]
    async with AsyncLink.open(server.url, read_only=True) as link:
        tail = EventFollower(link, names[:-1], options=TailOptions(block_ms=5000))
        async with tailing(link, tail) as received:
            tail.add_queue(names[-1])
            add_events(server, *(event(Keys(name), "1") for name in names[:-1]))
            await until(lambda: len(received) == 49)
            before = link.round_trips
            add_events(server, event(Keys(names[7]), "2"), event(Keys(names[-1]), "late"))
            await until(lambda: len(received) == 51)
            assert link.round_trips - before <= 6
    assert queues_and_ids(received) == {(name, "1") for name in names[:-1]} | {(names[7], "2"), (names[-1], "late")}


async def test_one_spoiled_queue_does_not_silence_the_others(server: Server, queue: str) -> None:
    good, bad = Keys(f"{queue}-good"), Keys(f"{queue}-bad")
    do(server, "SET", bad.events, "no stream")
    async with AsyncLink.open(server.url, read_only=True) as link:
        async with tailing(link, EventFollower(link, [good.queue, bad.queue], options=TailOptions(50))) as received:
            add_events(server, event(good, "1"))
            await until(lambda: queues_and_ids(received) == {(good.queue, "1")})
            do(server, "DEL", bad.events)
            add_events(server, event(bad, "2"))
            await until(lambda: queues_and_ids(received) == {(good.queue, "1"), (bad.queue, "2")})


async def test_a_queue_that_is_added_while_others_start_is_followed_too(
    server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Keys(queue), Keys(f"{queue} too")
    add_events(server, event(first, 1), event(second, 2))
    async with AsyncLink.open(server.url, read_only=True) as link:
        follower = EventFollower(link, [first.queue], last_event_id="0")
        run, added = AsyncLink.run, list[str]()

        async def run_slowly(self: AsyncLink, flow: Any) -> Any:
            result = await run(self, flow)
            if not added:
                added.append(second.queue)
                follower.add_queue(second.queue)
            return result

        monkeypatch.setattr(AsyncLink, "run", run_slowly)
        seen: set[str] = set()
        async with asyncio.timeout(10):
            async for item in follower:
                seen.add(item.queue)
                if len(seen) == 2:
                    break
        await follower.close()
    assert seen == {first.queue, second.queue}


async def test_in_a_cluster_queues_of_all_nodes_are_followed() -> None:
    with cluster_servers("valkey-9.1") as nodes:
        keys = [Keys(f"q{number}") for number in range(20)]
        async with AsyncLink.open(nodes.url) as writer, AsyncLink.open(nodes.url, read_only=True) as link:
            options = TailOptions(block_ms=5000, poll_ms=20)
            async with tailing(link, EventFollower(link, [one.queue for one in keys], options=options)) as received:
                await writer.run(command_batch(*(event(one, "1") for one in keys)))
                await until(lambda: len(received) == 20)
            async with tailing(link, EventFollower(link, ["q0"], options=options)) as received_alone:
                await writer.run(command_batch(event(keys[0], "2")))
                await until(lambda: len(received_alone) == 1)
    assert queues_and_ids(received) == {(one.queue, "1") for one in keys}
