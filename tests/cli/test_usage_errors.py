"""Words that cannot be right: each is refused in a line and a hint, and none is a traceback or a lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.cli.subprocess_cli import cli_process as cli_process

if TYPE_CHECKING:
    from tests.support.seeds.dead_letters import DeadLetterSeeder

pytestmark = [
    pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True),
    pytest.mark.usefixtures("cli_on_server"),
]
HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("dlq", "peek", "{q}", "--limit", HUGE), 2, "--limit"),
        (("dlq", "peek", "{q}", "--scan", HUGE), 2, "--scan"),
        (("dlq", "replay", "{q}", "--rps", "nan", "-y"), 2, "--rps"),
        (("dlq", "replay", "{q}", "--rps", "inf", "-y"), 2, "--rps"),
        (("dlq", "replay", "{q}", "--canary", HUGE, "-y"), 2, "--canary"),
        (("delayed", "list", "{q}", "--limit", HUGE), 2, "--limit"),
        (("repeatable", "list", "{q}", "--limit", HUGE), 2, "--limit"),
        (("workers", "claim", "{q}", "--limit", HUGE), 2, "--limit"),
        (("rsmq", "peek", "{q}", "--limit", HUGE), 2, "--limit"),
        (("joblist", "list", "{q}", "--limit", HUGE), 2, "--limit"),
        (("watch", "{q}", "--count", HUGE), 2, "--count"),
        (("log", "--limit", HUGE), 2, "--limit"),
        (("add", "{q}", "1", "--rps", "inf"), 2, "--rps"),
        (("add", "{q}", "1", "--cap", HUGE), 2, "--cap"),
        (("add", "{q}", "1e400"), 2, "beyond what a number can hold"),
        (("add", "{q}", "[-1e999]"), 2, "beyond what a number can hold"),
        (("add", "{q}", "1", "--delay", f"{HUGE}d"), 2, "--max-delay"),
        (("add", "{q}", "1", "--attempts", "99999999999"), 2, "chasqui add --help"),
        (("repeatable", "upsert", "{q}", "x", "--every", "0s", "-y"), 2, "chasqui repeatable --help"),
        (("delayed", "move", "{q}", "--all", "--to", "never", "-y"), 2, "never"),
        (("delayed", "move", "{q}", "--all", "--by", "soon", "-y"), 2, "soon"),
        (("inspect", "{q}", "-u", "redis://\x9b2J"), 1, "cannot find the host"),
        (("inspect", "{q}", "-u", f"redis://{'a' * 70}.example"), 1, "cannot find the host"),
    ],
)
def test_it_is_refused_in_words(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, words: tuple[str, ...], code: int, message: str
) -> None:
    assert_error(cli(*(word.format(q=dead_letter_seeder.queue) for word in words)), code, message)
    assert not dead_letter_seeder.command("EXISTS", dead_letter_seeder.keys.stream)
    assert cli.operations() == []


@pytest.mark.parametrize("verb", ["dlq peek", "dlq groups", "delayed list", "delayed histogram", "repeatable list"])
def test_a_queue_that_is_not_there_does_not_look_like_an_empty_one(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, verb: str
) -> None:
    looked = cli(*verb.split(), dead_letter_seeder.queue)
    assert looked.code == 0
    assert f"there is nothing of a queue named '{dead_letter_seeder.queue}'" in looked.err
    cli("add", dead_letter_seeder.queue, "1")
    assert "nothing of a queue" not in cli(*verb.split(), dead_letter_seeder.queue).err


@pytest.mark.parametrize(("file", "message"), [("/nowhere", "spelled right"), ("/tmp", "name a file in it")])
def test_a_path_that_is_not_a_file_is_an_error(
    cli: InProcessCli, cli_process: SubprocessCli, file: str, message: str
) -> None:
    assert_error(cli_process("add", "q", "--file", file, "-u", cli.url), 1, message)


def test_one_is_not_counted_as_many(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    dead_letter_seeder.add_dead_letter("one", {"n": 1})
    assert (
        f"would purge 1 dead letter of {dead_letter_seeder.queue}\n"
        in cli("dlq", "purge", dead_letter_seeder.queue, "--dry-run").err
    )
    dead_letter_seeder.add_dead_letter("two", {"n": 2})
    assert (
        f"would purge 2 dead letters of {dead_letter_seeder.queue}\n"
        in cli("dlq", "purge", dead_letter_seeder.queue, "--dry-run").err
    )


def test_what_an_undo_could_not_take_back_is_reported_with_the_reason(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    cli("add", dead_letter_seeder.queue, "1")
    dead_letter_seeder.command("DEL", dead_letter_seeder.keys.stream)
    undone = cli("undo", cli.operations()[0], "-y")
    assert undone.code == 3
    assert "gone: it is not where the change put it" in undone.err


@pytest.mark.parametrize(
    "words",
    [("inspect", "{q}"), ("watch", "{q}", "--count", "1"), ("metrics", "{q}"), ("why", "x", "--queue", "{q}"), ("job", "show", "{q}", "x")],
)  # fmt: skip
def test_a_place_that_something_else_has_taken_is_not_shown_as_empty(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, words: tuple[str, ...]
) -> None:
    dead_letter_seeder.command("SET", dead_letter_seeder.keys.stream, "a text")
    looked = cli(*(word.format(q=dead_letter_seeder.queue) for word in words))
    assert f"{dead_letter_seeder.keys.stream} holds a string where a stream belongs" in looked.err


def test_an_add_that_failed_offers_nothing_to_take_back(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    dead_letter_seeder.command("SET", dead_letter_seeder.keys.stream, "a text")
    failed = cli("add", dead_letter_seeder.queue, "1")
    assert_error(failed, 1, "WRONGTYPE", "chasqui doctor")


@pytest.mark.parametrize("how", ["table", "json", "csv", "yaml"])
def test_times_beyond_every_calendar_are_shown_and_not_made(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, how: str
) -> None:
    dead_letter_seeder.command(
        "ZADD", dead_letter_seeder.keys.delayed, 10**18, b"\x03\x00\x00\x00job\x94\xa3far\xc4\x01\x01\x00\x00"
    )
    dead_letter_seeder.command(
        "ZADD",
        dead_letter_seeder.keys.delayed,
        "-1e18",
        b"\x03\x00\x00\x00job\x94\xa3old\xc4\x01\x01\x00\x00",
    )
    dead_letter_seeder.command(
        "ZADD", dead_letter_seeder.keys.delayed, "inf", b"\x03\x00\x00\x00job\x94\xa3end\xc4\x01\x01\x00\x00"
    )
    for verb in ("delayed list", "delayed histogram", "inspect", "doctor", "check"):
        result = cli(*verb.split(), dead_letter_seeder.queue, *(("-o", how) if verb != "check" else ()))
        assert result.code in (0, 2), result
    assert cli("why", "far", "--queue", dead_letter_seeder.queue).code == 0
    moved = cli("delayed", "move", dead_letter_seeder.queue, "far", "--by", "99999999999d", "-y")
    assert_error(moved, 2, "further away")
