"""Replies that break off, at every byte they could: whatever was said is said again, and done once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import SyncQueue
from chasqui.errors import Unconfirmed
from chasqui.server import scripts
from tests.faults.conftest import add, everywhere, retry
from tests.faults.test_server import SOON, mixture
from tests.support.faults.proxy import CutReply
from tests.support.faults.run_ledger import EMPTY, dead_job_ids, dead_letters, remaining_jobs
from tests.support.processes.engines import CLOCK, PATIENCE_S, wait_until
from tests.support.servers.binaries import KINDS

if TYPE_CHECKING:
    from tests.support.faults.proxy import Proxy
    from tests.support.faults.scenario import FaultScenario

Aim = Callable[[bytes, bytes], bool]
WHOLE = 1 << 30
SMALL = 80
"""Every byte of replies up to this length is tried; of longer ones that many, evenly, with both ends."""


def _places(length: int, most: int = SMALL) -> list[int]:
    """Where to cut a reply of this length."""
    assert length > 0, "there was no reply to cut"
    step = max(1.0, (length - 1) / (most - 1))
    return sorted({min(length - 1, round(at * step)) for at in range(min(length, most))})


def test_every_byte_of_a_short_reply_is_a_place_to_cut_and_the_ends_of_a_long_one() -> None:
    assert _places(5) == [0, 1, 2, 3, 4]
    assert len(_places(5000)) == SMALL
    assert (_places(5000)[0], _places(5000)[-1]) == (0, 4999)


def _cut_everywhere(make: Callable[[int], CutReply], most: int = SMALL) -> None:
    """Make something happen with its reply whole, to see how long that is, then once for each place to cut it. The
    very first reply is another one if the server does not know a script yet.
    """
    length = [make(WHOLE).passed, make(WHOLE).passed][-1]
    for after in _places(length, most):
        cut = make(after)
        assert cut.happened or _nearly(cut.passed, length), f"nothing was cut after {after} bytes: {cut}"


def _nearly(passed: int, length: int) -> bool:
    """Whether it was the same reply, only shorter: ids and times have more digits or fewer, in a bulk many of them."""
    return passed >= length - max(12, length // 10)


def _call_cut_everywhere(
    stage: FaultScenario,
    proxy: Proxy,
    call: Callable[[SyncQueue], Any],
    check: Callable[[int], None],
    most: int = SMALL,
) -> None:
    """The same with a call of a producer's, through a new connection each time, and a check after it."""

    def make(after: int) -> CutReply:
        with SyncQueue(stage.queue_name, redis_url=proxy.url) as through:
            through.get_job_result("warm")
            cut = proxy.cut = CutReply(after)
            retry(lambda: call(through))
            proxy.cut = None
        check(after)
        return cut

    _cut_everywhere(make, most)


ADDS: dict[str, Callable[[SyncQueue], Any]] = {
    "add": lambda queue_client: queue_client.add("job", {"a": 1}, job_id="one"),
    "add without an id": lambda queue_client: queue_client.add("job", {"a": 1}),
    "add_unique": lambda queue_client: queue_client.add_unique("job", {"a": 1}, job_id="one"),
    "delayed": lambda queue_client: queue_client.add("job", {"a": 1}, job_id="one", delay_ms=60_000),
    "repeat": lambda queue_client: queue_client.add("job", {"a": 1}, repeat={"kind": "every", "interval_ms": 60_000}),
}


@everywhere
@pytest.mark.parametrize("what", ADDS)
def test_fault_20_an_add_whose_reply_is_lost_at_any_byte_can_be_made_again(
    scenario: FaultScenario, proxy: Proxy, what: str
) -> None:
    bench = scenario.bench

    def exactly_one(after: int) -> None:
        found = [
            bench.command("XLEN", bench.keys.stream),
            bench.command("ZCARD", bench.keys.delayed),
            bench.command("ZCARD", bench.keys.repeat),
        ]
        assert sum(found) == 1, f"{after} bytes passed"
        bench.command("FLUSHALL")

    _call_cut_everywhere(scenario, proxy, lambda queue_client: _add_again(queue_client, what), exactly_one)


def _add_again(queue_client: SyncQueue, what: str) -> None:
    """One that has no id of the caller's is known by its own, which the error carries."""
    try:
        ADDS[what](queue_client)
    except Unconfirmed as lost:
        lost.retry()


@everywhere
def test_fault_20_a_bulk_whose_reply_is_lost_at_any_byte_can_be_sent_again_without_doubles(
    scenario: FaultScenario, proxy: Proxy
) -> None:
    bench = scenario.bench
    jobs: list[dict[str, Any]] = [{"name": "job", "data": {"i": i}} for i in range(1200)]
    for at in range(0, 1200, 100):  # of every sort, so that they go in many pieces
        jobs[at] |= {"job_id": f"named-{at}"}
        jobs[at + 50] |= {"delay_ms": 60_000}

    unconfirmed: list[int] = []

    def send(queue_client: SyncQueue) -> None:
        try:
            added = queue_client.add_bulk(jobs)
        except Unconfirmed as lost:
            unconfirmed.append(len(lost.written))
            added = lost.retry()
        assert len({job.id for job in added}) == 1200

    def exactly_those(after: int) -> None:
        entries = bench.command("XRANGE", bench.keys.stream, "-", "+")
        assert len(entries) == len({bytes(fields[1]) for _, fields in entries}) == 1188, f"{after} bytes passed"
        assert bench.command("ZCARD", bench.keys.delayed) == 12
        bench.command("FLUSHALL")

    _call_cut_everywhere(scenario, proxy, send, exactly_those, most=40)
    assert set(unconfirmed) <= {1200}, "an error about unconfirmed jobs lists each of them"


