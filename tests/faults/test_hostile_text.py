"""Every hostile string at once, in every field of one queue: what is listed, and what a worker says while it runs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chasqui.server.commands import time_ms
from chasqui.server.link import Link
from chasqui.wire.keys import Keys
from tests.cli.hostile import STRINGS, is_harmless
from tests.cli.seed_hostile import World, spoil
from tests.cli.shell import Shell, shell
from tests.cli.test_hostile import FORMATS, LOOKS, Screen, assert_well_formed, filled, screen
from tests.links import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import Server

__all__ = ["screen", "shell"]

HANDLER = """
def handler(job):
    raise RuntimeError(f"{job.id} {job.name} {job.data}")
"""


@pytest.fixture
def world(any_server: Server, queue: str) -> Iterator[World]:
    """One queue with all of the texts, where the command lines above have a few each."""
    with Link.open(any_server.url) as link:
        made = World(link, queue, tuple(STRINGS.values()), time_ms(link.run(say("TIME"))))
        spoil(made)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("how", FORMATS)
def test_fault_40_hostile_text_everywhere_at_once_reaches_no_terminal(
    world: World, screen: Screen, how: str
) -> None:
    for nth, (verb, words) in enumerate(LOOKS.items()):
        options = () if verb in ("metrics", "check") else ("-o", how)
        told = screen.run(*verb.split(), *filled(world, words, nth), *options, "--quiet")
        assert_well_formed(told, how, verb)


def test_fault_40_a_worker_that_runs_hostile_jobs_says_nothing_a_terminal_would_act_upon(
    world: World, any_server: Server, shell: Shell, tmp_path: Path
) -> None:
    world = replace(
        world, texts=tuple(text for text in world.texts if "\0" not in text)
    )  # as arguments end there
    spoil(world)
    waiting = world.say("XLEN", Keys(world.name).stream)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "evil.py").write_text(HANDLER)
    words = ("--burst", "--max-attempts", "1", "--app-dir", tmp_path / "app", "-u", any_server.url)
    ended = shell("worker", "run", "evil:handler", "--queue", world.name, *words)
    assert "Traceback" not in ended.err
    for told in (ended.out, ended.err):
        assert is_harmless(told), [line for line in told.splitlines() if not is_harmless(line)][:3]
    assert ended.code == 0, ended.err
    assert world.say("XLEN", Keys(world.name).stream) < waiting, "none of them ran"
