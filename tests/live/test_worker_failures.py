"""What a worker makes of jobs that fail, of workers that died over a job, and of a group that is gone; on every kind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.consume.entry_checks import Admission
from chasqui.errors import UnrecoverableError
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from chasqui.wire import delayed_member, envelope
from chasqui.wire.retry_override import Backoff, RetryOverride
from tests.support.queue_harness import GROUP, QueueHarness
from tests.support.servers.server import Server
from tests.support.worker_harness import CLOCK, WorkerHarness, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.models import Job

SOON = RetryOverride(3, Backoff("fixed", 20, jitter_ms=0))
NEVER_AGAIN = RetryOverride(1, None)


@pytest.fixture
def shop(server: Server, queue: str) -> Iterator[WorkerHarness]:
    with Link.open(server.url) as link:
        yield WorkerHarness(QueueHarness(server.kind, link, Commands(link.features()), queue), server.url)


async def do_nothing(job: Job) -> None:
    pass


# Retries and dead letters


@pytest.mark.parametrize("is_plain", [False, True], ids=["coroutine", "plain"])
async def test_a_job_is_tried_again_until_it_is_dead_and_numbers_are_the_reference_s(
    shop: WorkerHarness, is_plain: bool
) -> None:
    shop.add("job", {"a": 1}, name="mail", retry=SOON)
    attempts: list[int] = []

    async def handler(job: Job) -> None:
        attempts.append(job.attempt)
        raise ValueError(f"no {job.attempt}")

    def plain_handler(job: Job) -> None:
        attempts.append(job.attempt)
        raise ValueError(f"no {job.attempt}")

    async with shop.running_worker(plain_handler if is_plain else handler):
        await wait_until(shop.dead, "it is dead")
        await wait_until(lambda: shop.kinds("job")[-1] == "dlq", "the event is there")
    assert attempts == [0, 1, 2]
    events = [
        (event.kind, event.attempt, event.reason, event.backoff_ms)
        for event in shop.events("job")
        if event.kind != "waiting"
    ]
    assert events == [
        ("active", 1, None, None),
        ("failed", 1, "no 0", None),
        ("retry-scheduled", 2, None, 20),
        ("active", 2, None, None),
        ("failed", 2, "no 1", None),
        ("retry-scheduled", 3, None, 20),
        ("active", 3, None, None),
        ("failed", 3, "no 2", None),
        ("dlq", 3, "retries_exhausted", None),
    ]
    assert {event.name for event in shop.events("job") if event.kind != "waiting"} == {"mail"}
    [letter] = shop.dead()
    job = envelope.decode(letter.d)
    assert (job.id, job.attempt, job.retry, job.payload.data()) == ("job", 2, SOON, {"a": 1})
    assert (letter.name, letter.reason, letter.detail) == ("mail", "retries_exhausted", "ValueError: no 2")
    assert shop.is_empty()


async def test_a_retry_waits_in_the_delayed_set_by_the_server_s_clock(shop: WorkerHarness) -> None:
    shop.add(
        "job",
        [1],
        name="mail",
        retry=RetryOverride(5, Backoff("exponential", 60_000, 600_000, 3.0, 0)),
        attempt=1,
    )

    async def handler(job: Job) -> None:
        raise ValueError

    await shop.run_until_empty(handler, delayed_enabled=False)
    [(member, score)] = _scored(shop)
    found = delayed_member.decode(member)
    assert (found.name, found.prefix, found.envelope.attempt) == ("mail", "u32le", 2)
    assert 170_000 < score - shop.bench.now_ms() <= 180_000


def _scored(shop: WorkerHarness) -> list[tuple[bytes, int]]:
    flat = shop.bench.command("ZRANGE", shop.bench.keys.delayed, 0, -1, "WITHSCORES")
    return [(member, int(float(score))) for member, score in zip(flat[::2], flat[1::2], strict=True)]


async def test_an_unrecoverable_job_is_dead_at_once(shop: WorkerHarness) -> None:
    class Hopeless(UnrecoverableError):
        pass

    shop.add("job")

    async def handler(job: Job) -> None:
        raise Hopeless("x" * 10_000)

    await shop.run_until_empty(handler)
    [letter] = shop.dead()
    assert letter.reason == "unrecoverable"
    assert letter.detail is not None
    assert letter.detail.startswith("Hopeless: xxx")
    assert 4000 < len(letter.detail.encode()) <= 4096
    assert [event.reason for event in shop.events("job") if event.kind == "failed"] == ["x" * 10_000]


def _leave() -> None:
    raise SystemExit("the handler wants to leave")


def _recurse() -> None:
    _recurse()


def _cancel() -> None:
    raise asyncio.CancelledError


def _close_generator() -> None:
    raise GeneratorExit


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        (_leave, "the handler wants to leave"),
        (_recurse, "maximum recursion depth exceeded"),
        (_cancel, "CancelledError"),
        (_close_generator, "GeneratorExit"),
    ],
    ids=["SystemExit", "RecursionError", "CancelledError", "GeneratorExit"],
)
@pytest.mark.parametrize("form", ["at once", "later", "plain"])
async def test_whatever_a_handler_raises_is_its_failure_and_the_worker_lives(
    shop: WorkerHarness, fail: Callable[[], None], message: str, form: str
) -> None:
    shop.add("bad", "bad", retry=NEVER_AGAIN)
    shop.add("good", "good")

    async def handler(job: Job) -> None:
        if form == "later":
            await CLOCK.sleep(0)
        if job.data == "bad":
            fail()

    def plain_handler(job: Job) -> None:
        if job.data == "bad":
            fail()

    await shop.run_until_empty(plain_handler if form == "plain" else handler, concurrency=1)
    [failed] = [event for event in shop.events() if event.kind == "failed"]
    assert failed.reason is not None
    assert failed.reason.startswith(message)
    assert [letter.reason for letter in shop.dead()] == ["retries_exhausted"]
    assert shop.kinds("good") == ["active", "completed"]


async def test_a_handler_that_cancels_its_own_task_fails_and_others_run_on(shop: WorkerHarness) -> None:
    shop.add("bad", "bad", retry=NEVER_AGAIN)
    for number in range(3):
        shop.add(f"good-{number}")

    async def handler(job: Job) -> None:
        task = asyncio.current_task()
        if job.data == "bad" and task:
            task.cancel()
        await CLOCK.sleep(0)

    await shop.run_until_empty(handler, concurrency=1)
    assert [letter.detail for letter in shop.dead()] == ["CancelledError: "]
    assert shop.kinds().count("completed") == 3


async def test_a_result_that_cannot_be_stored_is_no_reason_to_run_again(shop: WorkerHarness) -> None:
    shop.add("job")
    runs = []

    async def handler(job: Job) -> object:
        runs.append(job.id)
        return object()

    await shop.run_until_empty(handler, store_results=True)
    assert runs == ["job"]
    assert not shop.dead()
    [_, completed] = shop.events("job")
    assert completed.kind == "completed"
    assert completed.extra == ((b"warning", b"the result was not stored: object cannot be stored"),)


async def test_a_handler_that_spoils_its_job_costs_no_slot(shop: WorkerHarness) -> None:
    shop.add("spoiled")
    shop.add("good")

    async def handler(job: Job) -> None:
        if job.id == "spoiled":
            setattr(job, "attempt", "three")  # noqa: B010 - nothing that a type checker would let pass

    async with shop.running_worker(handler, concurrency=1, claim_min_idle_ms=200, crash_limit=1):
        await wait_until(lambda: shop.kinds("good") == ["active", "completed"], "the other one runs")
        await wait_until(shop.dead, "and the spoiled one ends too")
    assert [letter.reason for letter in shop.dead()] == ["crashed"]


async def test_a_bug_while_an_entry_is_checked_costs_no_thread(
    shop: WorkerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoiled = shop.add("spoiled")
    shop.add("good")
    admit = Admission.admit

    def broken_admit(admission: Admission, row: Any) -> Any:
        if row[0] == spoiled:
            raise ZeroDivisionError("a bug")
        return admit(admission, row)

    monkeypatch.setattr(Admission, "admit", broken_admit)
    seen: list[str] = []

    def handler(job: Job) -> None:
        seen.append(job.id)

    async with shop.running_worker(handler, concurrency=1) as worker:
        await wait_until(lambda: worker.done == 2, "both are finished")
    assert seen == ["good"]
    assert "a bug" in caplog.text


# Jobs that workers died over


async def test_a_job_that_no_worker_survived_becomes_a_dead_letter_as_crashed(shop: WorkerHarness) -> None:
    crashed, retried = shop.add("crashed", name="mail"), shop.add("innocent")
    shop.abandon(crashed, deliveries=3)
    shop.abandon(retried, deliveries=2)
    await shop.run_until_empty(do_nothing)
    [letter] = shop.dead()
    assert (letter.reason, letter.name, envelope.decode(letter.d).id) == ("crashed", "mail", "crashed")
    assert letter.detail == "started 3 times, and no worker lived to tell what came of it"
    [dlq] = shop.events("crashed")
    assert (dlq.kind, dlq.attempt, dlq.reason) == ("dlq", 1, "crashed")
    assert shop.kinds("innocent") == ["active", "completed"]


@pytest.mark.parametrize(("starts", "is_spared"), [(3, True), (4, True), (5, False)])
async def test_a_job_has_the_benefit_of_the_doubt_while_workers_die_without_it(
    shop: WorkerHarness, starts: int, is_spared: bool
) -> None:
    suspect = shop.add("suspect")
    await CLOCK.sleep(0.01)  # workers that died before the job was added do not count
    shop.abandon(suspect, deliveries=starts)
    for number in range(20):
        shop.bench.command("XGROUP", "CREATECONSUMER", shop.bench.keys.stream, GROUP, f"killed-{number}")
    await CLOCK.sleep(0.1)  # a lease and more
    await shop.run_until_empty(do_nothing, claim_min_idle_ms=50)
    assert [letter.reason for letter in shop.dead()] == ([] if is_spared else ["crashed"])
    assert shop.kinds("suspect") == (["active", "completed"] if is_spared else ["dlq"])


async def test_workers_that_died_before_a_job_was_added_cast_no_doubt_on_its_guilt(
    shop: WorkerHarness,
) -> None:
    shop.bench.run(shop.bench.commands.ensure_group(shop.bench.keys, GROUP))
    for number in range(20):
        shop.bench.command("XGROUP", "CREATECONSUMER", shop.bench.keys.stream, GROUP, f"killed-{number}")
    await CLOCK.sleep(0.1)
    shop.abandon(shop.add("guilty"), deliveries=3)
    await CLOCK.sleep(0.06)
    await shop.run_until_empty(do_nothing, claim_min_idle_ms=50)
    assert shop.kinds("guilty") == ["dlq"]


@pytest.mark.parametrize("is_plain", [False, True], ids=["coroutine", "plain"])
async def test_jobs_at_their_last_chance_run_one_at_a_time_and_only_starts_count(
    shop: WorkerHarness, is_plain: bool
) -> None:
    ids = [shop.add(f"job-{number}") for number in range(5)]
    shop.abandon(*ids, deliveries=2)
    running: list[str] = []
    gate = threading.Event()

    async def handler(job: Job) -> None:
        running.append(job.id)
        while not gate.is_set():
            await CLOCK.sleep(0.001)

    def plain_handler(job: Job) -> None:
        running.append(job.id)
        gate.wait()

    async with shop.running_worker(plain_handler if is_plain else handler, concurrency=10) as worker:
        await wait_until(lambda: running, "one has begun")
        shop.add("fresh")
        await wait_until(lambda: "fresh" in running, "others are not held up")
        mine = {entry.deliveries for entry in shop.pending().values() if entry.consumer == worker.consumer_id.encode()}
        assert mine == {1, 2, 3}, "the fresh one, those that wait, and the one that runs"
        assert len(running) == 2
        gate.set()
        await wait_until(shop.is_empty, "all are done")
    assert sorted(running) == ["fresh", *(f"job-{number}" for number in range(5))]
    assert not shop.dead()


async def test_jobs_of_a_worker_that_died_once_are_all_started_soon(shop: WorkerHarness) -> None:
    ids = [shop.add(f"job-{number}") for number in range(30)]
    shop.abandon(*ids, deliveries=1)
    gate, running = asyncio.Event(), set()

    async def handler(job: Job) -> None:
        running.add(job.id)
        await gate.wait()

    async with shop.running_worker(handler):
        await wait_until(lambda: len(running) == 30, "all have begun")
        assert {entry.deliveries for entry in shop.pending().values()} == {2}
        gate.set()
        await wait_until(shop.is_empty, "all are done")


async def test_more_abandoned_jobs_than_one_worker_should_hold_are_left_to_others(
    shop: WorkerHarness,
) -> None:
    ids = [shop.add(f"job-{number}") for number in range(150)]
    shop.abandon(*ids, deliveries=2)
    gate = asyncio.Event()

    async def handler(job: Job) -> None:
        await gate.wait()

    async with shop.running_worker(handler, concurrency=200) as worker:
        me = worker.consumer_id.encode()
        await wait_until(
            lambda: 0 < sum(entry.consumer == me for entry in shop.pending().values()) <= 64, "it keeps some"
        )
        others = [entry for entry in shop.pending().values() if entry.consumer == b"released"]
        assert {entry.deliveries for entry in others} == {2}
        gate.set()
        await wait_until(shop.is_empty, "all are done in the end")
    assert not shop.dead()


async def test_an_expired_lease_that_no_worker_took_does_not_start_the_job_again(shop: WorkerHarness) -> None:
    entry_id = shop.add("job")
    gate, runs = asyncio.Event(), []

    async def handler(job: Job) -> None:
        runs.append(job.id)
        await gate.wait()

    async with shop.running_worker(handler, heartbeat_ms=60_000, read_block_ms=100) as worker:
        await wait_until(lambda: runs, "it has begun")
        shop.bench.make_idle(entry_id, 10_000_000)
        await wait_until(lambda: shop.counts(worker, "reader").get("expired"), "it came again to the same worker")
        await wait_until(lambda: shop.pending()[entry_id].deliveries == 1, "that does not count")
        gate.set()
        await wait_until(shop.is_empty, "it is done")
    assert runs == ["job"]
    assert shop.kinds("job") == ["active", "completed"]


@pytest.mark.parametrize("outcome", ["completed", "failed", "hopeless"])
async def test_who_lost_a_job_changes_nothing_any_more(shop: WorkerHarness, outcome: str) -> None:
    entry_id = shop.add("job", retry=SOON)
    gate = asyncio.Event()

    async def handler(job: Job) -> None:
        await gate.wait()
        if outcome == "failed":
            raise ValueError
        if outcome == "hopeless":
            raise UnrecoverableError

    async with shop.running_worker(handler, heartbeat_ms=20) as worker:
        await wait_until(lambda: shop.kinds("job") == ["active"], "it has begun")
        shop.bench.command("XCLAIM", shop.bench.keys.stream, GROUP, "thief", 0, entry_id)
        await wait_until(lambda: shop.counts(worker, "heartbeat")["lost"], "the loss is noticed")
        gate.set()
        await wait_until(lambda: worker.done == 1, "it has ended")
    assert shop.pending()[entry_id].consumer == b"thief"
    assert not shop.dead()
    assert not _scored(shop)
    assert set(shop.kinds("job")) <= {"active", "failed"}


async def test_without_the_right_to_list_consumers_only_crashed_jobs_wait(server: Server, shop: WorkerHarness) -> None:
    user, bench = shop.bench.queue, shop.bench
    crashed, innocent = shop.add("crashed"), shop.add("innocent")
    shop.abandon(crashed, deliveries=3)
    shop.abandon(innocent, deliveries=1)
    bench.command("ACL", "SETUSER", user, "on", ">pw", "~*", "+@all", "-xinfo|consumers")
    try:
        narrow = WorkerHarness(bench, f"unix://{user}:pw@{server.socket}")
        async with narrow.running_worker(do_nothing) as worker:
            await wait_until(lambda: shop.kinds("innocent") == ["active", "completed"], "the job behind it runs")
            [suspects] = [state for state in worker.loops if state.name == "crash suspects"]
            assert "xinfo" in str(suspects.notes).lower()
        assert not shop.kinds("crashed")
        assert not shop.dead()
        assert list(shop.pending()) == [crashed]
    finally:
        bench.command("ACL", "DELUSER", user)


# The heartbeat


async def test_a_handler_that_blocks_the_loop_keeps_its_job_and_is_warned_about(
    shop: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    shop.add("blocks")
    runs: list[str] = []

    async def handler(job: Job) -> None:
        runs.append(job.id)
        CLOCK.sleep_sync(0.8)

    def other(job: Job) -> None:
        runs.append("stolen")

    stop, ready = threading.Event(), threading.Event()
    thief = threading.Thread(target=_work_apart, args=(shop, other, stop, ready))
    thief.start()
    ready.wait()
    try:
        async with shop.running_worker(handler, claim_min_idle_ms=200, heartbeat_ms=50):
            await wait_until(shop.is_empty, "it is done")
    finally:
        stop.set()
        thief.join()
    assert len(runs) == 1
    assert runs == ["stolen"] or "blocked the event loop" in caplog.text


def _work_apart(
    shop: WorkerHarness, handler: Callable[[Any], Any], stop: threading.Event, ready: threading.Event
) -> None:
    """A worker in an event loop of its own that only takes what others let go."""

    async def work() -> None:
        async with shop.running_worker(handler, claim_min_idle_ms=200, concurrency=1) as worker:
            await wait_until(lambda: worker.loops, "it is there")
            ready.set()
            while not stop.is_set():
                await CLOCK.sleep(0.01)

    asyncio.run(work())


# The group and its consumers


@pytest.mark.parametrize("loss", ["DEL", "XGROUP DESTROY"])
async def test_a_group_that_is_gone_is_made_again_from_the_start(shop: WorkerHarness, loss: str) -> None:
    seen: list[str] = []

    async def handler(job: Job) -> None:
        seen.append(job.id)

    async with shop.running_worker(handler):
        shop.add("before")
        await wait_until(lambda: seen == ["before"], "it works")
        await wait_until(shop.is_empty, "it is settled")
        stream = shop.bench.keys.stream
        shop.bench.command(*(("DEL", stream) if loss == "DEL" else ("XGROUP", "DESTROY", stream, GROUP)))
        shop.add("after")
        await wait_until(lambda: seen == ["before", "after"], "it works again")
        await wait_until(shop.is_empty, "it is settled too")


async def test_consumers_that_are_gone_are_removed_and_those_with_jobs_are_not(shop: WorkerHarness) -> None:
    from chasqui.consume.cleanup import remove_idle_consumers
    from chasqui.consume.identity import ConsumerIdentity

    bench = shop.bench
    entry_id = shop.add("job")
    shop.abandon(entry_id, deliveries=1)
    for number in range(1500):
        bench.command("XGROUP", "CREATECONSUMER", bench.keys.stream, GROUP, f"gone-{number}")
    await wait_until(lambda: _idle_ms(shop) > 20, "they have been silent for a while")
    identity = ConsumerIdentity(bench.commands, bench.keys, GROUP, "gone-7")
    assert bench.run(remove_idle_consumers(identity, 20)) == 1499
    assert sorted(shop.consumers()) == [b"dead", b"gone-7"]
    assert list(shop.pending()) == [entry_id]


def _idle_ms(shop: WorkerHarness) -> int:
    rows = shop.bench.command("XINFO", "CONSUMERS", shop.bench.keys.stream, GROUP)
    return min(int(row[5]) for row in rows if row[1] != b"dead")
