"""What holds for all verbs that only read, on every kind of server; and `metrics`."""

from __future__ import annotations

import pytest

from tests.support.cli.in_process import InProcessCli
from tests.support.cli.seeded_queue import SeededQueue
from tests.support.cli.subprocess_cli import assert_error


def test_metrics_once(seeded: SeededQueue) -> None:
    result = seeded("metrics", seeded.queue)
    assert result.code == 0
    for line in ("chasqui_waiting{{queue={0}}} 2.0", "chasqui_dead_letters{{queue={0}}} 1.0"):
        assert line.format(f'"{seeded.queue}"') in result.out
    assert f'chasqui_has_leader{{queue="{seeded.queue}",role="promoter"}} 1.0' in result.out
    assert f'queue="{seeded.queue}"' in seeded("metrics").out


@pytest.mark.parametrize("verb", ["queues", "inspect", "why x", "job show q x", "events", "doctor", "metrics"])
def test_a_server_that_is_away_is_an_error_and_not_an_empty_list(cli: InProcessCli, verb: str) -> None:
    assert_error(cli(*verb.split(), "-u", "unix:///nowhere/at/all", "-q"), 1)


def test_everything_looks_on_a_read_only_connection(seeded: SeededQueue) -> None:
    for words in (
        ("queues",), ("inspect",), ("watch", seeded.queue, "--count", "1"), ("why", "waits-1", "--queue", seeded.queue),
        ("job", "show", seeded.queue, "waits-1"), ("events",), ("doctor",), ("metrics",),
    ):  # fmt: skip
        assert seeded(*words, "--read-only").code == 0, words
