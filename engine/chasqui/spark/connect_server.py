"""A warm Spark of one's own: a Connect server on loopback, kept running so that a report takes seconds, not twenty.

Every client can run code as the server's owner, so it wants a token that only the owner can read.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chasqui.clock import SystemClock
from chasqui.errors import ConfigError, ServerError
from chasqui.spark import spark_session as session
from chasqui.spark.layout import file_lock
from chasqui.spark.spark_session import CONNECT_TIMEOUT_S

if TYPE_CHECKING:
    from chasqui.spark.spark_session import SparkTarget

START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server that was started. One session for all: Spark is warm only within a session."""

    pid: int
    port: int
    token: str
    session: str
    log: str

    @property
    def url(self) -> str:
        """Where it is, for those who may know the token."""
        return f"sc://localhost:{self.port}/;token={self.token};session_id={self.session}"

    @property
    def address(self) -> str:
        """Where it is, for everybody."""
        return f"sc://localhost:{self.port}"

    def is_reachable(self, within_s: float = CONNECT_TIMEOUT_S) -> bool:
        """Whether it can be worked with."""
        return session.is_reachable(self.url, within_s)

    def is_running(self) -> bool:
        """Whether the process is there, and is ours."""
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return _send_signal(self.pid, 0) and not Path("/proc/self").exists()
        return b"SparkConnectServer" in command


def start_or_find(where: SparkTarget, state: Path) -> ConnectServer:
    """The running server, started if there is none; it is ready when this returns."""
    session.check_installed(connect=True)
    with file_lock(state / "spark-connect.lock"):  # another process that starts it at the same time finds this one
        found = find_running(state)
        if found is None:
            return _launch(where, state)
    if not found.is_reachable():
        raise ServerError(
            f"the Spark that was started before (process {found.pid}) does not answer",
            hint="`chasqui pipeline down` ends it",
        )
    return found


def _launch(where: SparkTarget, state: Path) -> ConnectServer:
    server = ConnectServer(0, _free_port(), secrets.token_urlsafe(32), str(uuid.uuid4()), str(where.log))
    process = _spawn(where, server)
    try:
        server = replace(server, pid=process.pid)
        _save_state(state, server)  # before it is ready: if we are killed now, `down` must find it
        _wait_until_ready(server, process, where.log)
    except BaseException:  # an impatient Ctrl-C, too
        process.kill()
        process.wait()
        _state_file(state).unlink(missing_ok=True)
        raise
    return server


def _wait_until_ready(server: ConnectServer, process: subprocess.Popen[bytes], log: Path) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + START_TIMEOUT_S
    while not server.is_reachable(1):
        if process.poll() is not None or clock.monotonic() > deadline:
            raise ConfigError("the Spark server did not come up", hint=f"see {log}")


def stop(state: Path) -> ConnectServer | None:
    """Stop the server, if one runs; answers which."""
    found = find_running(state)
    if found is not None:
        clock = SystemClock()
        _send_signal(found.pid, signal.SIGTERM)
        deadline = clock.monotonic() + 30
        while found.is_running() and clock.monotonic() < deadline:
            clock.sleep_sync(0.1)
        if found.is_running():
            _send_signal(found.pid, signal.SIGKILL)
    _state_file(state).unlink(missing_ok=True)
    return found


def find_running(state: Path) -> ConnectServer | None:
    """The server that was started here, if it still runs."""
    try:
        server = ConnectServer(**json.loads(_state_file(state).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return server if server.is_running() else None


def _spawn(where: SparkTarget, server: ConnectServer) -> subprocess.Popen[bytes]:
    from pyspark.find_spark_home import _find_spark_home

    conf = session.spark_conf(replace(where, remote=None, master=where.master)) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(server.port),
        "spark.connect.session.manager.defaultSessionTimeout": "7d",
        "spark.master": where.master,
    }
    words = [str(Path(_find_spark_home()) / "bin" / "spark-submit")]
    words += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    where.log.parent.mkdir(parents=True, exist_ok=True)
    surroundings = os.environ | session.spark_environment(replace(where, remote=None))
    surroundings["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = server.token
    with where.log.open("ab") as log:
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=surroundings, start_new_session=True
        )


def _save_state(state: Path, server: ConnectServer) -> None:
    file = _state_file(state)
    file.parent.mkdir(parents=True, exist_ok=True)
    fields = {name: getattr(server, name) for name in ConnectServer.__slots__}
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as out:
        json.dump(fields, out)


def _state_file(state: Path) -> Path:
    return state / "spark-connect.json"


def _send_signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
