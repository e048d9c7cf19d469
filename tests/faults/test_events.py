"""Readers of events through outages, trims and restarts: every event is read, or its loss is reported."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from chasqui.queue_events import QueueEvents
from tests.faults.conftest import add, everywhere
from tests.faults.test_server import DURABLE
from tests.support.clocks import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from chasqui import SyncQueue
    from chasqui.inspect.events import Gap
    from tests.support.faults.proxy import Proxy
    from tests.support.faults.scenario import FaultScenario


class Reader:
    """What was read: events by their entry ids, and gaps."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gaps: list[Gap] = []

    @property
    def accounted(self) -> int:
        """Events that were read, and those that were reported as lost."""
        return len(self.seen) + sum(gap.lost_estimate or 0 for gap in self.gaps)


@asynccontextmanager
async def following(stage: FaultScenario, url: str) -> AsyncIterator[Reader]:
    """From now on, whenever the first read may be."""
    reader = Reader()
    async with QueueEvents(stage.queue_name, redis_url=url, block_ms=200, on_gap=reader.gaps.append) as events:

        async def read() -> None:
            async for event in events:
                reader.seen.append(event.entry_id)

        # what happens between "now" and the first read must not fall into a hole
        await asyncio.to_thread(_emit_meanwhile, stage)
        reading = asyncio.create_task(read())
        try:
            yield reader
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading


def _emit_meanwhile(stage: FaultScenario) -> None:
    for number in range(50):
        _emit(stage, number)


def _emit(stage: FaultScenario, number: int) -> None:
    stage.bench.command("XADD", stage.bench.keys.events, "*", "e", "active", "id", str(number), "ts", "1")


def _ever_emitted(stage: FaultScenario) -> int:
    info = stage.bench.command("XINFO", "STREAM", stage.bench.keys.events)
    count: int = dict(zip(info[::2], info[1::2], strict=True))[b"entries-added"]
    return count


@everywhere
@pytest.mark.parametrize("server_args", [DURABLE], ids=["durable"])
async def test_fault_41_every_event_is_read_or_reported_as_lost(
    scenario: FaultScenario, queue_client: SyncQueue, proxy: Proxy, report_recovery: Callable[[float], None]
) -> None:
    async with following(scenario, proxy.url) as reader:
        with scenario.worker():
            await asyncio.to_thread(scenario.await_end, add(queue_client, count=100))
            await eventually(lambda: reader.accounted == _ever_emitted(scenario))
            assert not reader.gaps, "nothing was lost yet"

            proxy.refuse()
            await asyncio.to_thread(scenario.await_end, add(queue_client, count=100))
            scenario.bench.command("XTRIM", scenario.bench.keys.events, "MAXLEN", 40)
            proxy.listen()
            took = await eventually(lambda: reader.accounted == _ever_emitted(scenario))
            [gap] = reader.gaps
            assert (gap.why, gap.lost_estimate) == ("trimmed", _ever_emitted(scenario) - len(reader.seen))

            scenario.server.kill()
            scenario.server.start()
            await asyncio.to_thread(scenario.await_end, add(queue_client, count=100))
            await eventually(lambda: reader.accounted == _ever_emitted(scenario))
    assert len(reader.gaps) == 1
    assert len(set(reader.seen)) == len(reader.seen), "an event was info twice"
    assert took <= 5
    report_recovery(took)


@everywhere
async def test_fault_41_a_server_that_forgot_its_events_leaves_a_gap_and_is_followed_again(
    scenario: FaultScenario, report_recovery: Callable[[float], None]
) -> None:
    async with following(scenario, scenario.server.url) as reader:
        await eventually(lambda: len(reader.seen) == 50)
        scenario.server.kill()
        scenario.server.start()
        _emit_meanwhile(scenario)
        took = await eventually(lambda: len(reader.seen) == 100)
    assert [gap.why for gap in reader.gaps][-1] in {"deleted", "recreated", "rewound"}
    assert took <= 5
    report_recovery(took)
