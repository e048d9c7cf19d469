"""`Queue` and `SyncQueue` on every kind of server."""

from __future__ import annotations

import asyncio
import threading
import warnings
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import Link, MissedFiresPolicy, Queue, QueueFull, RepeatPattern, SyncQueue
from chasqui.errors import ArgumentError, AuthRefused, ChangeRefused, ConfigError, WireError, WrongType
from chasqui.models import BackoffSpec, RepeatableMeta
from chasqui.server.commands import Commands
from chasqui.server.link import AsyncLink
from chasqui.wire import envelope
from chasqui.wire.keys import Keys
from chasqui.wire.retry_override import Backoff, RetryOverride
from tests.support.clocks import FakeClock, SkewedClock
from tests.support.links import command
from tests.support.queue_harness import QueueHarness
from tests.support.queues import both_queues, delayed_jobs, waiting_jobs
from tests.support.servers.server import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Opener = Callable[..., Any]


@pytest.fixture
def bench(server: Server, queue: str) -> Iterator[QueueHarness]:
    with Link.open(server.url) as link:
        yield QueueHarness(server.kind, link, Commands(link.features()), queue)


@pytest.fixture
def new_queue(server: Server, queue: str, open_queue: Opener) -> Callable[..., Any]:
    def opened(**options: Any) -> Any:
        return open_queue(queue, redis_url=server.url, **options)

    return opened


# Adding


