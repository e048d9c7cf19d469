"""`repeatable`, on every kind of server."""

from __future__ import annotations

from chasqui.undo import changed_schedules
from chasqui.wire import repeat_spec
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Every, RepeatSpec
from chasqui_cli.commands.repeatable._record import FIRE_SCHEMA, SCHEDULE_SCHEMA
from tests.support.cli.in_process import InProcessCli, has_keys
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.hostile_text import is_harmless
from tests.support.seeds.queue_contents import QueueContents


def undo(contents: QueueContents, cli: InProcessCli, op: str = "op") -> list[str]:
    return list(contents.run(changed_schedules.revert(contents.commands, contents.keys, op, cli.journal())))


def test_schedules_are_stored_listed_run_and_removed(contents: QueueContents, cli: InProcessCli) -> None:
    stored = cli(
        "repeatable", "upsert", contents.queue, "tick", "--cron", "0 9 * * MON-FRI", "--tz", "Europe/Madrid",
        "--data", '{"a": {"$bin": "00"}}', "--key", "k", "--limit", "5", "--missed", "fire-all:3", "-y", "-o", "json",
    )  # fmt: skip
    assert stored.code == 0, stored.err
    assert stored.json["outcome"] == "created"
    assert "at 09:00, on Monday to Friday (Europe/Madrid)" in stored.err
    [listed] = cli("repeatable", "list", contents.queue, "-o", "json").json
    assert has_keys(listed, SCHEDULE_SCHEMA)
    assert listed == {
        "key": "k",
        "name": "tick",
        "pattern": {
            "kind": "cron",
            "expression": "0 9 * * MON-FRI",
            "tz": "Europe/Madrid",
            "interval_ms": None,
        },
        "next_fire_ms": stored.json["next_fire_ms"],
        "limit": 5,
        "fired": 0,
        "start_after_ms": None,
        "end_before_ms": None,
        "missed_fires": {"kind": "fire-all", "max_catchup": 3},
    }
    assert cli("repeatable", "list", contents.queue, "-o", "jsonl").lines == [listed]
    before = (
        contents.command("ZSCORE", contents.keys.repeat, "k"),
        contents.command("HGETALL", contents.keys.repeat_spec("k")),
    )
    ran = cli("repeatable", "run", contents.queue, "k", "-y", "-o", "json").json
    [(entry_id, fields)] = contents.command("XRANGE", contents.keys.stream, "-", "+")
    assert (ran["entry_id"], fields[3]) == (entry_id.decode(), b"tick")
    assert (
        contents.command("ZSCORE", contents.keys.repeat, "k"),
        contents.command("HGETALL", contents.keys.repeat_spec("k")),
    ) == before
    replaced = cli("repeatable", "upsert", contents.queue, "tock", "--every", "60s", "--key", "k", "-y", "-o", "json")
    assert replaced.json["outcome"] == "replaced"
    assert "instead of: at 09:00" in replaced.err
    assert undo(contents, cli) == ["restored"]
    assert cli("repeatable", "list", contents.queue, "-o", "json").json == [listed]
    removed = cli("repeatable", "remove", contents.queue, "k", "-y", "-o", "jsonl")
    assert [one["outcome"] for one in removed.lines] == ["removed"]
    assert undo(contents, cli, "op-2") == ["restored"]
    assert cli("repeatable", "list", contents.queue, "-o", "json").json == [listed]
    table = cli("repeatable", "list", contents.queue).out
    assert "at 09:00, on Monday to Friday (Europe/Madrid)" in table


