"""Servers of their own for the dashboard's tests: a fleet shows every queue of a server, so no other test may use it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

os.environ.setdefault("TEXTUAL_FPS", "15")
"""Read when Textual is imported. No picture is looked at between two conditions, and drawing costs time."""

import pytest  # noqa: E402

from chasqui import Link  # noqa: E402
from tests.support.seeds import dashboard_queues  # noqa: E402
from tests.support.servers.binaries import KINDS  # noqa: E402
from tests.support.servers.server import Server, start_server  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers.binaries import Kind


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home: no contexts, no journal, no names found before."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CHASQUI_REDIS_URL", "REDIS_URL", "CHASQUI_READONLY", "REDISCLI_AUTH", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def _private(kind: Kind) -> Iterator[Server]:
    with start_server(kind, tcp=True) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def own_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of each kind that only this module uses."""
    yield from _private(request.param)


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    """A server that only this module uses, of the kind that starts fastest."""
    yield from _private("valkey-9.1")


@pytest.fixture
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    """A link to the server the test uses."""
    name = "own_server" if "own_server" in request.fixturenames else "one_server"
    with Link.open(request.getfixturevalue(name).url) as link:
        yield link


@pytest.fixture
def now_ms(link: Link) -> int:
    seconds, _ = dashboard_queues.command(link, "TIME")
    return int(seconds) * 1000
