"""Jobs that one engine adds and the other runs: names, ids, payloads, overrides, delays and attempts arrive as meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.faults.run_ledger import dead_letters
from tests.support.processes.engines import wait_until

if TYPE_CHECKING:
    from tests.interop.conftest import EnginePair
    from tests.support.faults.run_ledger import JobRun
    from tests.support.faults.scenario import FaultScenario

JOBS = 1000
NAMES = ("", "email", "бета", "x" * 256)
SOON = {"kind": "fixed", "delay_ms": 20, "jitter_ms": 0}
GROWING = {"kind": "exponential", "delay_ms": 5, "max_delay_ms": 50, "multiplier": 2.0, "jitter_ms": 5}


def every_sort_of_job(number: int) -> dict[str, Any]:
    """The job with this number: plain or delayed, named or not, with an id or without, failing or not."""
    data = {"i": number, "blob": bytes([number % 256]), "half": number / 2, "deep": [{"a": [None, True]}]}
    job: dict[str, Any] = {"name": NAMES[number % 4], "data": data}
    if number % 3 == 0:
        job["job_id"] = f"id-{number}"
    if number % 5 == 0:
        job["delay_ms"] = 20 + number % 400
    if number % 7 == 0:
        job |= {"attempts": 4, "backoff": SOON if number % 2 else GROWING}
        data["do"] = [["fail_until", number % 4]]
    if number % 50 == 1:
        job |= {"attempts": 2, "backoff": 10}
        data["do"] = [["fail_until", 99]]
    if number % 50 == 2:
        data["do"] = [["fail_unrecoverably"]]
    return job


def expected_attempts(job: dict[str, Any]) -> list[int]:
    match job["data"].get("do"):
        case [["fail_until", 99]]:
            return [0, 1]
        case [["fail_until", times]]:
            return list(range(times + 1))
        case _:
            return [0]


def expected_to_die(job: dict[str, Any]) -> bool:
    return job["data"].get("do") in ([["fail_until", 99]], [["fail_unrecoverably"]])


def test_every_sort_of_job_that_one_engine_adds_runs_in_the_other_as_meant(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    jobs = [every_sort_of_job(number) for number in range(JOBS)]
    with scenario.queue(engine_pair.first) as queue, scenario.worker(engine_pair.second, concurrency=20):
        added = {job["id"]: wanted for job, wanted in zip(queue.add_bulk(jobs), jobs, strict=True)}
        doomed = {job_id for job_id, job in added.items() if expected_to_die(job)}
        scenario.await_end(added, 40)
    scenario.check_accounts(added, dead=doomed)
    runs: dict[str, list[JobRun]] = {}
    for run in scenario.ledger.runs():
        runs.setdefault(run.id, []).append(run)
    for job_id, job in added.items():
        assert [run.attempt for run in runs[job_id]] == expected_attempts(job), job
        assert {run.name for run in runs[job_id]} == {job["name"]}
        assert {run.data for run in runs[job_id]} == {repr(job["data"])}
        assert len({run.created_at_ms for run in runs[job_id]}) == 1
    assert {job_id for job_id in added if job_id.startswith("id-")} == {f"id-{i}" for i in range(0, JOBS, 3)}
    assert {letter.name for letter in dead_letters(scenario.bench)} == {added[job_id]["name"] for job_id in doomed}


def test_a_job_that_keeps_failing_counts_its_attempts_across_both_engines(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    with (
        scenario.worker(engine_pair.first, concurrency=4),
        scenario.worker(engine_pair.second, concurrency=4),
    ):
        scenario.await_consumers(2)
        with scenario.queue(engine_pair.first) as queue:
            data = {"do": [["sleep", 0.01], ["fail_until", 6]]}
            jobs = [{"name": "stubborn", "data": data, "attempts": 9, "backoff": SOON}] * 60
            ids = [job["id"] for job in queue.add_bulk(jobs)]
        scenario.await_end(ids)
    scenario.check_accounts(ids)
    assert len({run.pid for run in scenario.ledger.runs()}) == 2, "one engine did all the work"
    for job_id in ids:
        assert [run.attempt for run in scenario.ledger.runs(job_id)] == list(range(7))


def test_a_job_scheduled_by_one_engine_is_cancelled_by_the_other(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    with scenario.queue(engine_pair.first) as first, scenario.queue(engine_pair.second) as second:
        for number in range(20):
            first.add("later", {"i": number}, job_id=f"later-{number}", delay_ms=1500)
        assert [second.cancel_delayed(f"later-{number}") for number in range(0, 20, 2)] == [True] * 10
        assert second.cancel_delayed("later-0") is False
        assert first.cancel_delayed("later-2") is False
        with scenario.worker(engine_pair.second):
            others = [f"later-{number}" for number in range(1, 20, 2)]
            scenario.await_end(others)
        assert second.cancel_delayed("later-1") is False
    scenario.check_accounts(others)


def test_what_a_handler_returns_in_one_engine_is_read_by_the_other(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    values = [{"a": [1, 2.5, b"\x00"]}, 0, "", [], False, "text", None]
    with scenario.worker(engine_pair.first, store_results=True), scenario.queue(engine_pair.second) as queue:
        ids = [job["id"] for job in queue.add_bulk([{"name": "", "data": {"do": [["give", v]]}} for v in values])]
        scenario.await_end(ids)
        assert queue.get_job_result_bulk(ids) == values
        assert queue.get_job_result(ids[0]) == values[0]
    assert scenario.bench.command("EXISTS", scenario.bench.keys.result(ids[-1])) == 0
    assert 3590 <= scenario.bench.command("TTL", scenario.bench.keys.result(ids[0])) <= 3600


def test_dead_letters_of_one_engine_are_seen_alike_and_replayed_by_the_other(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    remedy = scenario.directory / "remedy"
    ids = [f"dead-{i}" for i in range(JOBS)]
    data = {"do": [["fail_unrecoverably", str(remedy)]]}
    jobs = [{"name": NAMES[i % 3], "data": data, "job_id": job_id, "attempts": 3} for i, job_id in enumerate(ids)]
    with scenario.queue(engine_pair.first) as first, scenario.queue(engine_pair.second) as second:
        with scenario.worker(engine_pair.first, concurrency=20):
            first.add_bulk(jobs)
            wait_until(lambda: len(dead_letters(scenario.bench)) == JOBS, "all are dead", 30)
        before = {run.id: run for run in scenario.ledger.runs()}
        seen = second.peek_dlq(10)
        assert first.peek_dlq(10) == seen
        assert [letter["reason"] for letter in seen] == ["unrecoverable"] * 10
        remedy.touch()
        with scenario.worker(engine_pair.first, concurrency=20):
            assert second.replay_dlq(JOBS) == JOBS
            scenario.await_end(ids, 30)
        assert second.replay_dlq(JOBS) == 0
    scenario.check_accounts(ids)
    for run in scenario.ledger.runs():
        assert (run.attempt, run.name, run.data) == (0, before[run.id].name, before[run.id].data)
        assert run.created_at_ms == before[run.id].created_at_ms


def test_a_queue_name_means_the_same_keys_to_both(scenario: FaultScenario, engine_pair: EnginePair) -> None:
    name = f"näme with spaces: {scenario.queue_name}"
    with (
        engine_pair.first.queue(name, scenario.server.url, scenario.directory / "q") as queue,
        engine_pair.second.worker(name, scenario.server.url, scenario.ledger.path, read_block_ms=100),
    ):
        job = queue.add("n", {"i": 1})
        wait_until(lambda: scenario.ledger.completed([job["id"]]), "it runs")