def test_schedules_that_are_late_or_broken_are_marked(contents: QueueContents, cli: InProcessCli) -> None:
    spec = RepeatSpec("late", "n", Every(1000), from_data(1))
    contents.command("ZADD", contents.keys.repeat, contents.now_ms() - 90_000, "late")
    contents.command("HSET", contents.keys.repeat_spec("late"), "spec", repeat_spec.encode(spec))
    contents.command("ZADD", contents.keys.repeat, contents.now_ms() + 90_000, b"\xff\x1b")
    schedules = cli("repeatable", "list", contents.queue, "-o", "json").json
    assert all(has_keys(record, SCHEDULE_SCHEMA) for record in schedules)
    assert 90_000 <= schedules[0]["overdue_ms"] < 120_000
    assert schedules[1]["undecodable"] == "only its place in the schedule is left"
    table = cli("repeatable", "list", contents.queue).out
    assert "OVERDUE 1m30s" in table
    assert "unreadable: only its place" in table
    assert is_harmless(table)
    assert cli("repeatable", "remove", contents.queue, schedules[1]["key"], "-y").code == 0
    assert contents.command("ZCARD", contents.keys.repeat) == 1


def test_a_preview_needs_no_server_and_knows_about_clocks(cli: InProcessCli) -> None:
    words = ("repeatable", "preview", "--cron", "30 2 * * *", "--tz", "Europe/Madrid", "--from", "2027-03-27")
    result = cli(*words, "-n", "3", "-o", "json")
    assert result.code == 0, result.err
    assert all(has_keys(record, FIRE_SCHEMA) for record in result.json)
    assert result.json[1]["note"] == "clocks go forward at 02:00: 02:30 does not exist that day, fires at 03:00"
    assert result.json[1]["local"] == "Sun 2027-03-28 03:00:00 CEST"
    assert "at 02:30, every day (Europe/Madrid)" in result.err
    assert len(cli("repeatable", "preview", "--every", "90s", "-n", "4", "-o", "jsonl").lines) == 4
    for wrong in (
        (),
        ("--cron", "x"),
        ("--every", "1s", "--cron", "* * * * *"),
        ("--every", "1s", "--tz", "UTC"),
    ):
        assert cli("repeatable", "preview", *wrong).code == 2


def test_a_preview_of_a_stored_schedule_goes_on_from_its_next_fire(
    any_contents: QueueContents, cli: InProcessCli
) -> None:
    cli("repeatable", "upsert", any_contents.queue, "n", "--every", "60s", "--limit", "3", "--key", "k", "-y")
    any_contents.command("HSET", any_contents.keys.repeat_spec("k"), "fired", 1)
    fires = cli("repeatable", "preview", any_contents.queue, "k", "-o", "json").json
    first = round(float(any_contents.command("ZSCORE", any_contents.keys.repeat, "k")))
    assert [record["fire_ms"] for record in fires] == [first, first + 60_000], "two of three are left"


def test_repeatable_refuses_what_cannot_be_right(any_contents: QueueContents, cli: InProcessCli) -> None:
    upsert = ("repeatable", "upsert", any_contents.queue, "n")
    assert_error(cli(*upsert), 2, "--cron")
    assert_error(cli(*upsert, "--cron", "61 * * * *", "-y"), 2, "invalid cron expression")
    assert_error(cli(*upsert, "--cron", "* * * * *", "--tz", "Mars/One", "-y"), 2, "unsupported timezone")
    assert_error(cli(*upsert, "--every", "1s", "--missed", "maybe", "-y"), 2, "missed fires")
    assert_error(cli(*upsert, "--every", "1h", "--end-before", "1m", "-y"), 2, "first fire")
    assert_error(cli(*upsert, "--every", "1s", "--data", "{", "-y"), 2, "no JSON")
    assert cli(*upsert, "--every", "1s").code == 5
    dry = cli(*upsert, "--every", "1s", "--dry-run", "--read-only", "-o", "json")
    assert (dry.code, dry.json["outcome"]) == (0, "would create")
    assert_error(cli("repeatable", "remove", any_contents.queue, "nope", "-y"), 4, "no schedule nope")
    assert_error(cli("repeatable", "run", any_contents.queue, "nope", "-y"), 4)
    assert not any_contents.command("EXISTS", any_contents.keys.repeat)
