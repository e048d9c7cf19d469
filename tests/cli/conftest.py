"""Fixtures of every test of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chasqui import Keys, Link
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.in_process import cli as cli
from tests.support.cli.seeded_queue import seeded as seeded
from tests.support.cli.subprocess_cli import cli_process as cli_process
from tests.support.seeds.dead_letters import DeadLetterSeeder
from tests.support.seeds.foreign_queues import ForeignQueues
from tests.support.seeds.queue_contents import QueueContents
from tests.support.servers.server import Server


@pytest.fixture
def contents(server: Server, cli: InProcessCli, queue: str) -> QueueContents:
    """An empty queue, once per kind of server; `cli` runs on its server."""
    cli.url = server.url
    return QueueContents(Link.open(server.url), queue)


@pytest.fixture
def any_contents(any_server: Server, cli: InProcessCli, queue: str) -> QueueContents:
    """An empty queue on one server; `cli` runs on it."""
    cli.url = any_server.url
    return QueueContents(Link.open(any_server.url), queue)


@pytest.fixture
def cli_on_server(server: Server, cli: InProcessCli) -> None:
    """`cli` runs on a server, once per kind; so it does with each of the fixtures below."""
    cli.url = server.url


@pytest.fixture
def dead_letter_seeder(server: Server, cli_on_server: None, queue: str) -> Iterator[DeadLetterSeeder]:
    with Link.open(server.url) as link:
        yield DeadLetterSeeder(link, Keys(queue))


@pytest.fixture
def foreign_queues(server: Server, cli_on_server: None, queue: str) -> Iterator[ForeignQueues]:
    with Link.open(server.url) as link:
        yield ForeignQueues(link, queue)
