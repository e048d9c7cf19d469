"""`chasqui server` on real servers, and every way to fail at reaching one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.cli.shell import Shell, assert_complains
from tests.servers import NATIVE_WORDS, Server, spawn

PASSWORD = "s3cr3t-of-the-andes"


def test_status_says_who_answers_and_what_it_can_do(server: Server, shell: Shell) -> None:
    told = shell("server", "status", "-u", server.url, "-o", "json").json
    assert told["version"] == server.version
    assert told["kind"] == server.kind.split("-")[0]
    assert told["native_words"] == (
        ["XADD IDMP", "XACKDEL", "XREADGROUP CLAIM"] if NATIVE_WORDS[server.kind] else []
    )
    assert told["eviction"] == "noeviction"
    assert told["persistence"] == "none"
    assert told["role"] == "master"


def test_status_on_a_read_only_link_says_the_same(server: Server, shell: Shell) -> None:
    usual = shell("server", "status", "-u", server.url, "-o", "json").json
    told = shell("server", "status", "-u", server.url, "-o", "json", "--read-only").json
    assert {name: told[name] for name in ("kind", "version", "native_words")} == {
        name: usual[name] for name in ("kind", "version", "native_words")
    }


def test_the_url_comes_from_flag_then_environment_then_context(any_server: Server, shell: Shell) -> None:
    nowhere = "redis://127.0.0.1:1"
    _configure(shell.home, f'current = "here"\n[contexts.here]\nurl = "{any_server.url}"\n')
    assert shell("server", "status").code == 0
    assert shell("server", "status", REDIS_URL=nowhere).code == 1
    assert shell("server", "status", REDIS_URL=nowhere, CHASQUI_REDIS_URL=any_server.url).code == 0
    assert shell("server", "status", "-u", nowhere, CHASQUI_REDIS_URL=any_server.url).code == 1
    assert shell("server", "status", "--context", "here", CHASQUI_REDIS_URL=nowhere).code == 0


def test_nobody_listening_is_an_error_that_names_both_ways_out(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    assert_complains(
        shell("server", "status", "-u", f"redis://127.0.0.1:{port}"), 1, "--redis-url", "embedded://"
    )
    assert_complains(shell("server", "status", "-u", "unix:///nowhere/at/all.sock"), 1)


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
def test_a_wrong_url_is_a_usage_error_that_never_repeats_the_password(shell: Shell, url: str) -> None:
    ended = shell("server", "status", "-u", url)
    assert_complains(ended, 2)
    assert PASSWORD not in ended.err


def test_a_wrong_or_missing_password_is_told_without_telling_it(shell: Shell) -> None:
    with spawn("valkey-9.1", password=PASSWORD, tcp=True) as server:
        bare = f"redis://127.0.0.1:{server.port}"
        assert_complains(shell("server", "status", "-u", bare), 1)
        wrong = shell("server", "status", "-u", f"redis://:not-{PASSWORD}@127.0.0.1:{server.port}")
        assert_complains(wrong, 1)
        assert PASSWORD not in wrong.err + wrong.out
        assert "warning: a password on the command line" in wrong.err
        _assert_right_passwords_work(shell, bare)


def _assert_right_passwords_work(shell: Shell, bare: str) -> None:
    kept = shell.home / "password"
    kept.write_text(PASSWORD + "\n")
    kept.chmod(0o600)
    for words, variables in (
        (("--password-file", str(kept)), {}),
        ((), {"REDISCLI_AUTH": PASSWORD}),
    ):
        ended = shell("server", "status", "-u", bare, *words, **variables)
        assert ended.code == 0, ended.err
        assert PASSWORD not in ended.out + ended.err
    kept.chmod(0o644)
    assert_complains(shell("server", "status", "-u", bare, "--password-file", kept), 2, "chmod 600")


def test_no_such_context_lists_those_there_are(shell: Shell) -> None:
    assert_complains(shell("server", "status", "--context", "nope"), 2, "'nope'", "none yet")
    _configure(shell.home, '[contexts.prod]\nurl = "redis://localhost"\n')
    assert_complains(shell("server", "status", "--context", "nope"), 2, "prod")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("current = ", "TOML"),
        ('[contexts]\nprod = "redis://x"\n', "not a table"),
        ('[contexts.prod]\nurll = "redis://x"\n', "urll"),
        ("[contexts.prod]\nurl = 5\n", "url"),
    ],
)
def test_a_broken_configuration_is_told_with_its_place(shell: Shell, text: str, said: str) -> None:
    _configure(shell.home, text)
    ended = shell("server", "status", "--context", "prod")
    assert ended.code == 2
    assert said in ended.err


def test_a_password_in_a_file_that_others_can_read_is_refused(shell: Shell) -> None:
    config = _configure(shell.home, f'[contexts.prod]\nurl = "redis://:{PASSWORD}@localhost"\n')
    config.chmod(0o644)
    ended = shell("server", "status", "--context", "prod")
    assert_complains(ended, 2, "chmod 600")
    assert PASSWORD not in ended.err


def test_a_tls_option_on_a_plain_url_is_refused(shell: Shell) -> None:
    assert_complains(shell("server", "status", "-u", "redis://127.0.0.1", "--tls-insecure"), 2, "rediss://")


def test_the_embedded_server_is_started_used_and_stopped(shell: Shell) -> None:
    before = shell("server", "status", "-u", "embedded://", "-o", "json").json
    assert before["running"] is False
    started = shell("server", "start", "-o", "json")
    try:
        assert started.json["running"] is True
        assert started.json["service"] is True
        again = shell("server", "start", "-o", "json")
        assert again.json["pid"] == started.json["pid"]
        assert "already running" in again.err
    finally:
        stopped = shell("server", "stop", "-o", "json")
    assert stopped.json["running"] is False
    assert shell("server", "stop").code == 0


def test_an_outage_never_starts_an_embedded_server(shell: Shell) -> None:
    shell("server", "status", "-u", "redis://127.0.0.1:1")
    assert not (shell.home / ".local").exists()


def test_the_demo_shows_decoded_jobs_and_leaves_nothing_behind(shell: Shell) -> None:
    ended = shell("demo", "-o", "json", TMPDIR=str(shell.home))
    assert ended.code == 0, ended.err
    assert [record["name"] for record in ended.json] == [
        "welcome",
        "invoice",
        "mystery",
        "reminder",
        "reminder",
    ]
    assert [record["prefix"] for record in ended.json] == [None, None, None, "u32le", "u8"]
    assert "undecodable" in ended.json[2]
    assert list(shell.home.iterdir()) == []


def _configure(home: Path, text: str) -> Path:
    path = home / ".config" / "chasqui" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path