@both_queues
async def test_what_is_added_waits_in_the_stream(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        job = await queue.add("mail", {"to": "ada"})
        assert (queue.name, queue.is_closed) == (bench.queue, False)
    assert queue.is_closed
    assert (job.name, job.data, job.attempt, job.attempts_made, job.created) == (
        "mail",
        {"to": "ada"},
        0,
        0,
        True,
    )
    assert waiting_jobs(bench) == [(job.id, "mail", {"to": "ada"})]


@both_queues
async def test_a_retry_rule_travels_with_the_job(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        await queue.add("n", 1, attempts=5, backoff=BackoffSpec.exponential(250, max_ms=9000))
    [(_, [_, d, *_])] = bench.command("XRANGE", bench.keys.stream, "-", "+")
    assert envelope.decode(d).retry == RetryOverride(5, Backoff("exponential", 250, 9000, 2.0))


@both_queues
async def test_the_same_id_again_adds_nothing_and_is_reported(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        jobs = [await queue.add("n", number, job_id="one") for number in range(3)]
    assert [(job.id, job.created) for job in jobs] == [("one", True), ("one", False), ("one", False)]
    assert waiting_jobs(bench) == [("one", "n", 0)]


@both_queues
async def test_a_unique_id_is_taken_for_everyone_and_for_later_too(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue, new_queue() as other:
        jobs = [
            await queue.add_unique("n", 1, job_id="one"),
            await other.add_unique("n", 2, job_id="one"),
            await other.add_unique("n", 3, job_id="one", delay_ms=5000),
            await other.add_unique("n", 4, job_id="two", delay_ms=5000),
            await queue.add_unique("n", 5, job_id="two"),
        ]
        assert [job.created for job in jobs] == [True, False, False, True, False]
    assert waiting_jobs(bench) == [("one", "n", 1)]
    assert list(delayed_jobs(bench)) == ["two"]
    assert 3590 < bench.command("TTL", bench.keys.delayed_marker("one")) <= 3600


@both_queues
async def test_lax_uniqueness_is_that_of_the_reference(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue(strict_unique=False) as queue, new_queue(strict_unique=False) as other:
        jobs = [await one.add_unique("n", 1, job_id="one") for one in (queue, queue, other)]
    assert [job.created for job in jobs] == [True, False, True]
    assert len(waiting_jobs(bench)) == 2


@both_queues
@pytest.mark.parametrize("wrong_by_ms", [-3_600_000, 3_600_000])
async def test_delays_are_counted_by_the_server_whatever_our_clock_is(
    bench: QueueHarness, new_queue: Opener, wrong_by_ms: int
) -> None:
    soon = datetime.fromtimestamp(bench.now_ms() / 1000 + 80, UTC)
    async with new_queue(clock=SkewedClock(wrong_by_ms)) as queue:
        by_number = await queue.add("n", 1, delay_ms=60_000)
        by_span = await queue.add("n", 1, delay=timedelta(seconds=70), job_id="span")
        by_moment = await queue.add("n", 1, delay_ms=soon)
        by_moment_and_id = await queue.add("n", 1, delay_ms=soon, job_id="moment")
        many = await queue.add_bulk([{"name": "n", "data": 1, "delay_ms": 90_000}] * 3)
        past = await queue.add("n", "now", delay_ms=soon - timedelta(seconds=81))
    wanted = {by_number.id: 60, by_span.id: 70, by_moment.id: 80, by_moment_and_id.id: 80}
    wanted |= {job.id: 90 for job in many}
    found = delayed_jobs(bench)
    assert found.keys() == wanted.keys()
    for job_id, seconds in wanted.items():
        assert seconds * 1000 - 5000 < found[job_id] <= seconds * 1000
    assert waiting_jobs(bench) == [(past.id, "n", "now")]


@both_queues
async def test_a_delayed_job_with_an_id_can_be_cancelled_once(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        first = await queue.add("n", 1, delay_ms=60_000, job_id="x")
        again = await queue.add("n", 1, delay_ms=60_000, job_id="x")
        assert (first.created, again.created) == (True, False)
        assert [await queue.cancel_delayed("x") for _ in range(2)] == [True, False]
        assert await queue.cancel_delayed("unknown") is False
    assert bench.dump() == {}


@both_queues
async def test_one_byte_prefixes_are_written_for_those_who_want_them(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue(delayed_prefix="u8") as queue:
        await queue.add("hi", 1, delay_ms=60_000)
    [member] = bench.command("ZRANGE", bench.keys.delayed, 0, -1)
    assert member[:3] == b"\x02hi"


# Adding many


@both_queues
async def test_a_mixed_bulk_keeps_its_order_on_a_server_that_knows_no_script(
    bench: QueueHarness, new_queue: Opener
) -> None:
    jobs: list[dict[str, Any]] = [
        {"name": "n", "data": at, **({"job_id": f"named-{at}"} if at % 3 == 1 else {})} for at in range(30)
    ]
    async with new_queue() as queue:
        await queue.add("n", "first")  # what a first call asks besides is asked
        for again in range(2):
            bench.command("SCRIPT", "FLUSH")
            added = await queue.add_bulk([{**job, **_other(job, again)} for job in jobs])
            assert all(job.created for job in added)
    assert [data for _, _, data in waiting_jobs(bench)] == ["first", *range(30), *range(30)]


def _other(job: dict[str, Any], again: int) -> dict[str, Any]:
    return {"job_id": f"{job['job_id']}-{again}"} if "job_id" in job else {}


@both_queues
async def test_many_jobs_keep_their_order_and_come_in_few_round_trips(bench: QueueHarness, new_queue: Opener) -> None:
    jobs = [{"name": f"n{number % 3}", "data": {"i": number}} for number in range(2345)]
    async with new_queue() as queue:
        added = await queue.add_bulk(jobs)
    assert [(job.name, job.data) for job in added] == [(job["name"], job["data"]) for job in jobs]
    assert waiting_jobs(bench) == [(job.id, job.name, job.data) for job in added]
    assert len({job.id for job in added}) == 2345


@both_queues
async def test_jobs_with_wishes_travel_with_the_others(bench: QueueHarness, new_queue: Opener) -> None:
    jobs: list[dict[str, Any]] = [{"name": "n", "data": number} for number in range(1000)]
    for number in range(0, 1000, 7):
        jobs[number] |= {"job_id": f"id-{number}"}
    for number in range(3, 1000, 7):
        jobs[number] |= {"delay_ms": 60_000}
    for number in range(5, 1000, 7):
        jobs[number] |= {"attempts": 3, "backoff": 5, "delay": None}
    jobs[4] |= {"job_id": "late", "delay": timedelta(seconds=60)}
    jobs[6] |= {"repeat": RepeatPattern.every(60_000)}
    async with new_queue() as queue:
        added = await queue.add_bulk(jobs)
        assert [job.data for job in added] == list(range(1000))
        assert added[6].id == "n::every:60000"
        again = await queue.add_bulk([jobs[994], jobs[4], jobs[1]])
    assert [job.created for job in again] == [False, False, True]
    now = [job.id for job in added if job.data % 7 != 3 and job.data not in (4, 6)]
    # On a server that does not know our scripts yet, what needs one comes after what does not.
    assert sorted(job_id for job_id, _, _ in waiting_jobs(bench)) == sorted([*now, again[2].id])
    assert delayed_jobs(bench).keys() == {job.id for job in added if job.data % 7 == 3 or job.data == 4}
    assert bench.command("ZCARD", bench.keys.repeat) == 1


@both_queues
@pytest.mark.parametrize(
    ("misfit", "error"),
    [
        ({"name": "n" * 257, "data": 1}, ArgumentError),
        ({"name": "n", "data": object()}, ArgumentError),
        ({"name": 5, "data": 1}, ArgumentError),
        ({"name": "n"}, ArgumentError),
        ({"name": "n", "data": 1, "delay_ms": -1}, ArgumentError),
        ({"name": "n", "data": 1, "delay_ms": datetime(2222, 1, 1, tzinfo=UTC)}, ArgumentError),
        ({"name": "n", "data": 1, "repeat": RepeatPattern.cron("x")}, ConfigError),
    ],
)
async def test_nothing_is_added_if_one_of_many_is_unfit(
    bench: QueueHarness, new_queue: Opener, misfit: dict[str, Any], error: type[Exception]
) -> None:
    async with new_queue() as queue:
        with pytest.raises(error):
            await queue.add_bulk([*[{"name": "n", "data": 1}] * 600, misfit])
    assert bench.dump() == {}


@both_queues
async def test_nothing_comes_of_nothing(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        assert await queue.add_bulk([]) == []
        assert await queue.get_job_result_bulk([]) == []
    assert bench.dump() == {}


@both_queues
async def test_a_name_may_be_left_out(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        await queue.add_bulk([{"data": 1}, {"name": None, "data": 2}, {"name": "", "data": 3}])
        await queue.add(None, 4)
    assert [name for _, name, _ in waiting_jobs(bench)] == ["", "", "", ""]


# Room


@both_queues
async def test_a_full_queue_refuses_until_there_is_room_again_and_loses_nothing(
    bench: QueueHarness, new_queue: Opener
) -> None:
    async with new_queue(max_stream_len=10) as queue, new_queue(max_stream_len=10) as other:
        await queue.add_bulk([{"name": "n", "data": number} for number in range(9)])
        with pytest.raises(QueueFull, match="holds 9 jobs, and 2 more would exceed its cap of 10"):
            await other.add_bulk([{"name": "n", "data": 1}] * 2)
        await queue.add("n", 9)
        with pytest.raises(QueueFull, match="holds 10 jobs, and 1 more"):
            await other.add("n", 1)
        await other.add("n", "later", delay_ms=60_000)
        assert [data for _, _, data in waiting_jobs(bench)] == list(range(10))
        bench.command("XTRIM", bench.keys.stream, "MAXLEN", 3)
        await other.add("n", 10)
    assert [data for _, _, data in waiting_jobs(bench)] == [7, 8, 9, 10]


@both_queues
@pytest.mark.parametrize("options", [{"on_full": "grow"}, {"max_stream_len": 0}])
async def test_a_queue_may_grow(bench: QueueHarness, new_queue: Opener, options: dict[str, Any]) -> None:
    async with new_queue(**{"max_stream_len": 10, **options}) as queue:
        await queue.add_bulk([{"name": "n", "data": 1}] * 500)
        await queue.add("n", 1)
    assert bench.command("XLEN", bench.keys.stream) == 501


@both_queues
async def test_a_user_without_any_right_to_read_can_add(bench: QueueHarness, open_queue: Opener, queue: str) -> None:
    with start_server(kind_of(bench), tcp=True) as guarded:
        keys = "~*:stream ~*:delayed ~*:dlid:* ~*:didx:* ~*:idmp:*"
        commands = "+xadd +zadd +eval +evalsha +script|load +get +set +exists +time"
        with Link.open(guarded.url) as link:
            boss = QueueHarness("boss", link, Commands(link.features()), queue)
            boss.command("ACL", "SETUSER", "producer", "on", ">pw", *keys.split(), *commands.split())
            async with open_queue(queue, redis_url=guarded.url.replace("//", "//producer:pw@")) as producer:
                await producer.add_bulk([{"name": "n", "data": number} for number in range(20)])
                await producer.add("n", 20)
                await producer.add_unique("n", 21, job_id="x")
                await producer.add("n", 22, delay_ms=60_000, job_id="y")
                with pytest.raises(AuthRefused):
                    await producer.peek_dlq()
            assert len(waiting_jobs(boss)) == 22


@both_queues
async def test_the_rights_the_manual_names_are_enough(bench: QueueHarness, open_queue: Opener, queue: str) -> None:
    keys = "~*:stream ~*:delayed ~*:dlid:* ~*:didx:* ~*:idmp:* ~*:repeat*"
    commands = "+xadd +xlen +zadd +zrem +get +set +exists +del +time +eval +evalsha +script|load +hset +zscore"
    with start_server(kind_of(bench), tcp=True) as guarded:
        with Link.open(guarded.url) as link:
            boss = QueueHarness("boss", link, Commands(link.features()), queue)
            boss.command("ACL", "SETUSER", "producer", "on", ">pw", *keys.split(), *commands.split())
        async with open_queue(queue, redis_url=guarded.url.replace("//", "//producer:pw@")) as producer:
            await producer.add("n", 1)
            await producer.add("n", 1, delay_ms=60_000)
            await producer.add("n", 1, delay_ms=datetime(2020, 1, 1, tzinfo=UTC), job_id="at")
            await producer.add_unique("n", 1, job_id="x", delay_ms=60_000)
            await producer.add_unique("n", 1, job_id="y")
            await producer.add_bulk([{"name": "n", "data": 1}] * 600)
            assert await producer.cancel_delayed("x")
            schedule = await producer.add("n", 1, repeat=RepeatPattern.every(60_000))
            assert await producer.remove_repeatable_by_key(schedule.id)


def kind_of(bench: QueueHarness) -> Any:
    return bench.label


# Dead letters


def add_dead_letters(b: QueueHarness, *bodies: bytes, name: str = "n") -> None:
    for d in bodies:
        b.command("XADD", b.keys.dlq, "*", "d", d, "n", name, "source_id", "9-9", "reason", "unrecoverable")


@both_queues
async def test_dead_letters_are_shown_as_the_reference_shows_them(bench: QueueHarness, new_queue: Opener) -> None:
    add_dead_letters(bench, b"\xc1")
    bench.command("XADD", bench.keys.dlq, "*", "d", "x", "source_id", "1-1", "reason", "malformed", "detail", "why")
    bench.command("XADD", bench.keys.dlq, "*", "else", "x")
    async with new_queue() as queue:
        first, second, third = await queue.peek_dlq()
        assert [first] == await queue.peek_dlq(1)
        assert await queue.peek_dlq(0) == []
        with pytest.raises(ArgumentError, match="limit must be non-negative; got -1"):
            await queue.peek_dlq(-1)
    assert first.pop("dlq_id") < second["dlq_id"] < third["dlq_id"]
    assert first == {
        "source_id": "9-9", "reason": "unrecoverable", "detail": None, "payload": b"\xc1", "name": "n",
    }  # fmt: skip
    assert (second["reason"], second["detail"], second["name"]) == ("malformed", "why", "")
    assert (third["reason"], third["payload"], third["source_id"]) == ("", b"", "")


@both_queues
async def test_replaying_skips_what_cannot_be_read_and_keeps_payloads_as_they_were(
    bench: QueueHarness, new_queue: Opener
) -> None:
    inline = b"\x94\xa1a\x93\x01\x02\x03\x01\x07"
    add_dead_letters(bench, b"\xc1", b"", inline, b"\x94\xa1b\xa2hi\x01\x07", b"\xc1")
    async with new_queue() as queue:
        assert [await queue.replay_dlq(1) for _ in range(3)] == [1, 1, 0]
    bodies = [fields[1] for _, fields in bench.command("XRANGE", bench.keys.stream, "-", "+")]
    assert bodies == [b"\x94\xa1a\x93\x01\x02\x03\x01\x00", b"\x94\xa1b\xa2hi\x01\x00"]
    assert bench.command("XLEN", bench.keys.dlq) == 3


@both_queues
async def test_replaying_never_goes_over_the_cap(bench: QueueHarness, new_queue: Opener) -> None:
    add_dead_letters(bench, *[b"\x94\xa1a\xc4\x01\x01\x01\x00"] * 250)
    async with new_queue(max_stream_len=120) as queue:
        assert await queue.replay_dlq(1000) == 120
        with pytest.raises(QueueFull):
            await queue.replay_dlq(1)
    async with new_queue(on_full="grow") as queue:
        assert await queue.replay_dlq(1000) == 130
    assert bench.command("XLEN", bench.keys.stream) == 250


# Schedules


@both_queues
async def test_schedules_are_stored_listed_replaced_and_removed(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        tick = await queue.add("tick", {"a": 1}, repeat=RepeatPattern.every(60_000))
        assert (tick.id, tick.name, tick.data, tick.created) == ("tick::every:60000", "tick", {"a": 1}, True)
        again = await queue.add("tick", {"a": 2}, repeat={"kind": "every", "interval_ms": 60_000})
        assert (again.id, again.created) == (tick.id, False)
        nightly = RepeatPattern.cron("0 3 * * *", tz="Europe/Berlin")
        policy = MissedFiresPolicy.fire_all(3)
        night = await queue.upsert_repeatable_job("night", None, repeat=nightly, missed_fires=policy, limit=5)
        bench.command("ZADD", bench.keys.repeat, 1, "only a place")
        first, second = await queue.get_repeatable_jobs()
        assert (first.key, first.pattern, first.missed_fires) == (tick.id, RepeatPattern.every(60_000), None)
        assert 50_000 < first.next_fire_ms - bench.now_ms() <= 60_000
        assert second == RepeatableMeta(night.id, "night", nightly, second.next_fire_ms, limit=5, missed_fires=policy)
        assert await queue.get_repeatable_jobs(0) == []
        removed = [await queue.remove_repeatable_by_key(key) for key in (tick.id, tick.id, night.id, "x")]
    assert removed == [True, False, True, False]


@both_queues
async def test_a_schedule_is_dated_by_the_server(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue(clock=SkewedClock(3_600_000)) as queue:
        await queue.add("tick", 1, repeat=RepeatPattern.every(60_000), attempts=3, job_id="ignored")
        [meta] = await queue.get_repeatable_jobs()
    assert 50_000 < meta.next_fire_ms - bench.now_ms() <= 60_000


# Results


@both_queues
async def test_results_are_read_and_waited_for(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        job = await queue.add("n", 1)
        assert await queue.get_job_result(job.id) is None
        for job_id, data in ((job.id, b"\x81\xa1a\x01"), ("zero", b"\x00"), ("false", b"\xc2")):
            bench.command("SET", bench.keys.result(job_id), data)
        assert await queue.get_job_result_bulk(["zero", "none", job.id, "false"]) == [
            0,
            None,
            {"a": 1},
            False,
        ]
        assert await job.wait_for_result(timeout=1) == {"a": 1}
        bench.command("SET", bench.keys.result("bad"), b"\xc1")
        with pytest.raises(WireError):
            await queue.get_job_result("bad")


@both_queues
async def test_waiting_for_a_result_ends_warns_once_and_costs_one_look_per_interval(
    bench: QueueHarness, new_queue: Opener
) -> None:
    clock = FakeClock()
    async with new_queue(clock=clock) as queue:
        job = await queue.add("n", 1)
        with (
            pytest.warns(RuntimeWarning, match="store_results=True") as warned,
            pytest.raises(TimeoutError, match=f"no result of job {job.id} within 5 s"),
        ):
            await job.wait_for_result(timeout=5, poll_interval=0.75)
        assert len(warned) == 1
        assert clock.slept == pytest.approx([0.75] * 6 + [0.5])
        for wrong in ({"timeout": 0}, {"poll_interval": -1}):
            with pytest.raises(ArgumentError, match="must be a positive number of seconds"):
                await job.wait_for_result(**wrong)


@both_queues
async def test_a_result_that_comes_while_waiting_is_found(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue() as queue:
        job = await queue.add("n", 1)
        arrives = threading.Timer(0.2, bench.command, ("SET", bench.keys.result(job.id), b"\xa2hi"))
        arrives.start()
        with warnings.catch_warnings():
            assert await job.wait_for_result(timeout=10, poll_interval=0.02) == "hi"
        arrives.join()


# Opening and closing


async def test_a_link_may_be_lent_and_stays_open(any_server: Server, queue: str) -> None:
    async with AsyncLink.open(any_server.url) as link:
        async with Queue(queue, link=link) as producer:
            assert len(await producer.add_bulk([{"name": "n", "data": 1}] * 2)) == 2
        assert await link.run(command("XLEN", Keys(queue).stream)) == 2
    with Link.open(any_server.url) as blocking:
        with SyncQueue(queue, link=blocking) as sync_producer:
            sync_producer.add("n", 1)
        assert blocking.run(command("XLEN", Keys(queue).stream)) == 3


@both_queues
async def test_nothing_is_written_through_a_read_only_link(any_server: Server, queue: str, open_queue: Opener) -> None:
    kind: Any = AsyncLink if open_queue.__name__ == "awaiting" else Link
    link = kind.open(any_server.url, read_only=True)
    producer = open_queue(queue, link=link)
    assert await producer.peek_dlq() == []
    attempts: list[Callable[[], Any]] = [
        lambda: producer.add("n", 1),
        lambda: producer.add_bulk([{"name": "n", "data": 1}] * 2000),
        lambda: producer.add("n", 1, delay_ms=5),
        lambda: producer.cancel_delayed("x"),
        lambda: producer.remove_repeatable_by_key("x"),
    ]
    for attempt in attempts:
        with pytest.raises(ChangeRefused):
            await attempt()
    await asyncio.gather(*filter(None, [link.close()]))


@both_queues
async def test_a_closed_queue_opens_again_as_in_the_reference(bench: QueueHarness, new_queue: Opener) -> None:
    queue = new_queue()
    await queue.close()
    await queue.close()
    await queue.add("n", 1)
    assert queue.is_closed
    await queue.close()
    assert len(waiting_jobs(bench)) == 1


@both_queues
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_stream_len": -1}, "max_stream_len must be non-negative; got -1"),
        ({"max_delay_secs": -1}, "max_delay_secs must be non-negative; got -1"),
        ({"on_full": "trim"}, "on_full is 'refuse' or 'grow', not 'trim'"),
        ({"delayed_prefix": "u16"}, "delayed_prefix is 'u32le' or 'u8', not 'u16'"),
        ({"redis_url": "unix:///s", "tls": True}, "TLS is for networks"),
    ],
)
def test_wrong_settings_are_refused_at_once(open_queue: Opener, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_queue("q", **options)


@both_queues
async def test_max_delay_is_the_queues_own(bench: QueueHarness, new_queue: Opener) -> None:
    async with new_queue(max_delay_secs=10) as queue:
        with pytest.raises(ArgumentError, match="delay 11s exceeds max_delay_secs 10s"):
            await queue.add("n", 1, delay_ms=11_000)
    async with new_queue(max_delay_secs=0) as queue:
        await queue.add("n", 1, delay_ms=2_592_001_000)
    assert len(delayed_jobs(bench)) == 1


@both_queues
async def test_a_key_of_another_type_is_an_error_and_nothing_is_lost(bench: QueueHarness, new_queue: Opener) -> None:
    bench.command("SET", bench.keys.stream, "no stream")
    async with new_queue(on_full="grow") as queue:
        with pytest.raises(WrongType):
            await queue.add("n", 1)
        with pytest.raises(WrongType):
            await queue.add_bulk([{"name": "n", "data": 1}] * 5)


async def test_one_queue_may_be_used_in_several_event_loops(any_server: Server, queue: str) -> None:
    producer = Queue(queue, redis_url=any_server.url)

    async def visit() -> str:
        job = await producer.add("n", 1)
        await producer.close()
        return job.id

    ids = [await asyncio.to_thread(asyncio.run, visit()) for _ in range(2)]
    ids.append(await visit())
    assert len(set(ids)) == 3


def test_threads_may_share_one_blocking_queue(any_server: Server, queue: str) -> None:
    with SyncQueue(queue, redis_url=any_server.url) as producer, Link.open(any_server.url) as link:
        threads = [
            threading.Thread(target=producer.add_bulk, args=([{"name": "n", "data": 1}] * 700,)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(waiting_jobs(QueueHarness("any", link, Commands(link.features()), queue))) == 2800


@both_queues
async def test_credentials_are_asked_for_at_each_login(any_server: Server, queue: str, open_queue: Opener) -> None:
    asked: list[str | None] = []

    async def provide(where: str | None) -> tuple[str | None, str | None]:
        asked.append(where)
        return None, "s3cret"

    with start_server(any_server.kind, tcp=True, password="s3cret") as guarded:
        url = guarded.url.replace(":s3cret@", "")
        producer = open_queue(queue, redis_url=url, credential_provider=provide)
        if open_queue.__name__ == "awaiting":
            await producer.add("n", 1)
        else:  # there is no other loop where blocking queues are used
            await asyncio.to_thread(SyncQueue(queue, redis_url=url, credential_provider=provide).add, "n", 1)
        await producer.close()
        async with open_queue(queue, redis_url=url) as stranger:
            with pytest.raises(AuthRefused):
                await stranger.add("n", 1)
    assert asked == [f"127.0.0.1:{guarded.port}"]
