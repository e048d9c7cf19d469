"""Real servers for tests: one private process each, in a directory of its own, gone when the test run is gone.

Where the programs come from is the business of `server_binaries.py`. `python -m tests.support.servers.server` fetches what is
missing and prints one line per kind.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers.binaries import KINDS, Binary, Kind, NoServerError, find, obtain
from tests.support.servers.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NATIVE_WORDS: dict[Kind, bool] = {"redis-8.6": True, "redis-7.0": False, "valkey-9.1": False}


@dataclass(slots=True)
class Server:
    """A running server, and the means to be cruel to it."""

    binary: Binary
    directory: Path
    command: list[str]
    port: int | None
    password: str | None
    certificates: Certificates | None
    process: subprocess.Popen[bytes] = field(init=False, repr=False)

    @property
    def kind(self) -> Kind:
        return self.binary.kind

    @property
    def version(self) -> str:
        return self.binary.version_text

    @property
    def socket(self) -> Path:
        return self.directory / "s"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        """How a client reaches it: over TLS or TCP when asked for, else through its socket."""
        secret = f":{self.password}@" if self.password else ""
        if self.certificates:
            return f"rediss://{secret}127.0.0.1:{self.port}"
        if self.port:
            return f"redis://{secret}127.0.0.1:{self.port}"
        return f"unix://{secret}{self.socket}"

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers: not before, and not a fixed while."""
        self.socket.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*_dying_with_parent(), *self.command],
                cwd=self.directory,
                env=self.binary.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self.answers, self.process, self.log)

    def kill(self) -> None:
        """What a power cut looks like from outside: no farewell, nothing flushed."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ask it to end, and wait for the end."""
        self.process.terminate()
        self.process.wait()

    def restart(self) -> None:
        """End it, if it still runs, and start it again: same directory, same address."""
        if self.running:
            self.stop()
        self.start()

    def answers(self) -> bool:
        """Whether it serves already: a refusal for want of a password counts, loading its data does not."""
        reply = self.run_command("PING")
        return bool(reply) and not reply.startswith("-LOADING")

    def run_command(self, *words: str) -> str:
        """The first line of the reply, or nothing while the server does not answer. Needs no client library."""
        message = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        try:
            with socket.socket(socket.AF_UNIX) as wire:
                wire.connect(str(self.socket))
                wire.sendall(f"*{len(words)}\r\n{message}".encode())
                return wire.makefile("r").readline().strip()
        except OSError:
            return ""

    def has_native_words(self) -> bool:
        """Whether the server knows XACKDEL: tried, because version texts mislead."""
        return self.run_command("XACKDEL", "no-such-stream", "no-such-group", "IDS", "1", "0-1").startswith("*")


@contextmanager
def start_server(
    kind: Kind,
    *,
    args: Sequence[str] = (),
    tcp: bool = False,
    tls: bool = False,
    password: str | None = None,
    directory: Path | None = None,
    certificates: Certificates | None = None,
) -> Iterator[Server]:
    """A server of this kind for the length of a `with`. Without `tcp` or `tls` it listens on no port at all.

    `certificates`: for TLS, instead of new ones.
    """
    binary = find(kind)
    place = directory or Path(tempfile.mkdtemp(prefix="cq-"))
    if tls and certificates is None:
        certificates = make_certificates(place)
    server = _prepare(binary, place, args, tcp=tcp, certificates=certificates, password=password)
    try:
        server.start()
        yield server
    finally:
        if server.running:
            server.kill()
        if directory is None:
            shutil.rmtree(place)


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, *, seconds: int = 20) -> None:
    """Look until it holds; fail at once when the process ends."""
    for _ in range(seconds * 200):
        if holds():
            return
        try:
            process.wait(timeout=0.005)
        except subprocess.TimeoutExpired:
            continue
        break
    log_text = log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"{process.args!r} did not come up:\n{log_text}")


def _prepare(
    binary: Binary,
    place: Path,
    args: Sequence[str],
    *,
    tcp: bool,
    certificates: Certificates | None,
    password: str | None,
) -> Server:
    port = _free_port() if tcp or certificates else None
    command = [str(binary.path), "--dir", str(place), "--unixsocket", str(place / "s")]
    command += ["--save", "", "--appendonly", "no", "--enable-debug-command", "yes", "--bind", "127.0.0.1"]
    command += ["--port", str(port or 0)] if not certificates else ["--port", "0", "--tls-port", str(port)]
    if certificates:
        command += ["--tls-cert-file", str(certificates.certificate), "--tls-key-file", str(certificates.key)]
        command += ["--tls-ca-cert-file", str(certificates.ca), "--tls-auth-clients", "no"]
    if password:
        command += ["--requirepass", password]
    return Server(binary, place, [*command, *args], port, password, certificates)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _dying_with_parent() -> list[str]:
    """Words before a command. Spawn from the main thread: the end of the thread counts as the parent's."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def main() -> int:
    """Obtain every kind, try each, print what is there and what is not. Only CI insists on all of them."""
    complete = True
    for kind in KINDS:
        try:
            binary = obtain(kind)
            with start_server(kind) as server:
                if server.has_native_words() is not NATIVE_WORDS[kind]:
                    raise NoServerError(f"{binary.path} is not what its version says: XACKDEL answers otherwise")
            print(f"{kind:<11} {binary.version_text:<8} {binary.path}")
        except NoServerError as missing:
            complete = False
            print(f"{kind:<11} missing  {missing}")
    return 0 if complete or os.environ.get("CI") != "true" else 1


if __name__ == "__main__":
    sys.exit(main())
