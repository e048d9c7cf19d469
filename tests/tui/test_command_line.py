"""Command lines: their words, and which of them the dashboard runs at once, after consent, or not at all."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from textual.widgets import Input

from chasqui_cli.tui.command_line import add_options, command_words, inspect_line, shell_quote
from chasqui_cli.tui.command_runner import CommandRunner
from tests.support.seeds import hostile_text
from tests.tui.test_late_input import hasty, opened


def test_a_line_can_be_pasted_whatever_it_is_about() -> None:
    for text in (*hostile_text.HOSTILE_TEXTS.values(), "plain", "it's", "a b", "-x", "\udcff"):
        word = (
            text.replace("\0", "")
            .encode("utf-8", "surrogateescape" if "\udcff" in text else "surrogatepass")
            .decode("utf-8", "surrogateescape")
        )
        shown = shell_quote(word)
        assert shown.isprintable() or "\u00a0" in shown
        printed = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True).stdout
        assert printed == word.encode("utf-8", "surrogateescape"), shown


def test_names_that_look_like_options_stand_behind_two_dashes() -> None:
    words = command_words("dlq purge", "-queue", "1-0", limit=3)
    assert words == ["dlq", "purge", "--limit", "3", "--", "-queue", "1-0"]
    assert add_options(words, "--yes") == ["dlq", "purge", "--limit", "3", "--yes", "--", "-queue", "1-0"]
    runner = CommandRunner({}, ["--context", "prod"])
    assert runner.display_text(words) == "chasqui dlq purge --limit 3 --context prod -- -queue 1-0"
    assert shlex.split(runner.display_text(["why", "a b"]))[2] == "a b"
    assert runner.display_text(["log"]) == "chasqui log", "it has no server to choose"


def test_which_lines_are_run_from_here() -> None:
    assert inspect_line(["dlq", "purge", "q"]).is_change
    assert not inspect_line(["dlq", "purge", "q", "--dry-run"]).is_change
    assert not inspect_line(["dlq", "peek", "q"]).is_change
    assert not inspect_line(["rsmq", "doctor", "q"]).is_change
    assert inspect_line(["rsmq", "doctor", "q", "--repair"]).is_change
    for line in ("inspect", "dlq", "dlq --help", "inspect -h", "rsmq queue"):
        assert inspect_line(line.split()).refusal(is_web=True) is None, line
    assert inspect_line([]).refusal(is_web=False)
    for line in (
        *(
            "worker run a:b",
            "top",
            "demo",
            "metrics",
            "server stop",
            "events --follow",
            "events -qf",
            "promote q --follow",
        ),
        *("context use x", "context set x url=redis://other", "pipeline down"),
        *("rsmq queue create -n q", "rsmq message pop -n q"),
    ):
        assert "terminal of its own" in (inspect_line(line.split()).refusal(is_web=False) or ""), line
    for line in ("context list", "log", "dlq export q", "dlq import q /any/file", "add q -f/any/file"):
        assert inspect_line(line.split()).refusal(is_web=False) is None, line


@pytest.mark.parametrize(
    "line",
    [
        "inspect -u redis://other",
        "inspect --redis-url=x",
        "inspect -uredis://other:6379",
        "inspect -qu redis://other",
        "inspect --tls-insecure",
        "inspect --context prod",
        "dlq export q --file=/etc/x",
        "dlq import q /any/file",
        "add q -f/any/file",
        "rsmq import q /any/file",
        "migrate rsmq://a chasqui://b --to-url redis://other",
        "pipeline produce q /any/file --id-field id",
        "context list",
        "context use x",
        "log",
    ],
)
async def test_a_browser_gets_no_other_server_and_no_files(line: str) -> None:
    assert inspect_line(line.split()).refusal(is_web=True), line
    async with hasty(is_web=True) as (person, runner):
        await person.press("colon")
        await person.type(line)
        await person.press("enter")
        await person.settle()
        assert len(person.app.screen_stack) == 1, "no window opened"
        assert len(person.app._notifications) == 1, "the reason is shown"
        assert not runner.all_lines


@pytest.mark.parametrize(
    ("line", "queue"), [("dlq purge q --yes --note --dry-run", "q"), ("add q {} --name --dry-run", "q")]
)
async def test_a_value_that_looks_like_a_dry_run_is_none(line: str, queue: str) -> None:
    assert inspect_line(line.split()).is_change
    async with hasty() as (person, runner):
        await person.press("colon")
        await person.type(line)
        await person.press("enter")
        await person.wait_for_preview()
        assert not runner.begun, "it is asked first"
        [tried] = runner.all_lines
        assert inspect_line(tried).values["dry_run"] is True


@pytest.mark.parametrize(
    "line",
    [
        "dlq purge",
        "dlq purge q --note",
        "dlq purge q --note -- 1-0",
        "dlq nothing",
        "nothing",
        "dlq -- purge q",
        "inspect --nothing",
    ],
)
async def test_a_mistake_is_reported_before_a_window_opens(line: str) -> None:
    async with hasty() as (person, runner):
        await person.press("colon")
        await person.type(line)
        await person.press("enter")
        await person.settle()
        assert len(person.app.screen_stack) == 1
        assert len(person.app._notifications) == 1
        assert not runner.all_lines


@pytest.mark.parametrize("options", ["--note", "--yes --note", "-uredis://other", "--url-file /any/file", "--nothing"])
async def test_options_typed_in_a_dialog_are_judged_like_a_line(options: str) -> None:
    async with hasty(is_web=True) as (person, runner):
        dialog = await opened(person)
        tried = list(runner.all_lines)
        field = dialog.query_one("#options", Input)
        field.value = options
        field.focus()
        await person.press("enter")
        await person.wait_for_text("options:")
        await person.press("y")
        await person.settle()
        assert runner.all_lines == tried, "neither tried nor done"


async def test_the_key_that_lists_dead_letters_lists_them() -> None:
    async with hasty() as (person, runner):
        await person.press("l")
        await person.wait_until(lambda: runner.all_lines, "a command ran")
        assert runner.all_lines[0][:2] == ["dlq", "peek"]
