"""What a worker makes of jobs that go well and of entries that are none, on every kind of server."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chasqui.consume import outbox, reader
from chasqui.errors import ConfigError, Unreachable
from chasqui.models import Job
from chasqui.server.commands import Commands
from chasqui.server.link import AsyncLink, Link
from chasqui.wire import envelope, msgpack_codec
from chasqui.worker import Worker
from tests.support.queue_harness import QueueHarness
from tests.support.servers.server import Server
from tests.support.worker_harness import CLOCK, WorkerHarness, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def shop(server: Server, queue: str) -> Iterator[WorkerHarness]:
    with Link.open(server.url) as link:
        yield WorkerHarness(QueueHarness(server.kind, link, Commands(link.features()), queue), server.url)


async def do_nothing(job: Job) -> None:
    pass


# Jobs that go well


async def test_a_job_is_handed_over_as_it_was_added(shop: WorkerHarness) -> None:
    shop.add("one", {"to": "ada", "n": [1, 2.5, None]}, name="mail", attempt=2)
    seen: list[Job] = []

    async def handler(job: Job) -> None:
        seen.append(job)

    worker = await shop.run_until_empty(handler)
    [job] = seen
    assert type(job) is Job
    assert (job.id, job.name, job.data, job.attempt) == ("one", "mail", {"to": "ada", "n": [1, 2.5, None]}, 2)
    assert abs(job.created_at_ms - CLOCK.now_ms()) < 60_000
    assert worker.done == 1
    assert shop.is_empty()


async def test_old_events_are_dropped_beyond_the_cap(shop: WorkerHarness) -> None:
    script = "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'e', 'old') end"
    shop.bench.command("EVAL", script, 1, shop.bench.keys.events, 101_000)
    for number in range(300):
        shop.add(f"job {number}")
    await shop.run_until_empty(do_nothing)
    assert 100_000 <= shop.bench.command("XLEN", shop.bench.keys.events) < 101_000


async def test_a_worker_that_outruns_the_server_does_not_pile_up_acknowledgements(
    shop: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [msgpack_codec.pack([f"{number}", msgpack_codec.pack(None), 1, 0]) for number in range(5000)]
    for at in range(0, len(jobs), 500):
        run = jobs[at : at + 500]
        shop.bench.run_calls(shop.bench.commands.add_batch(shop.bench.keys, "p", f"{at}", run, name=b""))

    monkeypatch.setattr(outbox, "MAX_WRITES_IN_FLIGHT", 0)  # as if the server never came round to the last ones
    async with shop.running_worker(do_nothing) as worker:
        await wait_until(lambda: worker.done > reader.MAX_UNACKNOWLEDGED, "the worker has run ahead")
        await CLOCK.sleep(0.2)
        assert shop.bench.command("XPENDING", shop.bench.keys.stream, "default")[0] < 2000
        monkeypatch.undo()
        assert worker._consumer
        worker._consumer._outbox.flush()
        await wait_until(shop.is_empty, "everything is done once the server answers again")
    assert worker.done == 5000


async def test_events_report_a_run_from_beginning_to_end_in_the_reference_s_order(shop: WorkerHarness) -> None:
    shop.add("named", name="mail")
    shop.add("nameless", attempt=1)
    await shop.run_until_empty(do_nothing)
    rows = shop.bench.command("XRANGE", shop.bench.keys.events, "-", "+")
    events = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in rows]
    assert [(event[b"e"], event[b"id"], event.get(b"attempt")) for event in events] == [
        (b"active", b"named", b"1"),
        (b"completed", b"named", b"1"),
        (b"active", b"nameless", b"2"),
        (b"completed", b"nameless", b"2"),
        (b"drained", b"", None),
    ]
    assert [list(event) for event in events] == [
        [b"e", b"id", b"ts", b"n", b"attempt"],
        [b"e", b"id", b"ts", b"n", b"attempt", b"duration_us"],
        [b"e", b"id", b"ts", b"attempt"],
        [b"e", b"id", b"ts", b"attempt", b"duration_us"],
        [b"e", b"id", b"ts"],
    ]
    assert all(abs(int(event[b"ts"]) - CLOCK.now_ms()) < 60_000 for event in events)


async def test_a_run_that_takes_a_while_is_reported_before_it_ends(shop: WorkerHarness) -> None:
    shop.add("slow")
    gate = asyncio.Event()

    async def handler(job: Job) -> None:
        await gate.wait()

    async with shop.running_worker(handler):
        await wait_until(lambda: shop.kinds("slow") == ["active"], "its active event is there")
        gate.set()
        await wait_until(lambda: shop.kinds("slow") == ["active", "completed"], "its completed event is there")
    [_, completed] = shop.events("slow")
    assert completed.duration_us is not None
    assert completed.duration_us > 0


async def test_events_can_be_silenced(shop: WorkerHarness) -> None:
    shop.add("one")
    shop.add_raw(b"d", b"garbage")
    await shop.run_until_empty(do_nothing, events_enabled=False)
    assert not shop.bench.command("EXISTS", shop.bench.keys.events)
    assert shop.is_empty()


@pytest.mark.parametrize("is_plain", [False, True], ids=["coroutine", "plain"])
async def test_results_are_stored_for_a_while_and_none_leaves_no_key(shop: WorkerHarness, is_plain: bool) -> None:
    values = {"zero": 0, "text": "", "list": [], "no": False, "map": {"a": [1]}, "none": None}
    for job_id in values:
        shop.add(job_id)

    async def handler(job: Job) -> Any:
        return values[job.id]

    def plain_handler(job: Job) -> Any:
        return values[job.id]

    await shop.run_until_empty(plain_handler if is_plain else handler, store_results=True, result_ttl_ms=90_500)
    keys, command = shop.bench.keys, shop.bench.command
    found = {job_id: command("GET", keys.result(job_id)) for job_id in values}
    assert found.pop("none") is None
    assert {job_id: msgpack_codec.unpack(data) for job_id, data in found.items()} == {
        job_id: value for job_id, value in values.items() if job_id != "none"
    }
    assert 80 < command("TTL", keys.result("map")) <= 91
    assert shop.is_empty()


async def test_no_result_is_stored_unless_asked_for(shop: WorkerHarness) -> None:
    shop.add("one")

    async def handler(job: Job) -> Any:
        return object()

    await shop.run_until_empty(handler)
    assert shop.bench.command("GET", shop.bench.keys.result("one")) is None
    assert shop.kinds("one") == ["active", "completed"]


async def test_a_completed_job_s_result_is_there_when_its_event_is(shop: WorkerHarness) -> None:
    shop.add("one")

    async def handler(job: Job) -> int:
        return 7

    async with shop.running_worker(handler, store_results=True):
        await wait_until(lambda: "completed" in shop.kinds("one"), "it is completed")
        assert shop.bench.command("GET", shop.bench.keys.result("one")) == b"\x07"


async def test_a_job_s_context_is_its_own(shop: WorkerHarness) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    for number in range(20):
        shop.add(f"job-{number}")
    seen = []

    async def handler(job: Job) -> None:
        seen.append(variable.get())
        variable.set(job.id)
        if job.id.endswith(("1", "3", "5", "7", "9")):
            await CLOCK.sleep(0)
            assert variable.get() == job.id

    await shop.run_until_empty(handler, concurrency=2)
    assert seen == ["unset"] * 20
    assert not shop.dead()


@pytest.mark.parametrize("is_plain", [False, True], ids=["coroutine", "plain"])
async def test_no_more_jobs_run_at_once_than_allowed_and_not_less(shop: WorkerHarness, is_plain: bool) -> None:
    for number in range(30):
        shop.add(f"job-{number}")
    running, most = 0, 0
    lock, gate = threading.Lock(), threading.Event()

    def count(change: int) -> None:
        nonlocal running, most
        with lock:
            running += change
            most = max(most, running)

    async def handler(job: Job) -> None:
        count(1)
        while not gate.is_set():
            await CLOCK.sleep(0.001)
        count(-1)

    def plain_handler(job: Job) -> None:
        count(1)
        gate.wait()
        count(-1)

    async with shop.running_worker(plain_handler if is_plain else handler, concurrency=5):
        await wait_until(lambda: running == 5, "five run")
        assert len(shop.pending()) <= 7, "what cannot start soon is left to others"
        gate.set()
        await wait_until(shop.is_empty, "all are done")
    assert most == 5


async def test_a_plain_function_runs_in_a_thread_and_the_loop_goes_on(shop: WorkerHarness) -> None:
    shop.add("blocks")
    gate, threads = threading.Event(), []

    def handler(job: Job) -> None:
        threads.append(threading.current_thread())
        gate.wait()

    async with shop.running_worker(handler):
        await wait_until(lambda: threads, "it has begun")
        await wait_until(lambda: shop.kinds() == ["active"], "the event is there while it blocks")
        gate.set()
        await wait_until(shop.is_empty, "it is done")
    assert threads[0] is not threading.main_thread()


async def test_a_plain_function_that_answers_a_coroutine_is_awaited_in_the_loop(shop: WorkerHarness) -> None:
    shop.add("one")
    loops = []

    async def work(job: Job) -> int:
        loops.append(asyncio.get_running_loop())
        return 7

    def handler(job: Job) -> Any:
        return work(job)

    await shop.run_until_empty(handler, store_results=True)
    assert loops == [asyncio.get_running_loop()]
    assert shop.bench.command("GET", shop.bench.keys.result("one")) == b"\x07"


async def test_objects_and_partial_functions_are_handlers_too(shop: WorkerHarness) -> None:
    seen = []

    class Callable:
        async def __call__(self, job: Job) -> None:
            seen.append(("object", job.id))

    async def handler(word: str, job: Job) -> None:
        seen.append((word, job.id))

    shop.add("one")
    await shop.run_until_empty(Callable())
    shop.add("two")
    await shop.run_until_empty(partial(handler, "partial"))
    assert seen == [("object", "one"), ("partial", "two")]


async def test_what_a_handler_waits_for_behaves_as_in_any_task(shop: WorkerHarness) -> None:
    shop.add("one")
    seen: list[Any] = []

    async def handler(job: Job) -> None:
        seen.append(asyncio.current_task() is not None)
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("timed out")
        async with asyncio.TaskGroup() as group:
            group.create_task(CLOCK.sleep(0))
        seen.append(await asyncio.gather(CLOCK.sleep(0), CLOCK.sleep(0)))

    await shop.run_until_empty(handler)
    assert seen == [True, "timed out", [None, None]]
    assert shop.kinds("one") == ["active", "completed"]


async def test_a_thousand_jobs_are_each_run_once(shop: WorkerHarness) -> None:
    for number in range(1000):
        shop.add(f"job-{number}", name="n" if number % 2 else "")
    seen: list[str] = []

    async def handler(job: Job) -> None:
        seen.append(job.id)
        if len(seen) % 7 == 0:
            await CLOCK.sleep(0)

    await shop.run_until_empty(handler, concurrency=10)
    assert sorted(seen) == sorted(f"job-{number}" for number in range(1000))
    assert shop.is_empty()
    assert shop.kinds().count("completed") == 1000


# Entries that are not jobs


async def test_entries_that_cannot_run_become_dead_letters_with_every_byte(shop: WorkerHarness) -> None:
    misfits = {
        "malformed": (b"x", b"1", b"n", b"named", b"y", b"2"),
        "decode_failed": (b"d", b"\xc1", b"n", b"named", b"x", b"1"),
        "oversize_payload": (b"d", b"\x00" * 2000, b"n", b"named"),
    }
    for fields in misfits.values():
        shop.add_raw(*fields)
    bad_payload = msgpack_codec.pack(["job", b"\xc1", 7, 0])
    shop.add_raw(b"d", bad_payload, b"n", b"named")

    def handler(job: Job) -> None:
        raise AssertionError("never called")

    await shop.run_until_empty(handler, max_payload_bytes=1000)
    letters = shop.dead()
    assert [letter.reason for letter in letters] == [*misfits, "decode_failed"]
    assert {letter.name for letter in letters} == {"named"}
    assert letters[0].original == ((b"x", b"1"), (b"y", b"2"))
    assert letters[1].original == ((b"x", b"1"),)
    assert [letter.d for letter in letters] == [b"", b"\xc1", b"\x00" * 2000, bad_payload]
    assert letters[0].detail == "missing or non-bytes payload field"
    assert letters[2].detail == "2000 bytes, over the limit of 1000"
    events = [(event.kind, event.job_id, event.attempt, event.reason) for event in shop.events()]
    assert events[:-1] == [
        ("dlq", None, 0, "malformed"),
        ("dlq", None, 0, "decode_failed"),
        ("dlq", None, 0, "oversize_payload"),
        ("dlq", "job", 0, "decode_failed"),
    ]
    assert shop.is_empty()


async def test_an_entry_of_a_thousand_fields_becomes_one_dead_letter(shop: WorkerHarness) -> None:
    fields = [word for number in range(1200) for word in (b"f%d" % number, b"v%d" % number)]
    shop.add_raw(*fields)
    await shop.run_until_empty(do_nothing)
    [letter] = shop.dead()
    *own_fields, (name, folded) = letter.original
    assert name == b"folded"
    pairs = [*own_fields, *(tuple(pair) for pair in msgpack_codec.unpack(folded))]
    assert [word for pair in pairs for word in pair] == fields


async def test_forms_that_are_not_written_any_more_run_all_the_same(shop: WorkerHarness) -> None:
    data = msgpack_codec.pack({1: "number as key"})
    shop.add_raw(b"n", b"late", b"d", msgpack_codec.pack({"id": "map", "payload": data, "created_at_ms": 7}))
    shop.add_raw(b"d", msgpack_codec.pack(["three", data, 7]))
    shop.add_raw(b"d", msgpack_codec.pack(["inline", {"a": 1}, 7, 0]))
    seen = []

    async def handler(job: Job) -> None:
        seen.append((job.id, job.name, job.data, job.attempt))

    await shop.run_until_empty(handler)
    assert seen == [
        ("map", "late", {1: "number as key"}, 0),
        ("three", "", {1: "number as key"}, 0),
        ("inline", "", {"a": 1}, 0),
    ]


async def test_a_job_that_may_never_run_is_rejected_on_arrival(shop: WorkerHarness) -> None:
    shop.add("never", attempt=3)
    await shop.run_until_empty(do_nothing, max_attempts=3)
    [letter] = shop.dead()
    assert (letter.reason, envelope.decode(letter.d).attempt) == ("retries_exhausted", 3)
    [event, _] = shop.events()
    assert (event.kind, event.job_id, event.attempt, event.reason) == ("dlq", "never", 3, "retries_exhausted")


# Starting and stopping


async def test_a_worker_can_be_run_closed_and_asked_how_it_is(shop: WorkerHarness) -> None:
    worker = shop.worker(do_nothing)
    assert (worker.name, worker.is_running, worker.is_closed, worker.loops) == (
        shop.bench.queue,
        False,
        False,
        [],
    )
    async with worker:
        first = asyncio.ensure_future(worker.run())
        await wait_until(lambda: len(worker.loops) == 8, "its loops are there")
        roles = {"running", "leader"}
        await wait_until(lambda: {state.role for state in worker.loops} == roles, "all are well")
        assert [state.name for state in worker.loops] == [
            "reader",
            "outbox",
            "settlements",
            "crash suspects",
            "cleanup",
            "heartbeat",
            "promoter",
            "scheduler",
        ]
        second = asyncio.ensure_future(worker.run())
        assert [worker.is_running] == [True]
        assert shop.consumers() == [worker.consumer_id.encode()]
    await asyncio.gather(first, second)
    assert [worker.is_running, worker.is_closed] == [False, True]
    assert {state.role for state in worker.loops} == {"stopped"}
    assert shop.consumers() == []


async def test_a_worker_closed_before_it_ran_does_not_run(shop: WorkerHarness) -> None:
    worker = shop.worker(do_nothing)
    await worker.close()
    await worker.run()
    assert not shop.bench.command("EXISTS", shop.bench.keys.stream)


async def test_promoter_and_scheduler_can_be_left_out(shop: WorkerHarness) -> None:
    async with shop.running_worker(do_nothing, delayed_enabled=False, run_scheduler=False) as worker:
        await wait_until(lambda: worker.loops, "it runs")
        assert not {state.name for state in worker.loops} & {"promoter", "scheduler"}


async def test_a_worker_works_over_a_given_link_and_leaves_it_open(shop: WorkerHarness) -> None:
    shop.add("one")
    async with AsyncLink.open(shop.url) as link:
        await Worker(shop.bench.queue, do_nothing, link=link, burst=True).run()
        assert (await link.features()).kind
        assert shop.is_empty()


async def test_a_server_that_is_not_there_is_an_error_at_the_start() -> None:
    with pytest.raises(Unreachable, match="nothing listens"):
        await Worker("q", do_nothing, redis_url="redis://127.0.0.1:1").run()


async def test_closing_gives_back_what_was_not_started_and_waits_for_what_was(shop: WorkerHarness) -> None:
    ids = [shop.add(f"job-{number}") for number in range(5)]
    gate, seen = asyncio.Event(), []

    async def handler(job: Job) -> None:
        seen.append(job.id)
        await gate.wait()

    worker = shop.worker(handler, concurrency=2)
    running = asyncio.ensure_future(worker.run())
    await wait_until(lambda: len(seen) == 2, "two run")
    await worker.close()
    others: list[str] = []

    async def other(job: Job) -> None:
        others.append(job.id)

    async with shop.running_worker(other):
        await wait_until(lambda: sorted(others) == ["job-2", "job-3", "job-4"], "another does the rest")
    assert not running.done()
    assert {entry.entry_id for entry in shop.pending().values()} == set(ids[:2])
    gate.set()
    await running
    assert shop.is_empty()
    assert sorted(seen) == ["job-0", "job-1"]
    assert shop.consumers() in ([], [b"released"])


async def test_a_handler_that_does_not_end_in_time_is_called_off_and_its_job_is_as_new(
    shop: WorkerHarness,
) -> None:
    entry_id = shop.add("endless")
    ends: list[str] = []

    async def handler(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("tidied up")

    async with shop.running_worker(handler, shutdown_timeout=0.05):
        await wait_until(lambda: shop.kinds() == ["active"], "it runs")
    assert ends == ["tidied up"]
    assert shop.pending()[entry_id].deliveries == 0
    assert shop.kinds() == ["active"]
    seen: list[int] = []

    async def quick(job: Job) -> None:
        seen.append(job.attempt)

    await shop.run_until_empty(quick)
    assert seen == [0]


async def test_a_cancelled_worker_leaves_at_once_and_its_jobs_are_as_new(shop: WorkerHarness) -> None:
    entry_id = shop.add("endless")

    async def handler(job: Job) -> None:
        await asyncio.Event().wait()

    running = asyncio.ensure_future(shop.worker(handler).run())
    await wait_until(lambda: shop.kinds() == ["active"], "it runs")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert shop.pending()[entry_id].deliveries == 0


async def test_burst_ends_when_there_is_nothing_left_not_even_what_jobs_added(shop: WorkerHarness) -> None:
    shop.add("first", 3)

    async def handler(job: Job) -> None:
        await CLOCK.sleep(0.02)
        if job.data:
            shop.add(f"after {job.id}", job.data - 1)

    worker = await shop.run_until_empty(handler)
    assert worker.done == 4
    assert shop.is_empty()


async def test_the_reader_asks_for_what_it_can_do_soon_and_no_more(shop: WorkerHarness) -> None:
    for number in range(300):
        shop.add(f"job-{number}")
    gate = asyncio.Event()

    async def handler(job: Job) -> None:
        await gate.wait()

    async with shop.running_worker(handler, concurrency=10, shutdown_timeout=0):
        await wait_until(lambda: shop.kinds().count("active") == 10, "ten run")
        assert len(shop.pending()) == 10


async def test_read_count_bounds_every_read(shop: WorkerHarness) -> None:
    for number in range(30):
        shop.add(f"job-{number}")
    async with shop.running_worker(do_nothing, read_count=3):
        await wait_until(shop.is_empty, "all are done")


# Arguments


def test_the_constructor_is_the_reference_s_and_ours_by_keyword() -> None:
    parameters = inspect.signature(Worker.__init__).parameters
    assert [name for name, one in parameters.items() if one.kind is not one.KEYWORD_ONLY] == [
        "self",
        "queue_name",
        "handler",
    ]
    named = {name: one.default for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert dict(list(named.items())[:20]) == {
        "redis_url": "redis://127.0.0.1:6379",
        "tls": False,
        "concurrency": 100,
        "max_attempts": 25,
        "group": "default",
        "consumer_id": None,
        "read_block_ms": None,
        "read_count": None,
        "claim_min_idle_ms": None,
        "max_payload_bytes": None,
        "dlq_max_stream_len": None,
        "events_enabled": True,
        "delayed_enabled": True,
        "run_scheduler": True,
        "scheduler_tick_ms": None,
        "store_results": False,
        "result_ttl_ms": None,
        "credential_provider": None,
        "crash_limit": 3,
        "heartbeat_ms": None,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read_block_ms": -1}, "read_block_ms must be non-negative; got -1"),
        ({"claim_min_idle_ms": -5}, "claim_min_idle_ms must be non-negative; got -5"),
        ({"dlq_max_stream_len": -1}, "dlq_max_stream_len must be non-negative; got -1"),
        ({"result_ttl_ms": 0}, "result_ttl_ms must be positive; got 0"),
    ],
)
def test_impossible_options_are_refused_in_the_reference_s_words(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Worker("q", do_nothing, **options)
    assert str(refusal.value) == message


async def test_no_concurrency_means_one(shop: WorkerHarness) -> None:
    shop.add("one")
    await shop.run_until_empty(do_nothing, concurrency=0)
    assert shop.is_empty()


async def test_the_group_and_the_consumer_can_be_named(shop: WorkerHarness) -> None:
    async with shop.running_worker(do_nothing, group="others", consumer_id="ada"):
        await wait_until(lambda: shop.groups() == [b"others"], "the group is made")
        await wait_until(lambda: shop.consumers("others") == [b"ada"], "it is known by its name")
