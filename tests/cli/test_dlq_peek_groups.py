"""`chasqui dlq peek` and `dlq groups` on real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui_cli.commands.dlq._record import DEAD_LETTER_SCHEMA
from chasqui_cli.commands.dlq.groups import GROUP_SCHEMA
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.dead_letters import GARBAGE, RETRY, DeadLetterSeeder, seed_every_kind

CLOCK = SystemClock()
PEEK_KEYS = "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_peek_shows_every_letter_newest_first_in_the_shape_scripts_rely_on(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    ended = cli("dlq", "peek", dead_letter_seeder.queue, "-o", "jsonl")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.lines
    assert [line["dlq_id"] for line in lines] == list(reversed(ids.values()))
    assert all(list(line) == PEEK_KEYS.split() == list(DEAD_LETTER_SCHEMA) for line in lines)
    assert cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json").json == lines
    found = {line["dlq_id"]: line for line in lines}
    with_detail, without_detail = found[ids["told"]], found[ids["untold"]]
    assert (with_detail["error"], with_detail["detail"]) == ("timeout after 31 s", "timeout after 31 s")
    assert (without_detail["error"], without_detail["detail"]) == ("card 4711 declined", None)
    assert without_detail["data"] == {"to": "bob", "blob": {"$bin": "c0ff"}}
    assert without_detail["retry"]["max_attempts"] == RETRY.max_attempts
    assert (without_detail["attempt"], without_detail["created_at_ms"]) == (24, 1_700_000_000_000)


def test_what_cannot_be_decoded_is_shown_with_its_bytes_and_the_reason(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    lines = cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json", "--where", "undecodable").json
    found = {line["dlq_id"]: line for line in lines}
    assert set(found) == {ids["garbage"], ids["inner"]}
    garbage, inner = found[ids["garbage"]], found[ids["inner"]]
    assert garbage["data"] == {"$bin": GARBAGE.hex()}
    assert garbage["undecodable"] == "not msgpack: byte 0xc1"
    assert (inner["id"], inner["data"]) == ("inner", {"$bin": "c1"})
    assert inner["undecodable"].startswith("payload: ")


def test_a_table_is_followed_by_the_reasons_and_json_is_not(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    table = cli("dlq", "peek", dead_letter_seeder.queue, "--limit", "1")
    assert "reasons of 6 dead letters: retries_exhausted 4 · " in table.err
    assert table.out.splitlines()[0].split()[:4] == ["DLQ_ID", "DIED", "NAME", "ID"]
    assert len(table.out.splitlines()) == 2
    assert cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json").err == ""
    assert cli("dlq", "peek", dead_letter_seeder.queue, "-q").err == ""


def test_secrets_are_covered_unless_asked_for(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed_every_kind(dead_letter_seeder)
    dead_letter_seeder.add_dead_letter("bearer", detail="401 for Authorization: Bearer abcdef123456")
    for output in ("table", "wide", "json", "jsonl", "yaml", "csv"):
        shown = cli("dlq", "peek", dead_letter_seeder.queue, "-o", output).out
        assert "hunter2" not in shown
        assert "abcdef123456" not in shown
    whole = cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json", "--show-secrets").out
    assert "hunter2" in whole
    assert "abcdef123456" in whole


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--oldest", "--limit", "2"), ["told", "untold"]),
        (("--name", "ch*"), ["untold"]),
        (("--reason", "unrecoverable"), ["secret"]),
        (("--where", "data.to == 'bob'"), ["untold"]),
        (("--where", "data.password == 'hunter2'"), ["secret"]),
        (("--where", "attempt < `20`"), ["inner"]),
        (("--where", "error && contains(error, 'declined')"), ["untold"]),
        (("--where", "contains(to_string(@), 'declined')"), ["untold"]),
        (("--where", "data == `[1, 2, 3]`", "--reason", "retries_exhausted"), ["late"]),
        (("--since", "1h", "--until", "30m"), []),
        (("--until", "@1-0"), []),
        (("--scan", "2"), ["late", "inner"]),
    ],
)
@one_server
def test_filters_choose(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, words: tuple[str, ...], expected: list[str]
) -> None:
    seed_every_kind(dead_letter_seeder)
    ended = cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json", *words)
    assert [line["id"] for line in ended.json] == expected
    assert ("looked at 2 dead letters and no further" in ended.err) is ("--scan" in words)


@one_server
def test_since_and_until_bound_by_the_time_of_death(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    at = f"@{ids['garbage']}"
    since = {line["dlq_id"] for line in cli("dlq", "peek", dead_letter_seeder.queue, "-o", "json", "--since", at).json}
    ms = int(ids["garbage"].split("-")[0])
    assert since == {one for one in ids.values() if int(one.split("-")[0]) >= ms}


@one_server
@pytest.mark.usefixtures("cli_on_server")
def test_a_queue_that_is_not_there_is_empty_and_that_is_printed(cli: InProcessCli, queue: str) -> None:
    assert cli("dlq", "peek", queue, "-o", "json").json == []
    ended = cli("dlq", "peek", queue)
    assert ended.code == 0
    assert "there is nothing of a queue named" in ended.err


@one_server
def test_a_wrong_expression_is_a_usage_error(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    assert_error(cli("dlq", "peek", dead_letter_seeder.queue, "--where", "data.to =="), 2, "--where")
    assert_error(cli("dlq", "peek", dead_letter_seeder.queue, "--since", "soon"), 2)


def test_groups_put_failures_of_one_cause_together(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    groups = cli("dlq", "groups", dead_letter_seeder.queue, "-o", "json").json
    assert all(list(group) == list(GROUP_SCHEMA) for group in groups)
    assert groups[0] == {
        "count": 2,
        "name": "mail",
        "reason": "retries_exhausted",
        "error": "timeout after <n> s",
        "first_seen_ms": int(ids["told"].split("-")[0]),
        "last_seen_ms": int(ids["late"].split("-")[0]),
        "sample_dlq_id": ids["late"],
        "sample_id": "late",
    }
    assert sum(group["count"] for group in groups) == len(ids)
    assert "card <n> declined" in {group["error"] for group in groups}
    assert cli("dlq", "groups", dead_letter_seeder.queue).err == "6 dead letters in 5 groups\n"


def test_an_expression_about_the_job_and_rules_about_the_letter_hold_together(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    found = seed_every_kind(dead_letter_seeder)
    where = ("--where", "data.n == `1`")
    for rules in (
        (),
        ("--name", "ma*"),
        ("--reason", "retries_exhausted"),
        ("--where", "attempt == `24` && data.n"),
    ):
        result = cli("dlq", "peek", dead_letter_seeder.queue, *where, *rules, "-o", "name")
        assert result.out.split() == [found["told"]], rules
    assert cli("dlq", "peek", dead_letter_seeder.queue, *where, "--name", "charge", "-o", "name").out == ""
    unreadable = cli("dlq", "peek", dead_letter_seeder.queue, "--where", 'data."$bin" && undecodable', "-o", "name")
    assert set(unreadable.out.split()) == {found["garbage"], found["inner"]}


def test_a_table_counts_runs_from_one_and_programs_get_the_stored_attempt(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    queue = dead_letter_seeder.queue
    [record] = cli("dlq", "peek", queue, "--where", "attempt == `24`", "--limit", "1", "-o", "json").json
    head, row = cli("dlq", "peek", queue, "--where", "attempt == `24`", "--limit", "1").out.splitlines()[:2]
    shown = row[: head.index("ATTEMPT") + len("ATTEMPT")].split()[-1]
    assert (record["attempt"], shown) == (24, "25")
    names, values = cli(
        "dlq", "peek", queue, "--where", "attempt == `24`", "--limit", "1", "-o", "csv"
    ).out.splitlines()[:2]
    assert values.split(",")[names.split(",").index("attempt")] == "24"
