"""The real clients of RSMQ, each in a place of its own in the user's cache, made once: npm rsmq, PyRSMQ and rsmqctl.

`open_client` starts one as a process that takes calls as JSON lines; what the calls are is said in its driver under
`tests/interop/`. Nothing of them is installed with our own libraries.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import venv
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DRIVERS = Path(__file__).parents[2] / "interop"
VERSIONS = {"npm": "rsmq@0.12.4", "PyRSMQ": "PyRSMQ==0.6.1", "rsmqctl": "rsmqctl==1.0.0"}


class NoClientError(LookupError):
    """The client is not available here; the text gives the reason."""


@dataclass(slots=True)
class Client:
    """A running client."""

    process: subprocess.Popen[str]

    def call(self, verb: str, **words: Any) -> Any:
        """Send it a request and return its result."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"verb": verb, **words}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the client ended")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["result"]


@contextmanager
def open_client(name: str, port: int) -> Iterator[Client]:
    """The client of this name, connected to the server at this port; made first, if it was not yet."""
    with _locked(name):
        place = _place(name)
        if not (place / "ready").is_file():
            _make(name, place)
    process = subprocess.Popen(
        [*_command(name, place), str(port)],
        env={**os.environ, "RSMQ_HOME": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Client(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def _place(name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "chasqui" / "rsmq" / VERSIONS[name].replace("==", "-").replace("@", "-")


def _command(name: str, place: Path) -> list[str]:
    if name == "npm":
        return ["node", str(DRIVERS / "rsmq_node.mjs")]
    return [str(place / "bin" / "python"), str(DRIVERS / "rsmq_python.py"), name]


def _make(name: str, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if name == "npm":
        if not shutil.which("npm"):
            raise NoClientError("npm is not installed")
        _run(name, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, VERSIONS[name])
    else:
        venv.create(place, clear=True, with_pip=True)
        _run(name, place / "bin" / "python", "-m", "pip", "install", "--quiet", VERSIONS[name])
    (place / "ready").touch()


def _run(name: str, *words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise NoClientError(f"{VERSIONS[name]}: {' '.join(done.stdout.split())[-400:]}")


@contextmanager
def _locked(name: str) -> Iterator[None]:
    _place(name).parent.mkdir(parents=True, exist_ok=True)
    with (_place(name).parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Make them all and say where they are."""
    complete = True
    write: Callable[[str], object] = sys.stdout.write
    for name in VERSIONS:
        try:
            with open_client(name, 1):
                write(f"{VERSIONS[name]:<16} {_place(name)}\n")
        except NoClientError as missing:
            complete = False
            write(f"{VERSIONS[name]:<16} missing: {missing}\n")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
