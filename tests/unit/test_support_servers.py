"""The servers under the other tests: that they are what they claim, private, and gone when no test needs them."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.servers.binaries import CHOSEN_SERVER, Kind, NoServerError, _upstream, debian_addresses, find
from tests.support.servers.server import NATIVE_WORDS, Server, start_server

if TYPE_CHECKING:
    from tests.support.servers.pool import ServerPool

ROOT = Path(__file__).parents[2]
NEVER = Retry(NoBackoff(), 0)
PERSISTENT = ("--appendonly", "yes", "--appendfsync", "everysec")


def test_each_kind_has_exactly_the_native_words_we_think_it_has(server: Server) -> None:
    assert server.has_native_words() is NATIVE_WORDS[server.kind]


def test_a_server_listens_on_its_socket_only_unless_tcp_is_asked_for(server: Server) -> None:
    with redis.Redis.from_url(server.url) as client:
        assert client.config_get("port") == {"port": "0"}
    assert stat.S_ISSOCK(server.socket.stat().st_mode)
    assert len(str(server.socket)) < 100


def test_every_kind_is_a_server_of_its_own(all_servers: dict[Kind, Server]) -> None:
    assert len({server.pid for server in all_servers.values()}) == len(all_servers)


def test_a_server_over_tcp_wants_its_password(any_server: Server) -> None:
    with start_server(any_server.kind, tcp=True, password="sesame") as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        with (
            redis.Redis(port=server.port or 0, retry=NEVER) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()


def test_a_server_over_tls_proves_who_it_is(servers: ServerPool) -> None:
    servers.get("redis-8.6")
    with start_server("redis-8.6", tls=True) as server:
        assert server.certificates
        with redis.Redis.from_url(server.url, ssl_ca_certs=str(server.certificates.ca)) as client:
            assert client.ping()
        with redis.Redis(port=server.port or 0, ssl=True, retry=NEVER) as doubter:
            with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
                doubter.ping()


def test_a_restarted_server_keeps_its_address_and_what_it_wrote(any_server: Server) -> None:
    with start_server(any_server.kind, args=PERSISTENT) as server:
        address, first = server.url, server.pid
        with redis.Redis.from_url(address) as client:
            client.set("kept", 1)
        server.kill()
        server.restart()
        with redis.Redis.from_url(address) as client:
            assert (server.url, client.get("kept")) == (address, b"1")
        assert server.pid != first


def test_a_server_that_cannot_start_reports_its_log(any_server: Server) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)did not come up.*no-such-setting"):
        with start_server(any_server.kind, args=("--no-such-setting", "1")):
            pass


def test_a_server_leaves_no_directory_behind(any_server: Server) -> None:
    with start_server(any_server.kind) as server:
        directory = server.directory
    assert not directory.exists()


def test_a_server_dies_with_the_process_that_started_it(any_server: Server) -> None:
    code = (
        "import sys; from tests.support.servers.server import start_server\n"
        f"with start_server({any_server.kind!r}) as server: print(server.socket, flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True)
    with owner, socket.socket(socket.AF_UNIX) as line:
        assert owner.stdout is not None
        line.settimeout(20)
        line.connect(owner.stdout.readline().strip())
        line.sendall(b"PING\r\n")
        assert line.recv(7) == b"+PONG\r\n"
        owner.kill()
        assert line.recv(1) == b""


def test_a_chosen_server_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, servers: ServerPool) -> None:
    monkeypatch.setenv(CHOSEN_SERVER, str(servers.get("redis-7.0").binary.path))
    with pytest.raises(NoServerError, match=r"names Redis 7\.0\.\d+; 8\.6 or newer is needed"):
        find("redis-8.6")


def test_an_empty_cache_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(CHOSEN_SERVER, raising=False)
    with pytest.raises(NoServerError, match="none on PATH, none in the cache"):
        find("redis-8.6")


def run_without_servers(cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Two tests of this file, each on every kind, where only the kind from PyPI is to be had."""
    tests = [
        "test_each_kind_has_exactly_the_native_words_we_think_it_has",
        "test_a_server_listens_on_its_socket_only_unless_tcp_is_asked_for",
    ]
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *(f"{__file__}::{test}" for test in tests),
    ]
    hidden = {CHOSEN_SERVER, "CI", "PYTEST_ADDOPTS"}
    others = {name: value for name, value in os.environ.items() if name not in hidden}
    surroundings = {**others, "XDG_CACHE_HOME": str(cache), "PATH": str(cache), **variables}
    return subprocess.run(words, cwd=ROOT, env=surroundings, capture_output=True, text=True)


def test_a_kind_that_cannot_be_had_is_reported_once_with_its_count(tmp_path: Path) -> None:
    done = run_without_servers(tmp_path)
    assert done.returncode == 0, done.stdout
    why = "(none on PATH, none in the cache); get it with: make servers"
    for kind in ("redis-8.6", "redis-7.0"):
        assert done.stdout.count(kind) == 1 + 1, "one line of its own, and the list of servers"
        assert f"not run: 2 tests: no {kind} server {why}\n" in done.stdout
    assert "SKIPPED" not in done.stdout
    assert "2 passed, 4 not run" in done.stdout


def test_ci_insists_on_every_kind(tmp_path: Path) -> None:
    done = run_without_servers(tmp_path, CI="true")
    assert done.returncode == 1
    assert "2 passed, 4 errors" in done.stdout


def test_the_archive_is_read_from_both_kinds_of_apt_configuration(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://old.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://one.example/debian/ bookworm main contrib\n"
        "deb http://one.example/debian-security bookworm-security main\n"
        "deb http://tools.example/linux/debian bookworm stable\n"
    )
    (parts / "debian.sources").write_text(
        "Types: deb\n# why\nURIs: http://two.example/debian\nSuites: bookworm\nComponents: main\n\n"
        "Types: deb\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n"
    )
    (parts / "cloud.sources").write_text(
        "Types: deb deb-src\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: trixie\nComponents: main\n"
        "\nTypes: deb\nURIs: mirror+file:///etc/apt/mirrors/debian-security.list\nSuites: trixie-security\n"
        "Components: main\n"
    )
    assert debian_addresses(tmp_path) == [
        "http://one.example/debian/",
        "mirror+file:///etc/apt/mirrors/debian.list",
        "http://two.example/debian",
    ]


def test_the_new_redis_is_one_process_that_takes_its_own_signals(servers: ServerPool) -> None:
    servers.get("redis-8.6")
    with start_server("redis-8.6") as server, redis.Redis.from_url(server.url) as client:
        assert client.info("server")["process_id"] == server.pid
        server.process.terminate()
        assert server.process.wait(20) == 0


def test_a_version_is_chosen_by_its_upstream_numbers() -> None:
    assert max(["5:8.10.0-1", "5:8.6.3-1", "5:8.9.1~rc1-2"], key=_upstream) == "5:8.10.0-1"
