"""`chasqui server` on real servers, and every way to fail at reaching one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.seeds.hostile_text import is_harmless
from tests.support.servers.fake_server import HOSTILE, Answers, bulk_reply, fake_server
from tests.support.servers.server import NATIVE_WORDS, Server, start_server

PASSWORD = "s3cr3t-of-the-andes"


def test_status_shows_the_server_and_its_features(server: Server, cli_process: SubprocessCli) -> None:
    status = cli_process("server", "status", "-u", server.url, "-o", "json").json
    assert status["version"] == server.version
    assert status["kind"] == server.kind.split("-")[0]
    assert status["native_words"] == (["XADD IDMP", "XACKDEL", "XREADGROUP CLAIM"] if NATIVE_WORDS[server.kind] else [])
    assert status["eviction"] == "noeviction"
    assert status["persistence"] == "none"
    assert status["role"] == "master"


def test_status_on_a_read_only_link_shows_the_same(server: Server, cli_process: SubprocessCli) -> None:
    usual = cli_process("server", "status", "-u", server.url, "-o", "json").json
    status = cli_process("server", "status", "-u", server.url, "-o", "json", "--read-only").json
    assert {name: status[name] for name in ("kind", "version", "native_words")} == {
        name: usual[name] for name in ("kind", "version", "native_words")
    }


def test_the_url_comes_from_flag_then_environment_then_context(any_server: Server, cli_process: SubprocessCli) -> None:
    nowhere = "redis://127.0.0.1:1"
    _configure(cli_process.home, f'current = "here"\n[contexts.here]\nurl = "{any_server.url}"\n')
    assert cli_process("server", "status").code == 0
    assert cli_process("server", "status", REDIS_URL=nowhere).code == 1
    assert cli_process("server", "status", REDIS_URL=nowhere, CHASQUI_REDIS_URL=any_server.url).code == 0
    assert cli_process("server", "status", "-u", nowhere, CHASQUI_REDIS_URL=any_server.url).code == 1
    assert cli_process("server", "status", "--context", "here", CHASQUI_REDIS_URL=nowhere).code == 0


def test_a_closed_port_is_an_error_that_names_both_ways_out(cli_process: SubprocessCli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    assert_error(cli_process("server", "status", "-u", f"redis://127.0.0.1:{port}"), 1, "--redis-url", "embedded://")
    assert_error(cli_process("server", "status", "-u", "unix:///nowhere/at/all.sock"), 1)


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "http://example.com",
        f"redis://user:{PASSWORD}@host:notaport",
        f"redis://user:{PASSWORD}@host:6379/notadb",
        f"redis://host:6379?password={PASSWORD}&nonsense=1",
        f"redis:/user:{PASSWORD}@host",
        "unix://relative.sock",
        "redis+sentinel://host:26379",
        "embedded://../escape",
    ],
)
def test_a_wrong_url_is_a_usage_error_that_never_repeats_the_password(cli_process: SubprocessCli, url: str) -> None:
    ended = cli_process("server", "status", "-u", url)
    assert_error(ended, 2)
    assert PASSWORD not in ended.err


def test_a_wrong_or_missing_password_is_reported_without_printing_it(cli_process: SubprocessCli) -> None:
    with start_server("valkey-9.1", password=PASSWORD, tcp=True) as server:
        bare = f"redis://127.0.0.1:{server.port}"
        assert_error(cli_process("server", "status", "-u", bare), 1)
        wrong = cli_process("server", "status", "-u", f"redis://:not-{PASSWORD}@127.0.0.1:{server.port}")
        assert_error(wrong, 1)
        assert PASSWORD not in wrong.err + wrong.out
        assert "warning: a password on the command line" in wrong.err
        _assert_right_passwords_work(cli_process, bare)


def _assert_right_passwords_work(shell: SubprocessCli, bare: str) -> None:
    file = _keep(shell.home, PASSWORD)
    for words, variables in (
        (("--password-file", str(file)), {}),
        ((), {"REDISCLI_AUTH": PASSWORD}),
    ):
        ended = shell("server", "status", "-u", bare, *words, **variables)
        assert ended.code == 0, ended.err
        assert PASSWORD not in ended.out + ended.err
    file.chmod(0o644)
    assert_error(shell("server", "status", "-u", bare, "--password-file", file), 2, "chmod 600")


def test_no_such_context_lists_those_there_are(cli_process: SubprocessCli) -> None:
    assert_error(cli_process("server", "status", "--context", "nope"), 2, "'nope'", "none yet")
    _configure(cli_process.home, '[contexts.prod]\nurl = "redis://localhost"\n')
    assert_error(cli_process("server", "status", "--context", "nope"), 2, "prod")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("current = ", "TOML"),
        ('[contexts]\nprod = "redis://x"\n', "not a table"),
        ('[contexts.prod]\nurll = "redis://x"\n', "urll"),
        ("[contexts.prod]\nurl = 5\n", "url"),
        ("contexts = 5\n", "not a table"),
        ('contexts = "prod"\n', "not a table"),
        ('contexts = ["prod"]\n', "not a table"),
        ('current = ["prod"]\n', "not a name"),
        ("deep = " + "[" * 100_000, "not valid TOML"),
        ("long = " + "9" * 10_000, "not valid TOML"),
        ("[contexts]\n\udcff\udcfe", "not valid TOML"),
    ],
    ids=lambda text: text[:20],
)
def test_a_broken_configuration_is_reported_with_its_place(cli_process: SubprocessCli, text: str, message: str) -> None:
    _configure(cli_process.home, text)
    assert_error(cli_process("server", "status", "--context", "prod"), 2, message)


def test_what_cannot_be_a_configuration_file_is_reported_and_never_waited_for(cli_process: SubprocessCli) -> None:
    path = _configure(cli_process.home, "")
    path.unlink()
    path.mkdir()
    assert_error(cli_process("server", "status"), 2, "Is a directory")
    path.rmdir()
    path.symlink_to(path)
    assert_error(cli_process("server", "status"), 2, "symbolic links")
    path.unlink()
    os.mkfifo(path)
    assert_error(cli_process("server", "status", "-u", "redis://127.0.0.1:1"), 1, "nothing listens")


def test_a_password_in_a_file_that_others_can_read_is_refused(cli_process: SubprocessCli) -> None:
    config = _configure(cli_process.home, f'[contexts.prod]\nurl = "redis://:{PASSWORD}@localhost"\n')
    config.chmod(0o644)
    ended = cli_process("server", "status", "--context", "prod")
    assert_error(ended, 2, "chmod 600")
    assert PASSWORD not in ended.err


def test_the_password_of_the_current_context_goes_to_its_own_server_only(cli_process: SubprocessCli) -> None:
    file = _keep(cli_process.home, PASSWORD)
    commands: list[str] = []

    def listen(command: str) -> bytes:
        commands.append(command)
        return b"+OK\r\n"

    with fake_server(listen) as elsewhere:
        _configure(
            cli_process.home,
            f'current = "prod"\n[contexts.prod]\nurl = "{elsewhere}"\npassword_file = "{file}"\n',
        )
        cli_process("server", "status", "-u", elsewhere)
        cli_process("server", "status", REDIS_URL=elsewhere)
        assert commands
        assert "AUTH" not in commands
        cli_process("server", "status")
        assert "AUTH" in commands
        commands.clear()
        cli_process("server", "status", "--context", "prod", "-u", elsewhere)
        assert "AUTH" in commands


def test_certificates_of_the_current_context_are_not_asked_of_another_server(
    cli_process: SubprocessCli, any_server: Server
) -> None:
    _configure(cli_process.home, 'current = "prod"\n[contexts.prod]\nurl = "rediss://prod"\ntls_ca = "/ca.pem"\n')
    assert cli_process("server", "status", "-u", any_server.url).code == 0
    assert cli_process("server", "status", REDIS_URL=any_server.url).code == 0


def test_a_password_in_the_url_beats_the_one_in_the_environment(cli_process: SubprocessCli) -> None:
    with start_server("valkey-9.1", password=PASSWORD, tcp=True) as server:
        right = f"redis://:{PASSWORD}@127.0.0.1:{server.port}"
        wrong = f"redis://:wrong@127.0.0.1:{server.port}"
        assert cli_process("server", "status", "-u", right, REDISCLI_AUTH="wrong").code == 0
        assert cli_process("server", "status", "-u", wrong, REDISCLI_AUTH=PASSWORD).code == 1
        file = _keep(cli_process.home, PASSWORD)
        assert cli_process("server", "status", "-u", wrong, "--password-file", file).code == 0


def test_a_tls_option_on_a_plain_url_is_refused(cli_process: SubprocessCli) -> None:
    assert_error(cli_process("server", "status", "-u", "redis://127.0.0.1", "--tls-insecure"), 2, "rediss://")


def test_the_embedded_server_is_started_used_and_stopped(cli_process: SubprocessCli) -> None:
    before = cli_process("server", "status", "-u", "embedded://", "-o", "json").json
    assert before["running"] is False
    started = cli_process("server", "start", "-o", "json")
    try:
        assert started.json["running"] is True
        assert started.json["service"] is True
        again = cli_process("server", "start", "-o", "json")
        assert again.json["pid"] == started.json["pid"]
        assert "already running" in again.err
    finally:
        stopped = cli_process("server", "stop", "-o", "json")
    assert stopped.json["running"] is False
    assert cli_process("server", "stop").code == 0


def test_starting_and_stopping_mean_the_server_of_the_url(cli_process: SubprocessCli) -> None:
    started = cli_process("server", "start", "-u", "embedded://mail", "-o", "json")
    try:
        assert started.json["url"] == "embedded://mail"
        other = cli_process("server", "stop", "other", "-o", "json", CHASQUI_REDIS_URL="embedded://mail")
        assert other.json["url"] == "embedded://other"
        assert cli_process("server", "status", "-u", "embedded://mail", "-o", "json").json["running"] is True
        assert "it was not running" in cli_process("server", "stop", REDIS_URL="redis://127.0.0.1:1").err
        for verb in ("start", "stop"):
            assert_error(cli_process("server", verb, "-u", "redis://127.0.0.1:1"), 2, "embedded://NAME")
    finally:
        stopped = cli_process("server", "stop", "-o", "json", CHASQUI_REDIS_URL="embedded://mail")
    assert (stopped.json["url"], stopped.json["running"]) == ("embedded://mail", False)
    assert "stopped" in stopped.err


def test_the_environments_password_is_not_for_an_embedded_server(
    cli_process: SubprocessCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chasqui_cli.context.command_context import CommandContext
    from chasqui_cli.context.settings import ConnectionOptions

    monkeypatch.setenv("HOME", str(cli_process.home))
    monkeypatch.setenv("REDISCLI_AUTH", PASSWORD)
    context = CommandContext(connection=ConnectionOptions(redis_url="embedded://"))
    assert context.address.login.password is None


def test_server_alone_shows_its_words(cli_process: SubprocessCli) -> None:
    ended = cli_process("server")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == cli_process("server", "--help").out


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda _: b"-ERR " + HOSTILE + b"\r\n", r"\x1b]0;pwned"),
        (lambda _: b"-" + HOSTILE + b"\r\n", r"\x1b]0;pwned"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "broke"),
        (lambda _: b"", "broke"),
        (lambda _: b":5\r\n", "no time"),
        (lambda _: b"$-1\r\n", "no time"),
        (lambda _: b"*0\r\n", "no time"),
        (lambda _: bulk_reply(b"foo"), "no time"),
        (lambda _: b"-LOADING Redis is loading the dataset in memory\r\n", "LOADING"),
    ],
    ids=["escapes", "no code", "http", "hangs up", "number", "nothing", "empty", "text", "loading"],
)
def test_whatever_an_impostor_answers_is_an_error_with_a_hint(
    cli_process: SubprocessCli, answers: Answers, message: str
) -> None:
    with fake_server(answers) as url:
        ended = cli_process("server", "status", "-u", url)
    assert_error(ended, 1, message)
    assert is_harmless(ended.err)


@pytest.mark.parametrize("how", ["table", "json", "yaml", "csv"])
def test_whatever_an_impostor_reports_about_itself_is_shown_harmlessly(cli_process: SubprocessCli, how: str) -> None:
    info = b"\r\n".join(
        [
            b"server_name:" + HOSTILE,
            b"role:" + HOSTILE,
            "uptime_in_seconds:²".encode(),
            b"used_memory:" + b"9" * 5000,
            b"connected_clients:-1",
            "executable:/tmp/\u2028maxmemory_policy:noeviction".encode(),
        ]
    )
    replies = {
        "TIME": b"*2\r\n" + bulk_reply(b"1700000000") + bulk_reply(b"5"),
        "INFO": bulk_reply(info),
        "CONFIG": b":1\r\n",
    }
    with fake_server(lambda command: replies.get(command, b"+\x1b[2J\r\n")) as url:
        ended = cli_process("server", "status", "-u", url, "-o", how)
    assert (ended.code, ended.err) == (0, "")
    assert is_harmless(ended.out)
    if how == "json":
        unknown = ("uptime_s", "memory_bytes", "clients", "eviction", "persistence", "keys")
        assert [ended.json[name] for name in unknown] == [None] * 6


def test_an_outage_never_starts_an_embedded_server(cli_process: SubprocessCli) -> None:
    cli_process("server", "status", "-u", "redis://127.0.0.1:1")
    assert not (cli_process.home / ".local").exists()


def test_the_demo_runs_a_queue_and_leaves_nothing_behind(cli_process: SubprocessCli) -> None:
    ended = cli_process("demo", "-o", "json", TMPDIR=str(cli_process.home))
    assert ended.code == 0, ended.err
    fates = sorted((one["name"], one["runs"], one["fate"]) for one in ended.json)
    assert fates == [
        ("digest", 1, "completed"),
        ("digest", 1, "completed"),
        ("digest", 1, "completed"),
        ("invoice", 3, "dead"),
        ("mystery", 0, "dead"),
        ("newsletter", 2, "completed"),
        ("reminder", 1, "completed"),
        ("sms", 1, "dead"),
        ("welcome", 1, "completed"),
    ]
    why = {one["name"]: one["why"] for one in ended.json if one["fate"] == "dead"}
    assert why["invoice"] == "retries_exhausted: LookupError: no account for bob@example.com"
    assert "retry-scheduled" in ended.err
    assert list(cli_process.home.iterdir()) == []


def _keep(home: Path, password: str) -> Path:
    file = home / "password"
    file.write_text(password + "\n")
    file.chmod(0o600)
    return file


def _configure(home: Path, text: str) -> Path:
    path = home / ".config" / "chasqui" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, errors="surrogateescape")
    path.chmod(0o600)
    return path