@everywhere
def test_fault_20_a_replay_whose_reply_is_lost_at_any_byte_can_be_made_again(
    scenario: FaultScenario, queue_client: SyncQueue, proxy: Proxy
) -> None:
    bench = scenario.bench
    add(queue_client, ["fail_unrecoverably"], count=5)
    with scenario.worker():
        wait_until(lambda: len(dead_letters(bench)) == 5, "all are dead")
    letters = bench.command("XRANGE", bench.keys.dlq, "-", "+")

    def all_are_back(after: int) -> None:
        entries = bench.command("XRANGE", bench.keys.stream, "-", "+")
        assert len(entries) == len({bytes(fields[1]) for _, fields in entries}) == 5, f"{after} bytes passed"
        assert dead_letters(bench) == []
        bench.command("FLUSHALL")
        for _, fields in letters:
            bench.command("XADD", bench.keys.dlq, "*", *fields)

    _call_cut_everywhere(scenario, proxy, _replay_all, all_are_back)


def _replay_all(queue_client: SyncQueue) -> None:
    retry(lambda: queue_client.replay_dlq(5))
    queue_client.replay_dlq(5)


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A request of a worker about a job: the words it is known by, and what makes the worker send it."""

    words: tuple[str, ...]
    actions: tuple[list[Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def about(self, job_id: str) -> Aim:
        """Whether a reply answers this, said about that job."""
        words, name = [_as_sent(word) for word in self.words], job_id.encode()
        return lambda request, reply: any(word in request for word in words) and name in request + reply


def _as_sent(word: str) -> bytes:
    return (scripts.script_sha(word) if word in scripts.script_names() else word).encode()


WORKER_REQUESTS = {
    "read": WorkerRequest(("XREADGROUP", "read_ready", "read_ready_without_claim")),
    "ack": WorkerRequest(("XACKDEL", "ack_delete")),
    "result": WorkerRequest(("settle_owned",), (["give", 1],)),
    "retry": WorkerRequest(("schedule_retry",), (["fail_until", 1],), (("attempts", 3), ("backoff", SOON))),
    "dead letter": WorkerRequest(("move_to_dlq",), (["fail_unrecoverably"],)),
    "promote": WorkerRequest(("promote",), options=(("delay_ms", 30),)),
}


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("redis-8.6", 5),
        *(pytest.param(kind, 8, marks=pytest.mark.slow) for kind in KINDS if kind != "redis-8.6"),
        pytest.param("redis-8.6", SMALL, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
@pytest.mark.parametrize("what", WORKER_REQUESTS)
def test_fault_20_a_worker_whose_reply_is_lost_at_any_byte_does_the_job_once(
    scenario: FaultScenario, queue_client: SyncQueue, proxy: Proxy, what: str, most: int
) -> None:
    request, bench = WORKER_REQUESTS[what], scenario.bench
    ids: list[str] = []

    def one_more(after: int) -> CutReply:
        job_id = f"job-{len(ids):05}"
        cut = proxy.cut = CutReply(after, request.about(job_id))
        ids.extend(add(queue_client, *request.actions, job_id=job_id, **dict(request.options)))
        wait_until(lambda: set(ids) == set(scenario.ledger.completions()) | set(dead_job_ids(bench)), "it is done")
        wait_until(lambda: remaining_jobs(bench) == EMPTY, "and settled")
        return cut

    def work(after: int) -> CutReply:
        """What follows a lost reply closely may be said another way: until it is said this way again."""
        end = CLOCK.monotonic() + PATIENCE_S
        while not (cut := one_more(after)).over:
            assert CLOCK.monotonic() < end, f"it is never said as {request.words} again"
        return cut

    with scenario.worker(url=proxy.url, store_results=True, claim_min_idle_ms=60_000):  # no test waits for a lease
        scenario.await_consumers(1)
        _cut_everywhere(work, most)
    scenario.check_accounts(ids, dead=ids if what == "dead letter" else [])
    assert set(scenario.ledger.starts().values()) == {2 if what == "retry" else 1}


@everywhere
def test_fault_20_a_worker_that_loses_replies_of_every_kind_does_all_jobs(
    scenario: FaultScenario, queue_client: SyncQueue, proxy: Proxy, report_recovery: Callable[[float], None]
) -> None:
    chance = random.Random(20)
    with scenario.worker(url=proxy.url, store_results=True):
        wait_until(lambda: proxy.connections, "it is connected")
        proxy.mischief = lambda: chance.random() < 0.05
        good, hopeless = mixture(queue_client, 160)
        CLOCK.sleep_sync(5)
        proxy.mischief = lambda: False
        took = scenario.await_end([*good, *hopeless])
    scenario.check_accounts([*good, *hopeless], dead=hopeless)
    report_recovery(took)
