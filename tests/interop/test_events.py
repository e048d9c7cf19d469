"""Events that one engine writes and the other reads; and that both write the same for the same lives of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.faults.run_ledger import remaining_jobs
from tests.support.processes.engines import Engine, wait_until

if TYPE_CHECKING:
    from tests.interop.conftest import EnginePair
    from tests.support.faults.scenario import FaultScenario
    from tests.support.processes.engines import EventReader

SOON = {"kind": "fixed", "delay_ms": 20, "jitter_ms": 0}
LIVES: list[dict[str, Any]] = [
    {"name": "fine", "data": {}, "job_id": "fine"},
    {"name": "", "data": {}, "job_id": "nameless"},
    {"name": "later", "data": {}, "job_id": "later", "delay_ms": 60},
    {
        "name": "stubborn",
        "data": {"do": [["fail_until", 2]]},
        "job_id": "stubborn",
        "attempts": 5,
        "backoff": SOON,
    },
    {
        "name": "futile",
        "data": {"do": [["fail_until", 9]]},
        "job_id": "futile",
        "attempts": 2,
        "backoff": SOON,
    },
    {"name": "hopeless", "data": {"do": [["fail_unrecoverably"]]}, "job_id": "hopeless"},
    {"name": "never", "data": {}, "job_id": "never", "attempts": 0},
]
EXPECTED_LIVES: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "fine": [("active", "fine", {"attempt": 1}), ("completed", "fine", {"attempt": 1})],
    "nameless": [("active", "", {"attempt": 1}), ("completed", "", {"attempt": 1})],
    "later": [
        ("waiting", "", {}),
        ("active", "later", {"attempt": 1}),
        ("completed", "later", {"attempt": 1}),
    ],
    "stubborn": [
        ("active", "stubborn", {"attempt": 1}),
        ("failed", "stubborn", {"attempt": 1, "reason": "not before attempt 2"}),
        ("retry-scheduled", "stubborn", {"attempt": 2, "backoff_ms": 20}),
        ("waiting", "", {}),
        ("active", "stubborn", {"attempt": 2}),
        ("failed", "stubborn", {"attempt": 2, "reason": "not before attempt 2"}),
        ("retry-scheduled", "stubborn", {"attempt": 3, "backoff_ms": 20}),
        ("waiting", "", {}),
        ("active", "stubborn", {"attempt": 3}),
        ("completed", "stubborn", {"attempt": 3}),
    ],
    "futile": [
        ("active", "futile", {"attempt": 1}),
        ("failed", "futile", {"attempt": 1, "reason": "not before attempt 9"}),
        ("retry-scheduled", "futile", {"attempt": 2, "backoff_ms": 20}),
        ("waiting", "", {}),
        ("active", "futile", {"attempt": 2}),
        ("failed", "futile", {"attempt": 2, "reason": "not before attempt 9"}),
        ("dlq", "futile", {"attempt": 2, "reason": "retries_exhausted"}),
    ],
    "hopeless": [
        ("active", "hopeless", {"attempt": 1}),
        ("failed", "hopeless", {"attempt": 1, "reason": "there is no hope"}),
        ("dlq", "hopeless", {"attempt": 1, "reason": "unrecoverable"}),
    ],
    "never": [("dlq", "never", {"attempt": 0, "reason": "retries_exhausted"})],
}
MEASURED = {"ts", "duration_us"}


def _lives(reader: EventReader) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """Each job's events in order, without what is measured."""
    lives: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for name, job_id, job_name, fields in reader.read():
        if job_id is not None:
            event = (name, job_name, {key: value for key, value in fields.items() if key not in MEASURED})
            lives.setdefault(job_id, []).append(event)
    return lives


def _without_waiting(life: list[tuple[str, str, dict[str, Any]]]) -> tuple[list[Any], int]:
    """The events in order without `waiting`, and how many `waiting` there were: a promoter may publish them late, after
    the job has run, failed and been delayed again.
    """
    return [one for one in life if one[0] != "waiting"], sum(one[0] == "waiting" for one in life)


def test_the_lives_of_jobs_are_published_by_one_engine_and_read_by_the_other(
    scenario: FaultScenario, engine_pair: EnginePair
) -> None:
    with scenario.queue(engine_pair.second) as queue, scenario.events(engine_pair.second) as reader:
        with scenario.worker(engine_pair.first):
            queue.add_bulk(LIVES)
            wait_until(lambda: _lives(reader).keys() == EXPECTED_LIVES.keys(), "every job is heard of")
            wait_until(
                lambda: (
                    sum(map(len, _lives(reader).values())) >= sum(map(len, EXPECTED_LIVES.values()))
                    and not any(remaining_jobs(scenario.bench).values())
                ),
                "every life is told",
            )
            wait_until(lambda: any(event[0] == "drained" for event in reader.read()), "it was drained")
        lives = _lives(reader)
    for job_id, expected in EXPECTED_LIVES.items():
        assert _without_waiting(lives[job_id]) == _without_waiting(expected)
    measured = [fields for name, _, _, fields in reader.read() if name in {"completed", "failed"}]
    assert all(fields["duration_us"] >= 0 and fields["ts"] > 1_700_000_000_000 for fields in measured)


def test_both_engines_read_the_same_events(
    scenario: FaultScenario, own_engine: Engine, reference_engine: Engine
) -> None:
    with (
        scenario.events(own_engine) as by_ours,
        scenario.events(reference_engine) as by_released,
        scenario.queue(own_engine) as queue,
    ):
        with scenario.worker(own_engine, concurrency=10), scenario.worker(reference_engine, concurrency=10):
            scenario.await_consumers(2)
            data = {"do": [["sleep", 0.005]]}
            queue.add_bulk([{"name": f"n{i % 3}", "data": data} for i in range(1000)])
            wait_until(lambda: len(scenario.ledger.completions()) == 1000, "all are done")
            wait_until(lambda: not any(remaining_jobs(scenario.bench).values()), "nothing is left")
        length = scenario.bench.command("XLEN", scenario.bench.keys.events)
        wait_until(lambda: len(by_ours.read()) == len(by_released.read()) == length, "both have read all")
    assert by_ours.events == by_released.events
    assert len({run.pid for run in scenario.ledger.runs()}) == 2, "one engine did all the work"
