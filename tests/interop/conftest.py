"""Both engines over one server: the released one from its package, ours from this checkout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import do_without
from tests.engines import Engine
from tests.reference_engine import NoReferenceError
from tests.servers import spawn
from tests.stage import Stage, stage_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server_binaries import Kind
    from tests.servers import Server

KIND: Kind = "redis-8.6"
# The released engine asks only for whole seconds of patience; these make both quick enough to watch.
QUICK: dict[str, Any] = {"read_block_ms": 100, "scheduler_tick_ms": 100}


@pytest.fixture(scope="session")
def released() -> Engine:
    """The released engine; without it the test is skipped, and fails in CI."""
    try:
        return Engine.reference()
    except NoReferenceError as missing:
        do_without(str(missing))


@pytest.fixture(scope="session")
def ours() -> Engine:
    return Engine.ours()


@pytest.fixture(scope="session")
def redis(servers: Any) -> Iterator[Server]:
    """A server both can reach: the released engine knows only TCP."""
    servers.get(KIND)  # says what to do when there is none
    with spawn(KIND, tcp=True) as server:
        yield server


@pytest.fixture
def stage(redis: Server, queue: str, tmp_path: Path) -> Iterator[Stage]:
    with stage_on(redis, queue, tmp_path, **QUICK) as ready:
        yield ready


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays the first part and who the second."""

    first: Engine
    second: Engine


@pytest.fixture(params=["ours to released", "released to ours"])
def cast(request: pytest.FixtureRequest, ours: Engine, released: Engine) -> Cast:
    return Cast(ours, released) if request.param == "ours to released" else Cast(released, ours)
