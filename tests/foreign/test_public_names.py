"""The door to other systems' queues: every name resolves, and opening it costs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chasqui import foreign
from chasqui.errors import ArgumentError
from chasqui.foreign import ConversionOptions, joblist, rsmq

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("door", [foreign, rsmq, joblist], ids=lambda door: door.__name__)
def test_every_name_resolves_and_no_other(door: ModuleType) -> None:
    assert dir(door)
    for name in dir(door):
        assert getattr(door, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = door.nonsense


def test_opening_the_door_imports_no_client_and_no_codec() -> None:
    code = "import sys, chasqui.foreign; from chasqui.foreign import joblist, rsmq; print('|'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "engine"), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert {"redis", "hiredis", "msgpack", "asyncio"}.isdisjoint(done.stdout.strip().split("|"))


def test_a_name_that_no_job_can_have_is_refused_before_anything_moves() -> None:
    with pytest.raises(ArgumentError, match="job name exceeds"):
        ConversionOptions(name="x" * 257)
