"""Faults, injected for real: each test has its own server to harm, and reports how long recovery took.

Scale: the promises are stated for a lease of 10 s renewed every 3 s. Here a lease is one second and is renewed every
300 ms, so "within the lease and a second" means two seconds here; limits that do not depend on the lease are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from chasqui import SyncQueue
from chasqui.errors import ChasquiError
from tests.support.faults.proxy import proxy_to
from tests.support.faults.scenario import FaultScenario, fault_scenario
from tests.support.servers.binaries import KINDS
from tests.support.servers.server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.support.faults.proxy import Proxy
    from tests.support.servers.binaries import Kind
    from tests.support.servers.pool import ServerPool
    from tests.support.servers.server import Server

LEASE_S = 1.0
QUICK = {"claim_min_idle_ms": 1000, "heartbeat_ms": 300, "read_block_ms": 200, "scheduler_tick_ms": 100}


everywhere = pytest.mark.parametrize(
    "kind",
    ["redis-8.6", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "redis-8.6")],
)
"""On every kind of server; on all but the newest only when there is time."""


@pytest.fixture
def kind() -> Kind:
    """Redis 8.6, unless the test names others."""
    return "redis-8.6"


@pytest.fixture
def server_args() -> Sequence[str]:
    """How the server is started, besides the usual."""
    return ()


@pytest.fixture
def own_server(kind: Kind, server_args: Sequence[str], servers: ServerPool) -> Iterator[Server]:
    """A server that no other test shares."""
    servers.get(kind)  # skips, with advice, where there is none
    with start_server(kind, args=server_args) as server:
        yield server


@pytest.fixture
def scenario(own_server: Server, queue: str, tmp_path: Path) -> Iterator[FaultScenario]:
    with fault_scenario(own_server, queue, tmp_path, **QUICK) as ready:
        yield ready


@pytest.fixture
def proxy(scenario: FaultScenario) -> Iterator[Proxy]:
    """A network before the server, to be cruel with."""
    with proxy_to(scenario.server.socket) as made:
        yield made


@pytest.fixture
def queue_client(scenario: FaultScenario) -> Iterator[SyncQueue]:
    """The queue, straight to its server."""
    with SyncQueue(scenario.queue_name, redis_url=scenario.server.url) as queue:
        yield queue


@pytest.fixture
def report_recovery(request: pytest.FixtureRequest) -> Callable[[float], None]:
    """Say how many seconds recovery took, for the table at the end."""
    return lambda seconds: request.node.user_properties.append(("recovery_s", seconds))


def add(queue_client: SyncQueue, *actions: list[Any], count: int = 1, **options: Any) -> list[str]:
    """Add jobs that do these actions; return their ids."""
    job = {"name": "job", "data": {"do": list(actions)}, **options}
    return [added.id for added in queue_client.add_bulk([job] * count)]


def retry(call: Callable[[], Any]) -> Any:
    """Call once more, as a caller does after an error."""
    try:
        return call()
    except ChasquiError:
        return call()


@dataclass(slots=True)
class FaultSummary:
    """What the tests of one fault came to."""

    title: str
    passed: int = 0
    failed: int = 0
    recovery_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        worst = f"{max(self.recovery_s):.2f} s" if self.recovery_s else ""
        status = "held" if not self.failed else f"{self.failed} of {self.passed + self.failed} FAILED"
        return f"{status:<16} {self.passed:>3} {worst:>9}  {self.title}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A table: fault, whether the promise held, in how many tests, and the longest recovery."""
    lines: dict[str, FaultSummary] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            if found := re.search(r"test_fault_(\d\d)_(\w+)", report.nodeid):
                _enter(lines.setdefault(found[1], FaultSummary(found[2].replace("_", " "))), report)
    if lines:
        terminalreporter.section("faults: status, tests, longest recovery")
        for number, line in sorted(lines.items()):
            terminalreporter.write_line(f"{number}  {line}")


def _enter(line: FaultSummary, report: pytest.TestReport) -> None:
    if report.passed:
        line.passed += report.when == "call"
    else:
        line.failed += 1
    line.recovery_s += [float(str(value)) for name, value in report.user_properties if name == "recovery_s"]
