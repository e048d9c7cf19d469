"""Benches on every kind of server, and on the newest one a second time with the stand-ins forced."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.server.link import Link
from tests.support.queue_harness import Outcome, QueueHarness, outcome, same_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers.binaries import Kind
    from tests.support.servers.server import Server

STAND_INS = Features(idmp=False, ackdel=False, claim=False, kind="any", version="any")


class Everywhere(Protocol):
    def __call__(self, story: Callable[[QueueHarness], Any]) -> Outcome: ...


@pytest.fixture(scope="session")
def variants(all_servers: dict[Kind, Server]) -> Iterator[dict[str, tuple[Link, Commands]]]:
    """Every server with its native commands, and each that has some also without them."""
    with ExitStack() as stack:
        found: dict[str, tuple[Link, Commands]] = {}
        for kind, server in all_servers.items():
            link = stack.enter_context(Link.open(server.url))
            native = link.features()
            found[kind] = (link, Commands(native))
            if native.idmp or native.ackdel or native.claim:
                found[f"{kind} with stand-ins"] = (link, Commands(STAND_INS))
        yield found


@pytest.fixture
def harnesses(variants: dict[str, tuple[Link, Commands]], queue: str) -> list[QueueHarness]:
    return [
        QueueHarness(label, link, commands, f"{queue}-{uuid.uuid4().hex[:4]}")
        for label, (link, commands) in variants.items()
    ]


@pytest.fixture
def on_every_server(harnesses: list[QueueHarness]) -> Everywhere:
    """Play one story on every bench; it must end the same everywhere, and that end is the answer."""

    def play(story: Callable[[QueueHarness], Any]) -> Outcome:
        return same_outcome([(bench.label, outcome(bench, story)) for bench in harnesses])

    return play
