"""Both engines over one server: the released one from its package, ours from this checkout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.faults.scenario import FaultScenario, fault_scenario
from tests.support.processes.engines import Engine
from tests.support.processes.reference_engine import NoReferenceError
from tests.support.servers.pool import do_without
from tests.support.servers.server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers.binaries import Kind
    from tests.support.servers.server import Server

KIND: Kind = "redis-8.6"
# The released engine asks only for whole seconds of patience; these make both quick enough to watch.
QUICK: dict[str, Any] = {"read_block_ms": 100, "scheduler_tick_ms": 100}


@pytest.fixture(scope="session")
def reference_engine() -> Engine:
    """The released engine; without it the test is skipped, and fails in CI."""
    try:
        return Engine.reference()
    except NoReferenceError as missing:
        do_without(str(missing))


@pytest.fixture(scope="session")
def own_engine() -> Engine:
    return Engine.ours()


@pytest.fixture(scope="session")
def redis(servers: Any) -> Iterator[Server]:
    """A server both can reach: the released engine knows only TCP."""
    servers.get(KIND)  # raises or skips when there is none
    with start_server(KIND, tcp=True) as server:
        yield server


@pytest.fixture
def scenario(redis: Server, queue: str, tmp_path: Path) -> Iterator[FaultScenario]:
    with fault_scenario(redis, queue, tmp_path, **QUICK) as ready:
        yield ready


@dataclass(frozen=True, slots=True)
class EnginePair:
    """Who plays the first part and who the second."""

    first: Engine
    second: Engine


@pytest.fixture(params=["ours to released", "released to ours"])
def engine_pair(request: pytest.FixtureRequest, own_engine: Engine, reference_engine: Engine) -> EnginePair:
    return (
        EnginePair(own_engine, reference_engine)
        if request.param == "ours to released"
        else EnginePair(reference_engine, own_engine)
    )
