"""A queue with a job in every state, and the command line pointed at its server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chasqui.server.link import Link
from tests.support.cli.in_process import InProcessCli, assert_matches_schema
from tests.support.cli.subprocess_cli import CommandResult
from tests.support.seeds.every_state import QueueSeeder, every_state
from tests.support.servers.server import Server

FIXED_SNAPSHOT_FIELDS = [
    "queue",
    "kind",
    "server_time_ms",
    "stream_depth",
    "waiting",
    "pending",
    "consumers",
    "dlq_depth",
    "delayed_depth",
    "delayed_due",
    "oldest_delayed_lag_ms",
    "oldest_waiting_ms",
    "repeatable_count",
    "repeatable_overdue",
    "events_depth",
    "promoter_lock",
    "scheduler_lock",
]


class SeededQueue:
    """A seeded queue, and the program pointed at its server."""

    def __init__(self, server: Server, seed: QueueSeeder, cli: InProcessCli) -> None:
        self.server, self.seed, self._cli = server, seed, cli
        self.queue, self.home = seed.queue, cli.home
        self.jobs = every_state(seed)

    def __call__(self, *words: str, url: str | None = None) -> CommandResult:
        return self._cli(*words, "-u", url or self.server.url)

    def all_formats(self, *words: str, shape: Any, many: bool = True) -> tuple[list[Any], str]:
        """The records, the same in JSON and JSON lines and of the right shape, and the table."""
        as_json, as_lines = self(*words, "-o", "json"), self(*words, "-o", "jsonl")
        records = as_json.json if many else [as_json.json]
        assert len(as_lines.lines) == len(records)
        for record in [*records, *as_lines.lines]:
            assert_matches_schema(record, shape)
        schema = self(*words, "--schema").json
        assert (schema["type"] == "array") is many
        return records, self(*words).out


@pytest.fixture
def seeded(server: Server, queue: str, cli: InProcessCli) -> Iterator[SeededQueue]:
    with Link.open(server.url) as link:
        yield SeededQueue(server, QueueSeeder(link, queue), cli)
