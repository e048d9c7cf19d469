"""What a real bash completes when Tab is pressed: queues of every kind, also behind the colons at which it breaks words."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chasqui.server.link import Link
from chasqui.sync_queue import SyncQueue
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.seeds.foreign_queues import ForeignQueues, seed_rsmq
from tests.support.servers.pool import do_without
from tests.support.servers.server import Server

SCRIPT = Path(__file__).parents[2] / "completions" / "chasqui.bash"
# bash itself breaks a line that is typed; a script must do it: at blanks, and around colons.
ASK = r"""
source "$1"; shift
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
mapfile -t COMP_WORDS < <(printf '%s' "$1" | sed 's/:/\n:\n/g; s/ /\n/g' | sed '/^$/d')
[[ $1 == *' ' ]] && COMP_WORDS+=("")
[[ $1 == *: ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_chasqui_completion chasqui
printf '%s\n' "${COMPREPLY[@]}"
"""

Complete = Callable[[str], list[str]]


@pytest.fixture
def foreign_queues(any_server: Server, queue: str) -> Iterator[ForeignQueues]:
    with Link.open(any_server.url) as link:
        yield ForeignQueues(link, queue)


@pytest.fixture
def complete(cli_process: SubprocessCli, any_server: Server, tmp_path: Path) -> Complete:
    """What bash would offer for a line, with the program of these sources."""
    if not shutil.which("bash"):
        do_without("there is no bash here")
    program = tmp_path / "bin" / "chasqui"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chasqui_cli "$@"\n')
    program.chmod(0o755)
    surroundings = cli_process.environment() | {"CHASQUI_REDIS_URL": any_server.url}
    surroundings["PATH"] = f"{program.parent}{os.pathsep}{surroundings['PATH']}"

    def ask(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", ASK, "bash", str(SCRIPT), line], env=surroundings, capture_output=True, timeout=30
        )
        assert not done.stderr, done.stderr.decode()
        return [word for word in done.stdout.decode().splitlines() if word]

    return ask


def test_queues_of_every_kind_are_offered_where_they_are_taken(
    complete: Complete, foreign_queues: ForeignQueues
) -> None:
    seed_rsmq(foreign_queues)
    foreign_queues.command("LPUSH", foreign_queues.jobs.pending, "x")
    foreign_queues.command("LPUSH", f"queue:\x1b[31m{foreign_queues.name}:pending", "x")
    with SyncQueue(foreign_queues.name, redis_url=str(foreign_queues.link.address)) as queue:
        queue.add("job", {})
    offered = complete("chasqui inspect ")
    assert {foreign_queues.name, f"rsmq:{foreign_queues.name}:orders", f"list:{foreign_queues.name}"} <= set(offered)
    assert not [name for name in offered if "\x1b" in name]
    for verb in ("watch", "check", "metrics", "doctor"):
        assert complete(f"chasqui {verb} rsmq:{foreign_queues.name}:or") == ["orders"], verb
    assert complete(f"chasqui inspect list:{foreign_queues.name}") == [foreign_queues.name]
    assert f"list:{foreign_queues.name}" not in complete("chasqui job show "), "what it does not take is not offered"


def test_below_their_own_words_names_are_bare(complete: Complete, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    foreign_queues.command("LPUSH", foreign_queues.jobs.pending, "x")
    assert complete(f"chasqui rsmq peek --ns {foreign_queues.name} o") == ["orders", "other"]
    assert complete(f"chasqui rsmq doctor --ns {foreign_queues.name} ot") == ["other"]
    assert complete(f"chasqui rsmq message send --ns {foreign_queues.name} -n or") == ["orders"]
    assert complete("chasqui rsmq peek o") == [], "another namespace's are not offered"
    assert complete(f"chasqui joblist list {foreign_queues.name[:5]}").count(foreign_queues.name) == 1
    at = f"-u {foreign_queues.link.address}"
    assert complete(f"chasqui joblist purge {at} {foreign_queues.name}") == [foreign_queues.name]


def test_looking_for_our_queues_alone_forgets_no_others(
    cli: InProcessCli, any_server: Server, foreign_queues: ForeignQueues
) -> None:
    cli.url = any_server.url
    seed_rsmq(foreign_queues)
    others = f"rsmq:{foreign_queues.name}:orders"
    for words in (("queues",), ("why", "no-such-job"), ("events",), ("queues",)):
        cli(*words)
        [file] = (cli.home / ".cache/chasqui/names").glob("*.json")
        assert others in json.loads(file.read_text())["others"], words
    foreign_queues.command("LPUSH", foreign_queues.jobs.pending, "x")
    cli("queues")
    assert f"list:{foreign_queues.name}" in json.loads(file.read_text())["others"]
