"""What every test may ask for: a real server by kind, and a queue name nobody else uses.

One process per kind and test process, started when first asked for; no test ever flushes one.
"""

from __future__ import annotations

import os
import re
import signal
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import golden
from tests.support.servers.binaries import KINDS, Kind, NoServerError, find
from tests.support.servers.server import NATIVE_WORDS, Server, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

# A shell that starts the tests in the background has them ignore interrupts, and their children would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine than about the code.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

FASTEST_FIRST: tuple[Kind, ...] = ("valkey-9.1", "redis-8.6", "redis-7.0")


class ServerPool:
    """The servers of this test process, each started on demand and kept."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[Kind, Server] = {}

    def get(self, kind: Kind) -> Server:
        """The running server of this kind; without one on this machine the test is skipped, and fails in CI."""
        if kind not in self._running:
            try:
                self._running[kind] = self._stack.enter_context(start_server(kind))
            except NoServerError as missing:
                skip_or_fail(f"no {kind} server ({missing}); get it with: make servers")
            assert self._running[kind].has_native_words() is NATIVE_WORDS[kind]
        return self._running[kind]


def skip_or_fail(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


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
    return servers.get(next((kind for kind in FASTEST_FIRST if _here(kind)), FASTEST_FIRST[0]))


@pytest.fixture(scope="session")
def all_servers(servers: ServerPool) -> dict[Kind, Server]:
    """Every kind at once, to compare them."""
    return {kind: servers.get(kind) for kind in KINDS}


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue name that tells which test it belongs to and that no other test has."""
    test = re.sub(r"\W+", "-", request.node.originalname or request.node.name)[:40]
    return f"{test}-{uuid.uuid4().hex[:8]}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(_servers_line())
    golden.write_summary(terminalreporter)


def _servers_line() -> str:
    here = [f"{kind} {find(kind).version_text}" for kind in KINDS if _here(kind)]
    missing = [kind for kind in KINDS if not _here(kind)]
    return f"servers: {' · '.join(here) or 'none'}; missing: {', '.join(missing) or 'none'}"


def _here(kind: Kind) -> bool:
    try:
        find(kind)
    except NoServerError:
        return False
    return True
