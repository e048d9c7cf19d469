"""Fleets of real processes: replaced when they crash, gone when they are asked to stop, and gone with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import ArgumentError
from chasqui.worker_fleet import run_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLOCK = SystemClock()
ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, signal, sys, threading
from pathlib import Path
from chasqui.worker_fleet import run_fleet

def crew(directory, word):
    place = Path(directory) / str(os.getpid())
    told = []
    gone = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: (told.append(1), place.with_suffix(".told").write_text(str(len(told))),
                                              word == "stubborn" and len(told) < 2 or gone.set()))
    place.with_suffix(".up").touch()
    if word == "short":
        return
    if word == "odd" and len(list(Path(directory).glob("*.up"))) == 1:
        os.kill(os.getpid(), 35)
    while not gone.wait(0.01):
        pass

if __name__ == "__main__":
    sys.exit(run_fleet(int(sys.argv[1]), crew, sys.argv[2:4]))
"""


class Fleet:
    """A process that runs a fleet, and what its crews wrote down."""

    def __init__(self, directory: Path, size: int, word: str) -> None:
        self.directory = directory
        program = directory / "program.py"
        program.write_text(PROGRAM)
        words = [sys.executable, str(program), str(size), str(directory), word]
        self.process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT / "engine")})

    def up(self) -> set[int]:
        return {int(file.stem) for file in self.directory.glob("*.up")}

    def alive(self) -> set[int]:
        return {pid for pid in self.up() if _is_alive(pid)}


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(holds: Callable[[], object], what: str) -> None:
    end = CLOCK.monotonic() + 20
    while not holds():
        assert CLOCK.monotonic() < end, f"never: {what}"
        CLOCK.sleep_sync(0.01)


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    fleets: list[Fleet] = []

    def start(size: int, word: str = "loyal") -> Fleet:
        fleets.append(Fleet(tmp_path, size, word))
        return fleets[-1]

    yield start
    for fleet in fleets:
        fleet.process.kill()
        fleet.process.wait()
        for pid in fleet.alive():
            os.kill(pid, signal.SIGKILL)


def test_a_process_that_is_killed_is_replaced_and_the_others_stay(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of(2)
    until(lambda: len(fleet.up()) == 2, "both are up")
    victim, other = sorted(fleet.up())
    os.kill(victim, signal.SIGKILL)
    until(lambda: len(fleet.up()) == 3, "there is another")
    assert other in fleet.alive()
    assert victim not in fleet.alive()
    fleet.process.terminate()
    assert fleet.process.wait(20) == 0
    assert fleet.alive() == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_are_asked_once_to_stop_and_waited_for(fleet_of: Callable[..., Fleet], number: signal.Signals) -> None:
    fleet = fleet_of(3)
    until(lambda: len(fleet.up()) == 3, "all are up")
    fleet.process.send_signal(number)
    assert fleet.process.wait(20) == 0
    assert fleet.alive() == set()
    assert [file.read_text() for file in fleet.directory.glob("*.told")] == ["1"] * 3


def test_a_second_signal_is_passed_on_and_a_third_kills(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of(1, "stubborn")
    until(lambda: len(fleet.up()) == 1, "it is up")
    asked = fleet.directory / f"{min(fleet.up())}.told"
    fleet.process.terminate()
    until(lambda: asked.exists() and asked.read_text() == "1", "it was asked to stop")
    assert fleet.process.poll() is None
    fleet.process.terminate()
    assert fleet.process.wait(20) == 0
    assert asked.read_text() == "2"


def test_no_worker_outlives_a_parent_that_was_killed(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of(2)
    until(lambda: len(fleet.up()) == 2, "both are up")
    fleet.process.kill()
    until(lambda: not fleet.alive(), "they are gone too")


def test_a_process_that_a_nameless_signal_ended_is_replaced(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of(1, "odd")
    until(lambda: len(fleet.up()) == 2, "there is another")
    fleet.process.terminate()
    assert fleet.process.wait(20) == 0


def test_processes_that_end_well_are_not_replaced(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of(2, "short")
    assert fleet.process.wait(20) == 0
    assert len(fleet.up()) == 2


def test_a_fleet_of_no_workers_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one process, not 0"):
        run_fleet(0, print)
