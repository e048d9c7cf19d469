"""The small process that stays with one embedded server: starts it, and ends it when no process uses it any more.

It is run by its file name in an interpreter of its own, so only the standard library is imported here; who may
use the server, and where it lives, is decided in `embedded.py`.

Three files in the server's directory, all empty, say everything. `server.lock` is locked by the keeper and,
inherited, by the server: as long as either lives, no second server can start there. `users` is locked, shared,
by every process that uses the server: once the keeper can lock it alone, none does. `service` exists when the
server is to stay all the same.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

LOCK = "server.lock"
USERS = "users"
SERVICE = "service"
LOG = "server.log"

READY = "ready"
UNRESPONSIVE = "held"
MAX_LOG_BYTES = 1_000_000
PR_SET_PDEATHSIG = 1


def send_command(address: Path, *words: str, seconds: float = 5) -> str:
    """One command without spaces in its words, and the reply as text. Empty: no server, or a broken connection."""
    try:
        with socket.socket(socket.AF_UNIX) as line, line.makefile("rb") as replies:
            line.settimeout(seconds)
            line.connect(str(address))
            line.sendall(" ".join(words).encode() + b"\r\n")
            head = replies.readline()
            text = replies.read(int(head[1:])) if head.startswith(b"$") else head
            return text.decode(errors="replace").strip()
    except OSError:
        return ""


def is_ready(address: Path) -> bool:
    """Whether a server is there and has read its data."""
    return send_command(address, "PING", seconds=1) == "+PONG"


def try_lock(file: IO[str], operation: int = fcntl.LOCK_EX) -> bool:
    """Lock it now or not at all."""
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main(binary: str, directory: str, address: str, service: str, patience_seconds: str) -> None:
    """Leave the starter's side, then keep the server until it ends. What became of it is said on stdout."""
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    os.chdir(directory)
    with Path(LOCK).open("w") as lock:
        if not _claim_directory(lock, Path(address), int(patience_seconds)):
            return
        server = _start_server(binary, address, lock, stays=service == SERVICE)
        if _wait_until_ready(server, Path(address)):
            _report_to_starter(READY)
            threading.Thread(target=_stop_when_unused, args=(server,), daemon=True).start()
            server.wait()


def _claim_directory(lock: IO[str], address: Path, patience_seconds: int) -> bool:
    """Whether this process is to start the server. If another one did, wait until that server answers."""
    signal.signal(signal.SIGALRM, _on_start_timeout)
    signal.alarm(patience_seconds)
    while not try_lock(lock):
        if is_ready(address):
            _report_to_starter(READY)
            return False
        _sleep(0.02)
    signal.alarm(0)
    return True


def _on_start_timeout(*_: object) -> None:
    _report_to_starter(UNRESPONSIVE)
    os._exit(1)


def _start_server(binary: str, address: str, lock: IO[str], *, stays: bool) -> subprocess.Popen[bytes]:
    """Acknowledged is on disk: `always` syncs before the reply, where `everysec` may even put off the write."""
    if stays:
        Path(SERVICE).touch()
    else:
        Path(SERVICE).unlink(missing_ok=True)
    words = [binary, "--port", "0", "--unixsocket", address, "--unixsocketperm", "700", "--dir", "."]
    words += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    words += ["--maxmemory-policy", "noeviction", "--daemonize", "no"]
    with _open_log() as log:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock.fileno()],
            preexec_fn=_die_with_keeper,  # noqa: PLW1509 - no thread is running yet
        )


def _die_with_keeper() -> None:
    """In the server, before it is one. The keeper's main thread starts it and lives as long as the keeper."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _open_log() -> IO[bytes]:
    log = Path(LOG)
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(f"{LOG}.1")
    return log.open("ab")


def _wait_until_ready(server: subprocess.Popen[bytes], address: Path) -> bool:
    """Reading much data takes as long as it takes; only the server's end means that it failed."""
    while not is_ready(address):
        try:
            server.wait(timeout=0.01)
        except subprocess.TimeoutExpired:
            continue
        _report_to_starter(f"pid {server.pid}")
        return False
    return True


def _stop_when_unused(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM ends it with all it has on disk. It refuses while it cannot write, so ask again, but let users in."""
    with Path(USERS).open("w") as users:
        while True:
            fcntl.flock(users, fcntl.LOCK_EX)
            if Path(SERVICE).exists():
                return
            server.terminate()
            _sleep(5)
            fcntl.flock(users, fcntl.LOCK_UN)
            _sleep(1)


def _report_to_starter(status: str) -> None:
    """Send the status to the starter, if it still listens, and close the connection: that is what it waits for."""
    try:
        os.write(sys.stdout.fileno(), status.encode())
    except BrokenPipeError:
        pass
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _sleep(seconds: float) -> None:
    """The engine's clock is out of reach here; waiting for no file at all is waiting."""
    select.select([], [], [], seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
