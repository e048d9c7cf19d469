"""Workers and producers whose clocks are wrong, or are put back while they work: the server's clock decides what is due."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import cron
from tests.faults.conftest import add, everywhere
from tests.support.processes.engines import CLOCK, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from chasqui import SyncQueue
    from tests.support.faults.scenario import FaultScenario

MINUTE_MS = 60_000
POLL_S = 0.1
ERROR_S = 0.1
SLACK_S = 0.5
"""What starting a handler may take, once, on a machine that does other things too."""
LATE_S = POLL_S + ERROR_S + SLACK_S


def _rudder(stage: FaultScenario, wrong_by_ms: int) -> Path:
    file = stage.directory / "rudder"
    file.with_suffix(".new").write_text(str(wrong_by_ms))
    file.with_suffix(".new").rename(file)  # no reader sees half a number
    return file


def _lateness(stage: FaultScenario, job_id: str, due: float) -> float:
    wait_until(lambda: stage.ledger.runs(job_id), "it runs")
    return stage.ledger.runs(job_id)[-1].started - due


@everywhere
@pytest.mark.parametrize("wrong_by_ms", [MINUTE_MS, pytest.param(-MINUTE_MS, marks=pytest.mark.slow)])
def test_fault_30_a_clock_that_is_a_minute_wrong_makes_nothing_early_or_late(
    scenario: FaultScenario, queue_client: SyncQueue, wrong_by_ms: int
) -> None:
    rudder = str(_rudder(scenario, wrong_by_ms))
    retry: dict[str, Any] = {"attempts": 3, "backoff": {"kind": "fixed", "delay_ms": 700, "jitter_ms": 0}}
    with scenario.worker(rudder=rudder), scenario.queue(rudder=rudder) as wrong:
        wait_until(lambda: scenario.bench.command("EXISTS", scenario.bench.keys.promoter_lock), "somebody leads")
        [failing] = add(queue_client, ["fail_until", 1], **retry)
        before = CLOCK.monotonic()
        delayed = wrong.add("job", {}, delay_ms=700)["id"]
        after = CLOCK.monotonic()
        wrong.upsert_repeatable_job("tick", {}, repeat={"kind": "cron", "expression": "* * * * * *"})
        late = _lateness(scenario, delayed, after + 0.7)
        assert before - after <= late <= LATE_S, "the delay"
        wait_until(lambda: scenario.ledger.completed([failing]), "it is tried again")
        first, second = scenario.ledger.runs(failing)
        assert first.ended is not None
        assert 0.7 <= second.started - first.ended <= 0.7 + LATE_S, "the retry"
        wait_until(lambda: len(_ticks(scenario)) >= 4, "it fires")
    wall = CLOCK.now_ms() / 1000 - CLOCK.monotonic()
    delays = [tick.started + wall - tick.created_at_ms / 1000 for tick in _ticks(scenario)]
    assert -0.01 <= min(delays) <= max(delays) <= LATE_S, "a tick is early or late"
    assert median(delays) <= POLL_S + ERROR_S, "ticks are late as a rule"
    gaps_ms = [after.created_at_ms - before.created_at_ms for before, after in pairwise(_ticks(scenario))]
    assert all(abs(gap_ms - 1000) <= 1000 * LATE_S for gap_ms in gaps_ms), "a tick is missing, or comes twice"


def _ticks(stage: FaultScenario) -> list[Any]:
    return [run for run in stage.ledger.runs() if run.name == "tick"]


@everywhere
@pytest.mark.slow
def test_fault_30_a_clock_that_is_put_back_and_forth_changes_nothing(
    scenario: FaultScenario, queue_client: SyncQueue
) -> None:
    rudder = str(_rudder(scenario, 0))
    with scenario.worker(rudder=rudder, concurrency=5), scenario.worker(rudder=rudder, concurrency=5):
        running = add(queue_client, ["sleep", 2.5], count=5)  # two and a half leases
        failing = add(queue_client, ["fail_until", 2], count=5, attempts=4, backoff={"kind": "fixed", "delay_ms": 300})
        delayed = add(queue_client, count=5, delay_ms=1000)
        due = CLOCK.monotonic() + 1.0
        wait_until(lambda: set(running) <= set(scenario.ledger.starts()), "they have begun")
        for wrong_by_ms in (-MINUTE_MS, 60 * MINUTE_MS, -24 * 60 * MINUTE_MS, 0):
            _rudder(scenario, wrong_by_ms)
            CLOCK.sleep_sync(0.4)
        assert max(_lateness(scenario, job_id, due) for job_id in delayed) <= LATE_S + 0.1
        scenario.await_end([*running, *failing, *delayed])
    scenario.check_accounts([*running, *failing, *delayed])
    starts = scenario.ledger.starts()
    assert {starts[job_id] for job_id in (*running, *delayed)} == {1}
    assert {starts[job_id] for job_id in failing} == {3}


@pytest.mark.parametrize(
    ("text", "start", "fires"),
    [
        # the hour from two to three does not exist: the fire moves, and none is lost
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        # it comes twice, and fires once
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
    ],
)
def test_fault_30_days_of_23_and_25_hours_fire_once_each(text: str, start: str, fires: list[str]) -> None:
    at_ms = _ms(start)
    found = []
    for _ in fires:
        at_ms = cron.parse_cron(text, "Europe/Berlin").next(at_ms)
        found.append(datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M"))
    assert found == fires


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
