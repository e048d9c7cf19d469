"""The servers that all tests of a process share, and what happens where one cannot be had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import pytest

from tests.support.servers.binaries import KINDS, Kind, NoServerError, find
from tests.support.servers.server import NATIVE_WORDS, Server, start_server

NOT_RUN = "not run"
FASTEST_FIRST: tuple[Kind, ...] = ("valkey-9.1", "redis-8.6", "redis-7.0")


class ServerPool:
    """The servers of this test process, each started on demand and kept."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[Kind, Server] = {}

    def get(self, kind: Kind) -> Server:
        """The running server of this kind; without one on this machine the test is not run, and fails in CI."""
        if kind not in self._running:
            self._running[kind] = self._stack.enter_context(start_server(kind))
            assert self._running[kind].has_native_words() is NATIVE_WORDS[kind]
        return self._running[kind]


def do_without(reason: str) -> NoReturn:
    """End the test: this machine lacks something. Reported once per reason, with the number of tests; CI insists."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(f"{NOT_RUN}: {reason}")


@contextmanager
def without_missing_servers() -> Iterator[None]:
    """Do without the test if it starts a server that this machine cannot have."""
    try:
        yield
    except NoServerError as missing:
        do_without(f"no {missing.kind or 'such'} server ({missing}); get it with: make servers")


def fastest_kind() -> Kind:
    """The fastest kind that this machine has."""
    return next((kind for kind in FASTEST_FIRST if _here(kind)), FASTEST_FIRST[0])


def servers_line() -> str:
    here = [f"{kind} {find(kind).version_text}" for kind in KINDS if _here(kind)]
    missing = [kind for kind in KINDS if not _here(kind)]
    return f"servers: {' · '.join(here) or 'none'}; missing: {', '.join(missing) or 'none'}"


def _here(kind: Kind) -> bool:
    try:
        find(kind)
    except NoServerError:
        return False
    return True
