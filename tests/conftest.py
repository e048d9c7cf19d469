"""What every test may ask for: a real server by kind, and a queue name that no other test uses.

One process per kind and test process, started when first asked for; no test ever flushes one.
"""

from __future__ import annotations

import re
import shutil
import signal
import uuid
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import golden
from tests.support.servers.binaries import KINDS, Kind
from tests.support.servers.pool import (
    NOT_RUN,
    ServerPool,
    do_without,
    fastest_kind,
    servers_line,
    without_missing_servers,
)
from tests.support.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# A shell that starts the tests in the background has them ignore interrupts, and their children would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on the machine more than on the code.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    with without_missing_servers():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    with without_missing_servers():
        yield


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a browser."""
    found = (path for name in CHROMIUM_NAMES if (path := shutil.which(name)))
    return next(found, None) or do_without("no Chromium on this machine; get it with: make browser")


@pytest.fixture(scope="session")
def servers() -> Iterator[ServerPool]:
    with ExitStack() as stack:
        yield ServerPool(stack)


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, servers: ServerPool) -> Server:
    """The test runs once per kind. Choose some: `@pytest.mark.parametrize("server", [...], indirect=True)`."""
    return servers.get(request.param)


@pytest.fixture(scope="session")
def any_server(servers: ServerPool) -> Server:
    """One server, whichever; for tests that do not depend on its kind."""
    return servers.get(fastest_kind())


@pytest.fixture(scope="session")
def all_servers(servers: ServerPool) -> dict[Kind, Server]:
    """Every kind at once, to compare them."""
    return {kind: servers.get(kind) for kind in KINDS}


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue name with the test's name in it, that no other test has."""
    test = re.sub(r"\W+", "-", request.node.originalname or request.node.name)[:40]
    return f"{test}-{uuid.uuid4().hex[:8]}"


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """A category of their own keeps these tests out of pytest's list of skips, one line each."""
    return (NOT_RUN, "s", NOT_RUN.upper()) if _reason_not_run(report) else None


def _reason_not_run(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return None
    _, found, reason = report.longrepr[2].partition(f"Skipped: {NOT_RUN}: ")
    return reason if found else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    not_run = Counter(_reason_not_run(report) for report in terminalreporter.stats.get(NOT_RUN, []))
    if not_run:
        terminalreporter.write_sep("!", NOT_RUN.upper(), red=True, bold=True)
    for reason, count in not_run.most_common():
        tests = "1 test" if count == 1 else f"{count:,} tests"
        terminalreporter.write_line(f"{NOT_RUN}: {tests}: {reason}", red=True, bold=True)
    terminalreporter.write_line(servers_line())
    golden.write_summary(terminalreporter)
