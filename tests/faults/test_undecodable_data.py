"""Bytes that are not jobs, keys of the wrong type, specs that do not decode: stored, reported, and harmless to all else."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui import RepeatPattern, SyncQueue
from chasqui.errors import ChasquiError
from tests.faults.conftest import add, everywhere
from tests.support.faults.run_ledger import dead_job_ids, dead_letters, remaining_jobs
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chasqui.wire.keys import Keys
    from tests.support.faults.scenario import FaultScenario
    from tests.support.queue_harness import QueueHarness

SOON = {"kind": "fixed", "delay_ms": 50, "jitter_ms": 0}

NO_JOBS = [
    b"",
    b"abc",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\x00too long a name",
    b"\x02\x00\x00\x00\xff\xfenot an envelope",
    b"just some text, rather long, that nobody ever packed",
]


@everywhere
def test_fault_25_garbage_in_the_delayed_set_is_set_apart_and_blocks_no_job(
    scenario: FaultScenario, queue_client: SyncQueue, report_recovery: Callable[[float], None]
) -> None:
    keys = scenario.bench.keys
    for place, member in enumerate(NO_JOBS):
        scenario.bench.command("ZADD", keys.delayed, ("-inf", "0", "1", "2.5", "-7", "1e3")[place], member)
    scenario.bench.command("ZADD", keys.delayed, "+inf", b"never due")
    with pytest.raises(ChasquiError, match="float"):
        scenario.bench.command("ZADD", keys.delayed, "nan", b"x")
    with scenario.worker() as worker:
        ids = add(queue_client, count=5, delay_ms=100)
        took = wait_until(lambda: scenario.ledger.completed(ids), "the jobs run on time")
        wait_until(lambda: len(dead_letters(scenario.bench)) == len(NO_JOBS), "the garbage is kept")
        odd = msgpack.packb(["odd", b"\x80", 1, 0])
        scenario.bench.command("ZADD", keys.delayed, "0", b"\x02\x00\x00\x00\xff\xfe" + odd)
        wait_until(lambda: scenario.ledger.completed(["odd"]), "a name that is no text does not stop a job")
        wait_until(
            lambda: remaining_jobs(scenario.bench) == {"stream": 0, "pending": 0, "delayed": 1},
            "all is settled",
        )
        assert worker.alive
    assert sorted(letter.d for letter in dead_letters(scenario.bench)) == sorted(NO_JOBS)
    assert {letter.reason for letter in dead_letters(scenario.bench)} == {"malformed"}
    assert took <= 1
    report_recovery(took)


WRONG: dict[str, tuple[Callable[[Keys], str], set[str]]] = {
    "stream": (lambda keys: keys.stream, {"plain", "delayed", "failing", "hopeless", "ticks"}),
    "dlq": (lambda keys: keys.dlq, {"hopeless"}),
    "delayed": (lambda keys: keys.delayed, {"delayed", "failing"}),
    "repeat": (lambda keys: keys.repeat, {"ticks"}),
    "repeat:spec": (lambda keys: keys.repeat_spec("tick::every:200"), {"ticks"}),
    "events": (lambda keys: keys.events, set()),
    "result": (lambda keys: keys.result("job-1"), set()),
    "dlid": (lambda keys: keys.delayed_marker("job-1"), set()),
    "didx": (lambda keys: keys.delayed_index("job-1"), set()),
    "promoter:lock": (lambda keys: keys.promoter_lock, {"delayed", "failing"}),
    "scheduler:lock": (lambda keys: keys.scheduler_lock, {"ticks"}),
}


FEATURES = {"plain", "delayed", "failing", "hopeless", "ticks"}


class Trials:
    """One job for each feature, and the fires of a schedule; remembers what could be added."""

    def __init__(self, stage: FaultScenario, queue_client: SyncQueue) -> None:
        self._stage, self._queue_client = stage, queue_client
        self.added: dict[str, list[str]] = {}
        self.refused: set[str] = set()
        self._ticks = self._ticked()

    def _ticked(self) -> int:
        return sum(run.name == "tick" for run in self._stage.ledger.runs())

    def add(self, feature: str, *actions: list[Any], **options: Any) -> None:
        try:
            self.added.setdefault(feature, []).extend(add(self._queue_client, *actions, **options))
        except ChasquiError:
            self.refused.add(feature)

    def add_all(self) -> None:
        self._ticks = self._ticked()
        self.add("plain", ["give", 1])
        self.add("delayed", delay_ms=100)
        self.add("failing", ["fail_until", 1], attempts=3, backoff=SOON)
        self.add("hopeless", ["fail_unrecoverably"])

    def await_all(self, features: set[str], what: str) -> None:
        for feature in sorted(features):
            wait_until(partial(self.done, feature), f"{feature} {what}", 10)

    def done(self, feature: str) -> bool:
        if feature == "ticks":
            return self._ticked() > self._ticks
        if feature == "hopeless":
            return set(self.added.get(feature, [])) <= set(dead_job_ids(self._stage.bench))
        return self._stage.ledger.completed(self.added.get(feature, []))


SPOIL = """
    redis.call('COPY', KEYS[1], KEYS[2])
    redis.call('DEL', KEYS[1])
    return redis.call('LPUSH', KEYS[1], 'not at all what belongs here')
