"""The public names of `chasqui.foreign`: all resolve, and importing it loads no client and no codec."""

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


@pytest.mark.parametrize("package", [foreign, rsmq, joblist], ids=lambda package: package.__name__)
def test_every_name_resolves_and_no_other(package: ModuleType) -> None:
    assert dir(package)
    for name in dir(package):
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense


def test_importing_the_package_loads_no_client_and_no_codec() -> None:
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
