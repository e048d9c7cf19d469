"""Every hostile string at once, in every field of one queue: what is listed, and what a worker prints while it runs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chasqui.server.commands import parse_server_time
from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.cli.test_hostile_text import FORMATS, LOOKS, Screen, assert_well_formed, filled, screen
from tests.support.cli.subprocess_cli import SubprocessCli, cli_process
from tests.support.links import command
from tests.support.seeds.hostile_queues import HostileQueues, fill_with_hostile_text
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers.server import Server

__all__ = ["cli_process", "screen"]

HANDLER = """
def handler(job):
    raise RuntimeError(f"{job.id} {job.name} {job.data}")
"""


@pytest.fixture
def world(any_server: Server, queue: str) -> Iterator[HostileQueues]:
    """One queue with all of the texts, where the command lines above have a few each."""
    with Link.open(any_server.url) as link:
        made = HostileQueues(link, queue, tuple(HOSTILE_TEXTS.values()), parse_server_time(link.run(command("TIME"))))
        fill_with_hostile_text(made)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("how", FORMATS)
def test_fault_40_hostile_text_everywhere_at_once_reaches_no_terminal(
    world: HostileQueues, screen: Screen, how: str
) -> None:
    for nth, (verb, words) in enumerate(LOOKS.items()):
        options = () if verb in ("metrics", "check") else ("-o", how)
        printed = screen.run(*verb.split(), *filled(world, words, nth), *options, "--quiet")
        assert_well_formed(printed, how, verb)


def test_fault_40_a_worker_that_runs_hostile_jobs_prints_nothing_a_terminal_would_act_upon(
    world: HostileQueues, any_server: Server, cli_process: SubprocessCli, tmp_path: Path
) -> None:
    world = replace(world, texts=tuple(text for text in world.texts if "\0" not in text))  # as arguments end there
    fill_with_hostile_text(world)
    waiting = world.command("XLEN", Keys(world.name).stream)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "evil.py").write_text(HANDLER)
    words = ("--burst", "--max-attempts", "1", "--app-dir", tmp_path / "app", "-u", any_server.url)
    ended = cli_process("worker", "run", "evil:handler", "--queue", world.name, *words)
    assert "Traceback" not in ended.err
    for printed in (ended.out, ended.err):
        assert is_harmless(printed), [line for line in printed.splitlines() if not is_harmless(line)][:3]
    assert ended.code == 0, ended.err
    assert world.command("XLEN", Keys(world.name).stream) < waiting, "none of them ran"
