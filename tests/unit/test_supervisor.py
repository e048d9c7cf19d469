"""The supervisor of loops, without a server: turns with scripted results, and a clock that does not wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import AuthRefused, ChangeRefused, NoGroup, ServerError, Unreachable, WrongType
from chasqui.supervision.supervisor import SupervisedLoop, TurnResult
from tests.support.clocks import FakeClock, eventually


class Script:
    """A turn with scripted results, one per call, which then stops the loop."""

    def __init__(self, *words: Exception | TurnResult) -> None:
        self.words = list(words)
        self.stop = asyncio.Event()

    async def __call__(self) -> TurnResult:
        if not self.words:
            self.stop.set()
            return TurnResult()
        word = self.words.pop(0)
        if isinstance(word, Exception):
            raise word
        return word


async def play(
    *words: Exception | TurnResult, recover: Callable[[], Awaitable[object]] | None = None
) -> tuple[SupervisedLoop, FakeClock]:
    clock, script = FakeClock(), Script(*words)
    loop = SupervisedLoop("reader", clock, recover=recover)
    await loop.run(script, script.stop)
    return loop, clock


async def test_trouble_that_passes_is_tried_again_soon_and_at_least_every_three_seconds() -> None:
    _, clock = await play(*[Unreachable("gone")] * 7)
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]


async def test_a_full_server_counts_as_trouble_that_passes() -> None:
    _, clock = await play(ServerError("OOM", transient=True, code="OOM"))
    assert clock.slept == [0.1]


@pytest.mark.parametrize("error", [WrongType("a list"), AuthRefused("no"), ServerError("ERR what?")])
async def test_what_a_person_must_fix_is_tried_slowly(error: ServerError) -> None:
    _, clock = await play(*[error] * 4)
    assert clock.slept == [1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), KeyError("bug"), ChangeRefused("read-only")])
async def test_a_bug_is_backed_off_from_but_ends_nothing(error: Exception) -> None:
    _, clock = await play(*[error] * 7)
    assert clock.slept == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


async def test_failures_without_end_do_not_overflow() -> None:
    _, clock = await play(*[Unreachable("gone")] * 3000)
    assert clock.slept[-1] == 3.0


async def test_after_a_good_turn_patience_is_fresh() -> None:
    _, clock = await play(Unreachable("1"), Unreachable("2"), TurnResult(0.5), Unreachable("3"))
    assert clock.slept == [0.1, 0.2, 0.5, 0.1]


async def test_a_lost_group_is_recovered_before_the_next_turn() -> None:
    recovered = []

    async def recover() -> None:
        recovered.append(True)

    loop, clock = await play(NoGroup("NOGROUP"), TurnResult(), recover=recover)
    assert (recovered, clock.slept, loop.state.counts) == ([True], [0.1], {"failures": 1, "recovered": 1})


async def test_a_recovery_that_fails_is_recorded_and_tried_again() -> None:
    tries = []

    async def recover() -> None:
        tries.append(True)
        raise WrongType("the stream is a list")

    loop, _ = await play(NoGroup("NOGROUP"), NoGroup("NOGROUP"), recover=recover)
    assert len(tries) == 2
    assert loop.state.last_error == "the stream is a list"


async def test_the_state_has_the_role_since_when_and_why() -> None:
    clock, script = (
        FakeClock(1000),
        Script(TurnResult(1, "leader"), Unreachable("gone"), Unreachable("still gone")),
    )
    loop = SupervisedLoop("promoter", clock)
    states = []

    async def turn() -> TurnResult:
        states.append(loop.state)
        return await script()

    await loop.run(turn, script.stop)
    assert [(state.role, state.since_ms, state.last_error) for state in states] == [
        ("stopped", 1000, None),
        ("leader", 1000, None),
        ("failing", 2000, "gone"),
        ("failing", 2000, "still gone"),
    ]
    assert (loop.state.name, loop.state.role, loop.state.last_error) == ("promoter", "stopped", "still gone")
    assert loop.state.last_error_ms == 2100


async def test_the_same_trouble_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "chasqui")
    await play(*[Unreachable("gone")] * 50, TurnResult(notes=("odd",)), TurnResult(notes=("odd",)))
    assert [record.message for record in caplog.records] == [
        "reader: gone",
        "reader: works again after 50 failures",
        "reader: odd",
    ]


async def test_a_bug_is_logged_with_its_trace_every_time(caplog: pytest.LogCaptureFixture) -> None:
    await play(ZeroDivisionError("oops"), ZeroDivisionError("oops"))
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert all(record.exc_info for record in caplog.records)
    assert "ZeroDivisionError: oops" in caplog.records[0].message


async def test_a_stop_ends_the_rest_at_once() -> None:
    stop, rested = asyncio.Event(), asyncio.Event()

    async def turn() -> TurnResult:
        rested.set()
        return TurnResult(3600)

    loop = SupervisedLoop("reader", SystemClock())
    running = asyncio.ensure_future(loop.run(turn, stop))
    await rested.wait()
    await eventually(lambda: loop.state.role == "running")
    stop.set()
    async with asyncio.timeout(5):
        await running
    assert loop.state.role == "stopped"


async def test_a_stop_lets_the_turn_under_way_finish() -> None:
    stop, done = asyncio.Event(), []

    async def turn() -> TurnResult:
        stop.set()
        await SystemClock().sleep(0.01)
        done.append(True)
        return TurnResult()

    await SupervisedLoop("reader", FakeClock()).run(turn, stop)
    assert done == [True]


async def test_a_cancelled_loop_is_in_the_role_stopped() -> None:
    async def turn() -> TurnResult:
        return TurnResult(3600)

    loop = SupervisedLoop("reader", SystemClock())
    running = asyncio.ensure_future(loop.run(turn, asyncio.Event()))
    await eventually(lambda: loop.state.role == "running")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert loop.state.role == "stopped"
