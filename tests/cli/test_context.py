"""`chasqui context`: servers by name, in a file that stays its owner's."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from chasqui_cli.commands.context._config_file import CONTEXT_SCHEMA
from chasqui_cli.context.settings import CONTEXT_COLORS
from chasqui_cli.output.stdio import _COLOR_CODES
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.cli.terminal import run_on_terminal
from tests.support.seeds.dead_letters import DeadLetterSeeder, seed_every_kind
from tests.support.servers.server import Server

pytestmark = [
    pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True),
    pytest.mark.usefixtures("cli_on_server"),
]
PASSWORD = "s3cr3t-of-the-andes"


def config(inside: InProcessCli) -> Path:
    return inside.home / ".config/chasqui/config.toml"


def test_a_context_is_set_chosen_shown_and_left_again(cli: InProcessCli, server: Server) -> None:
    assert "there is no context yet" in cli("context", "list").err
    assert_error(cli("context", "show"), 4, "context use")
    made = cli("context", "set", "prod", f"url={server.url}", "protected=yes", "color=red", "-o", "json")
    assert list(made.json) == list(CONTEXT_SCHEMA)
    assert made.json["settings"] == {"url": server.url, "protected": True, "color": "red"}
    assert stat.S_IMODE(config(cli).stat().st_mode) == 0o600
    cli("context", "set", "dev server", "url=embedded://dev", "read_only=true")
    assert cli("context", "use", "prod").code == 0
    assert cli("context", "use", "dev server").code == 0
    listed = {one["name"]: one["current"] for one in cli("context", "list", "-o", "json").json}
    assert listed == {"prod": False, "dev server": True}
    assert cli("context", "use", "-", "-o", "name").out == "prod\n"
    assert cli("context", "use", "-", "-o", "name").out == "dev server\n"
    assert cli("context", "show", "-o", "json").json["read_only"] is True
    cli("context", "set", "dev server", "read_only=")
    assert cli("context", "show", "-o", "json").json["settings"] == {"url": "embedded://dev"}


def test_comments_and_order_are_preserved(cli: InProcessCli) -> None:
    config(cli).parent.mkdir(parents=True)
    config(cli).write_text(
        '# mine\n\n[contexts.b]\nurl = "redis://b" # the second\n\n[contexts.a]\nurl = "redis://a"\n'
    )
    cli("context", "set", "a", "color=blue")
    cli("context", "use", "a")
    text = config(cli).read_text()
    assert text.startswith("# mine\n")
    assert 'url = "redis://b" # the second\n' in text
    assert text.index("[contexts.b]") < text.index("[contexts.a]")
    assert [one["name"] for one in cli("context", "list", "-o", "json").json] == ["b", "a"]


def test_the_current_context_names_its_server(cli: InProcessCli, server: Server) -> None:
    cli.url = ""
    cli("context", "set", "here", f"url={server.url}")
    cli("context", "use", "here")
    assert cli("server", "status", "-o", "json").json["url"] == server.url


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("set", "x", "colour=red"), 2, "known: url"),
        (("set", "x", "color=pink"), 2, "red, green"),
        (("set", "x", "read_only=maybe"), 2, "read_only=true"),
        (("set", "x", "url"), 2, "url=redis://"),
        (("set", "x", "url=nonsense"), 2, ""),
        (("set", "-", "url=redis://h"), 2, "no name"),
        (("use", "nobody"), 4, "context set nobody"),
        (("use", "-"), 4, "no context before"),
        (("show", "nobody"), 4, "nobody"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_nothing_is_written(
    cli: InProcessCli, words: tuple[str, ...], code: int, message: str
) -> None:
    assert_error(cli("context", *words), code, message)
    assert not config(cli).exists()


def test_passwords_are_never_shown(cli: InProcessCli) -> None:
    url = f"redis://ada:{PASSWORD}@host:6379"
    for words in (("set", "p", f"url={url}"), ("use", "p"), ("list",), ("show",), ("set", "p", "color=cyan")):
        for output in ("table", "json", "yaml"):
            ended = cli("context", *words, "-o", output)
            assert ended.code == 0
            assert PASSWORD not in ended.out + ended.err
    assert PASSWORD in config(cli).read_text()


def test_a_change_is_announced_with_its_context_in_words_and_colour(
    cli: InProcessCli, cli_process: SubprocessCli, server: Server, queue: str
) -> None:
    from chasqui.server.link import Link
    from chasqui.wire.keys import Keys

    cli("context", "set", "prod", f"url={server.url}", "protected=true", "color=red")
    with Link.open(server.url) as link:
        yard = DeadLetterSeeder(link, Keys(queue))
        seed_every_kind(yard)
        words = ("dlq", "purge", queue, "--context", "prod")
        _, shown = run_on_terminal(cli_process, *words, "--dry-run")
        assert "\x1b[1;31m[prod ⚠ protected] would purge 6 dead letters" in shown
        _, shown = run_on_terminal(cli_process, *words, "--dry-run", NO_COLOR="1")
        assert "\x1b[1;31m" not in shown
        assert "[prod ⚠ protected] would purge 6 dead letters" in shown
        ended = cli(*words, "--yes")
        assert ended.code == 5
        assert f"--confirm {queue}" in ended.err
        assert cli(*words, "--yes", "--confirm", queue).code == 0


@pytest.mark.usefixtures("server")
def test_every_tint_is_one_a_terminal_has() -> None:
    assert set(CONTEXT_COLORS) == set(_COLOR_CODES)
