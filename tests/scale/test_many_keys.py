"""`chasqui queues` among a million keys, on a real terminal: it shows how far it has come, and remembers. See `make scale`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import perf_counter

import pytest

from chasqui.server.link import Link
from tests.cli.test_read_only import overheard
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.cli.subprocess_cli import cli_process as cli_process
from tests.support.cli.terminal import run_on_terminal
from tests.support.seeds.every_state import QueueSeeder, every_state
from tests.support.servers.server import Server, start_server

pytestmark = pytest.mark.timeout(300)
KEYS = 1_000_000
QUEUES = ("emails", "charges", "reports")


@pytest.fixture
def crowded() -> Iterator[Server]:
    """A server with a million keys, of which three queues are a few."""
    with start_server("redis-8.6") as server:
        server.run_command("DEBUG", "POPULATE", str(KEYS), "session", "16")
        with Link.open(server.url) as link:
            for name in QUEUES:
                every_state(QueueSeeder(link, name))
        yield server


def test_queues_are_found_among_a_million_keys_and_then_remembered(crowded: Server, cli_process: SubprocessCli) -> None:
    with overheard(crowded) as lines:
        began = perf_counter()
        code, shown = run_on_terminal(cli_process, "queues", "-u", crowded.url)
        took = perf_counter() - began
    pages = sum(line.startswith('"SCAN"') for line in lines)
    print(f"\nqueues among {KEYS:,} keys: {took:.1f} s, {pages} pages")
    assert code == 0, shown
    assert "looking through the keys" in shown
    counts = {int(digits) for digits in re.findall(r"(\d+)/\d{7}", shown)}
    assert len(counts) > 3, "the progress line moves"
    assert f"looked through {KEYS // 1_000_000},000," in shown
    assert all(name in shown for name in QUEUES)
    assert pages >= KEYS // 10_000
    assert not [line for line in lines if line.startswith('"KEYS"')]
    with overheard(crowded) as lines:
        began = perf_counter()
        code, again = run_on_terminal(cli_process, "queues", "-u", crowded.url)
        print(f"\nand from memory: {perf_counter() - began:.1f} s")
    assert code == 0, again
    assert not [line for line in lines if '"SCAN"' in line], "the names are known"
    assert "3 queues known from" in again
    assert all(name in again for name in QUEUES)
    with overheard(crowded) as lines:
        run_on_terminal(cli_process, "queues", "--rescan", "-u", crowded.url)
    assert any('"SCAN"' in line for line in lines)
