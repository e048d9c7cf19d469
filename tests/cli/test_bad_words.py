"""Words that cannot be right: each is refused in a line and a hint, and none is a traceback or a lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.shell import Shell, assert_complains
from tests.cli.shell import shell as shell
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside
from tests.cli.yard import yard as yard

if TYPE_CHECKING:
    from tests.cli.seed_dead import Yard

pytestmark = pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)
HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    ("words", "code", "said"),
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
    inside: Inside, yard: Yard, words: tuple[str, ...], code: int, said: str
) -> None:
    assert_complains(inside(*(word.format(q=yard.queue) for word in words)), code, said)
    assert not yard.say("EXISTS", yard.keys.stream)
    assert inside.operations() == []


@pytest.mark.parametrize(
    "verb", ["dlq peek", "dlq groups", "delayed list", "delayed histogram", "repeatable list"]
)
def test_a_queue_that_is_not_there_does_not_look_like_an_empty_one(
    inside: Inside, yard: Yard, verb: str
) -> None:
    looked = inside(*verb.split(), yard.queue)
    assert looked.code == 0
    assert f"there is nothing of a queue named '{yard.queue}'" in looked.err
    inside("add", yard.queue, "1")
    assert "nothing of a queue" not in inside(*verb.split(), yard.queue).err


@pytest.mark.parametrize(("file", "said"), [("/nowhere", "spelled right"), ("/tmp", "name a file in it")])
def test_a_file_that_is_none_is_told_as_that(inside: Inside, shell: Shell, file: str, said: str) -> None:
    assert_complains(shell("add", "q", "--file", file, "-u", inside.url), 1, said)


def test_one_is_not_told_as_many(inside: Inside, yard: Yard) -> None:
    yard.bury("one", {"n": 1})
    assert (
        f"would purge 1 dead letter of {yard.queue}\n" in inside("dlq", "purge", yard.queue, "--dry-run").err
    )
    yard.bury("two", {"n": 2})
    assert (
        f"would purge 2 dead letters of {yard.queue}\n" in inside("dlq", "purge", yard.queue, "--dry-run").err
    )


def test_what_an_undo_could_not_take_back_is_told_with_the_reason(inside: Inside, yard: Yard) -> None:
    inside("add", yard.queue, "1")
    yard.say("DEL", yard.keys.stream)
    undone = inside("undo", inside.operations()[0], "-y")
    assert undone.code == 3
    assert "gone: it is not where the change put it" in undone.err


@pytest.mark.parametrize(
    "words",
    [("inspect", "{q}"), ("watch", "{q}", "--count", "1"), ("metrics", "{q}"), ("why", "x", "--queue", "{q}"), ("job", "show", "{q}", "x")],
)  # fmt: skip
def test_a_place_that_something_else_has_taken_is_not_told_as_empty(
    inside: Inside, yard: Yard, words: tuple[str, ...]
) -> None:
    yard.say("SET", yard.keys.stream, "a text")
    looked = inside(*(word.format(q=yard.queue) for word in words))
    assert f"{yard.keys.stream} holds a string where a stream belongs" in looked.err


def test_an_add_that_failed_offers_nothing_to_take_back(inside: Inside, yard: Yard) -> None:
    yard.say("SET", yard.keys.stream, "a text")
    failed = inside("add", yard.queue, "1")
    assert_complains(failed, 1, "WRONGTYPE", "chasqui doctor")


@pytest.mark.parametrize("how", ["table", "json", "csv", "yaml"])
def test_times_beyond_every_calendar_are_shown_and_not_made(inside: Inside, yard: Yard, how: str) -> None:
    yard.say("ZADD", yard.keys.delayed, 10**18, b"\x03\x00\x00\x00job\x94\xa3far\xc4\x01\x01\x00\x00")
    yard.say("ZADD", yard.keys.delayed, "-1e18", b"\x03\x00\x00\x00job\x94\xa3old\xc4\x01\x01\x00\x00")
    yard.say("ZADD", yard.keys.delayed, "inf", b"\x03\x00\x00\x00job\x94\xa3end\xc4\x01\x01\x00\x00")
    for verb in ("delayed list", "delayed histogram", "inspect", "doctor", "check"):
        told = inside(*verb.split(), yard.queue, *(("-o", how) if verb != "check" else ()))
        assert told.code in (0, 2), told
    assert inside("why", "far", "--queue", yard.queue).code == 0
    moved = inside("delayed", "move", yard.queue, "far", "--by", "99999999999d", "-y")
    assert_complains(moved, 2, "further away")
