"""The released engine this one is compared with: an interpreter that has it, made once in the user's cache.

It lives in a virtual environment of its own, so its libraries never meet ours; tests and benchmarks run their
scripts with `python()`. What those scripts do is not decided here.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE, VERSION = "chasquimq", "1.3.0"
# The versions it runs with here; the wheel requires msgpack only.
COMPANIONS = ("msgpack==1.2.4", "redis==6.4.0")


class NoReferenceError(LookupError):
    """The released engine is not available here; the text gives the reason."""


def directory() -> Path:
    """Its place in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "chasqui" / "reference" / VERSION


def find() -> Path:
    """The interpreter that has it, if it was made already. Never fetches anything."""
    if not (directory() / "ready").is_file():
        raise NoReferenceError(
            f"{PACKAGE} {VERSION} is not in the cache; get it with: python -m tests.support.processes.reference_engine"
        )
    return _interpreter()


def python() -> Path:
    """The interpreter that has it; the first caller makes it, others wait for that."""
    try:
        return find()
    except NoReferenceError:
        pass
    with _locked():
        if not (directory() / "ready").is_file():
            _make()
        return _interpreter()


def _make() -> None:
    venv.create(directory(), clear=True, with_pip=True)
    _run("-m", "pip", "install", "--quiet", f"{PACKAGE}=={VERSION}", *COMPANIONS)
    _run("-c", f"import {PACKAGE}; {PACKAGE}.Queue, {PACKAGE}.Worker")
    (directory() / "ready").touch()


def _run(*words: str) -> None:
    done = subprocess.run([_interpreter(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise NoReferenceError(f"{PACKAGE} {VERSION}: {' '.join(done.stdout.split())[-400:]}")


def _interpreter() -> Path:
    return directory() / "bin" / "python"


@contextmanager
def _locked() -> Iterator[None]:
    directory().parent.mkdir(parents=True, exist_ok=True)
    with directory().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Make it and say where it is."""
    try:
        print(f"{PACKAGE} {VERSION}  {python()}")
    except NoReferenceError as missing:
        print(f"{PACKAGE} {VERSION}  missing: {missing}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