"""
RESTORE_KEY = """
    if redis.call('COPY', KEYS[2], KEYS[1], 'REPLACE') == 0 then redis.call('DEL', KEYS[1]) end
    return redis.call('DEL', KEYS[2])
"""


@contextmanager
def wrong_type(bench: QueueHarness, name: str) -> Iterator[None]:
    """Let the key hold something else for a while, then restore it atomically."""
    aside = f"{name}:aside"
    bench.command("EVAL", SPOIL, 2, name, aside)
    yield
    bench.command("EVAL", RESTORE_KEY, 2, name, aside)


class Trouble:
    """One key of the wrong type under everything a queue can do, from the trials to the last account."""

    def __init__(self, stage: FaultScenario, queue_client: SyncQueue, key: str) -> None:
        self.stage, self.queue_client, self.key = stage, queue_client, key
        self.name, self.pauses = WRONG[key][0](stage.bench.keys), WRONG[key][1]
        queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200))
        self.trials = Trials(stage, queue_client)

    def begin(self) -> None:
        self.trials.add_all()
        self.trials.await_all(FEATURES, "works to begin with")

    def strike(self) -> None:
        """Everything is tried while the key is wrong; what does not need it goes on."""
        self.trials.add_all()
        self.trials.await_all(FEATURES - self.pauses, f"goes on without {self.key}")

    def heal(self) -> float:
        """Everything is tried again; answers how long it took to be back."""
        start = CLOCK.monotonic()
        self.trials.add_all()
        self.trials.await_all(FEATURES, "is back")
        assert self.trials.refused <= self.pauses
        return CLOCK.monotonic() - start

    def settle(self) -> None:
        """What was accepted is done, also while the key was wrong."""
        self.queue_client.remove_repeatable_by_key("tick::every:200")
        hopeless = self.trials.added.pop("hopeless")
        others = [job for jobs in self.trials.added.values() for job in jobs]
        self.stage.await_end([*others, *hopeless])
        ticks = {run.id for run in self.stage.ledger.runs() if run.name == "tick"}
        self.stage.check_accounts([*others, *hopeless, *ticks], dead=hopeless)


@everywhere
@pytest.mark.parametrize("key", WRONG)
def test_fault_26_a_key_of_the_wrong_type_pauses_one_feature_until_it_is_right_again(
    scenario: FaultScenario, queue_client: SyncQueue, key: str, report_recovery: Callable[[float], None]
) -> None:
    trouble = Trouble(scenario, queue_client, key)
    with scenario.worker(store_results=True) as worker:
        trouble.begin()
        with wrong_type(scenario.bench, trouble.name):
            trouble.strike()
            CLOCK.sleep_sync(1)
            assert worker.alive
        took = trouble.heal()
        trouble.settle()
    assert took <= 5
    report_recovery(took)


@everywhere
@pytest.mark.slow
@pytest.mark.parametrize("key", WRONG)
def test_fault_26_a_key_of_the_wrong_type_for_ever_costs_nothing_but_its_feature(
    scenario: FaultScenario, queue_client: SyncQueue, key: str
) -> None:
    """For ever is longer than the worker lives: it leaves in peace, and nothing is lost for who comes after it."""
    trouble = Trouble(scenario, queue_client, key)
    with scenario.worker(store_results=True) as worker:
        trouble.begin()
        with wrong_type(scenario.bench, trouble.name):
            for _ in range(3):
                trouble.strike()
                CLOCK.sleep_sync(2)
            assert worker.alive
            worker.stop()
            assert worker.process.returncode == 0
    with scenario.worker(store_results=True):
        trouble.heal()
        trouble.settle()


@everywhere
@pytest.mark.parametrize("key", ["result", "dlid", "didx"])
def test_fault_26_a_wrong_type_at_a_key_of_one_job_costs_that_job_nothing(
    scenario: FaultScenario, queue_client: SyncQueue, key: str
) -> None:
    name = WRONG[key][0](scenario.bench.keys)
    scenario.bench.command("LPUSH", name, "not at all what belongs here")
    with scenario.worker(store_results=True):
        try:
            created = queue_client.add("job", {"do": [["give", 5]]}, job_id="job-1", delay_ms=100).created
        except ChasquiError:
            created = False
        if created:
            scenario.await_end(["job-1"])
            scenario.check_accounts(["job-1"])
        else:
            scenario.bench.command("DEL", name)
            assert queue_client.add("job", {"do": [["give", 5]]}, job_id="job-1", delay_ms=100).created
            scenario.await_end(["job-1"])
            scenario.check_accounts(["job-1"])
        assert queue_client.get_job_result("job-1") == 5


def _deep(levels: int) -> bytes:
    return b"\x91" * levels + b"\xc0"


NOW = 1_790_000_000_000
UNFIT: dict[str, tuple[list[bytes], str]] = {
    "no d": ([b"x", b"1", b"n", b"name", b"y", b"\xff"], "malformed"),
    "nothing packed": ([b"d", b"\xc1\xc1", b"n", b"name", b"z", b"3"], "decode_failed"),
    "empty": ([b"d", b"", b"n", b"name"], "decode_failed"),
    "cut off": ([b"d", msgpack.packb(["id", b"\x80", NOW, 0])[:-3], b"n", b"name"], "decode_failed"),
    "bad payload": ([b"d", msgpack.packb(["id", b"\xc1", NOW, 0]), b"n", b"name"], "decode_failed"),
    "deep payload": (
        [b"d", msgpack.packb(["id", _deep(100_000), NOW, 0]), b"n", b"name"],
        "decode_failed",
    ),
    "oversize": (
        [b"d", msgpack.packb(["id", msgpack.packb("x" * 1_100_000), NOW, 0]), b"n", b"name", b"w", b"4"],
        "oversize_payload",
    ),
    "huge header": ([b"d", b"\xdd\xff\xff\xff\xff", b"n", b"name"], "decode_failed"),
}


@everywhere
def test_fault_27_entries_that_cannot_be_jobs_are_dead_once_with_every_field(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    entries = {
        what: scenario.bench.command("XADD", scenario.bench.keys.stream, "*", *fields)
        for what, (fields, _) in UNFIT.items()
    }
    ids = add(queue_client, count=5)
    with scenario.worker() as worker:
        wait_until(lambda: len(dead_letters(scenario.bench)) == len(UNFIT), "all are buried")
        scenario.await_end(ids)
        assert worker.alive
    scenario.check_accounts(ids)
    letters = {letter.source_id.encode(): letter for letter in dead_letters(scenario.bench)}
    for what, (fields, reason) in UNFIT.items():
        letter = letters[entries[what]]
        assert letter.reason == reason, what
        assert letter.name == "name", what
        pairs = dict(zip(fields[::2], fields[1::2], strict=True))
        assert letter.d == pairs.pop(b"d", b""), what
        pairs.pop(b"n")
        assert dict(letter.original) == pairs, what


@everywhere
def test_fault_28_bad_specs_are_stored_and_reported_and_the_others_fire(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    bench, keys = scenario.bench, scenario.bench.keys
    bad = {
        "garbage": b"\xc1",
        "empty": b"",
        "no-array": msgpack.packb({"a": 1}),
        "no-cron": msgpack.packb(
            ["no-cron", "n", {"Cron": ["not a time", None]}, b"\xc4\x01\x01", None, None, None, 0]
        ),
        "no-pattern": msgpack.packb(["no-pattern", "n", {"Moon": [1]}, b"\xc4\x01\x01", None, None, None, 0]),
    }
    for key, data in bad.items():
        bench.command("HSET", keys.repeat_spec(key), "spec", data)
        bench.command("ZADD", keys.repeat, "1", key)
    for number in range(300):  # more than one batch of them
        bench.command("ZADD", keys.repeat, "2", f"without a hash {number}")
    bench.command("ZADD", keys.repeat, "3", b"\xff\xfe")
    queue_client.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(200))
    with scenario.worker() as worker:
        wait_until(lambda: len(scenario.ledger.runs()) >= 3, "the good one fires")
        wait_until(lambda: "garbage" in worker.stderr_text(), "the bad ones are reported")
    assert {run.name for run in scenario.ledger.runs()} == {"tick"}
    assert bench.command("ZCARD", keys.repeat) == len(bad) + 302
    for key, data in bad.items():
        assert bench.command("HGET", keys.repeat_spec(key), "spec") == data
