"""The verbs that tend what waits: `delayed`, `promote`, `repeatable`, `schedule`, `workers`, on every kind of server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from chasqui import Link, SyncQueue
from chasqui.operate import delayed_jobs
from chasqui.schedule import repeatable
from chasqui.wire import repeat_spec
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Every, RepeatSpec
from chasqui_cli.commands.delayed._record import BUCKET_SCHEMA, CHANGE_SCHEMA, DELAYED_SCHEMA
from chasqui_cli.commands.promote import PROMOTE_SCHEMA
from chasqui_cli.commands.repeatable._record import FIRE_SCHEMA, SCHEDULE_SCHEMA
from chasqui_cli.commands.schedule import SCHEDULE_SCHEMA as SCHEDULE_TICK_SCHEMA
from chasqui_cli.commands.workers import CLAIM_SCHEMA, CONSUMER_SCHEMA, PRUNE_SCHEMA
from chasqui_cli.output.json_schema import OptionalKey
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.seeds.hostile_text import is_harmless
from tests.support.seeds.queue_contents import QueueContents
from tests.support.servers.server import Server


@pytest.fixture
def lab(server: Server, cli: InProcessCli, queue: str) -> QueueContents:
    cli.url = server.url
    return QueueContents(Link.open(server.url), queue)


@pytest.fixture
def any_lab(any_server: Server, cli: InProcessCli, queue: str) -> QueueContents:
    cli.url = any_server.url
    return QueueContents(Link.open(any_server.url), queue)


def fits(record: dict[str, Any], shape: dict[str, Any]) -> bool:
    """Whether a record has exactly the keys of its shape."""
    needed = {name for name, part in shape.items() if not isinstance(part, OptionalKey)}
    return needed <= set(record) <= set(shape)


def delay_some(lab: QueueContents) -> None:
    """One with an id, two without, and one that is no job."""
    queue = SyncQueue(lab.queue, link=lab.link)
    queue.add("mail", {"to": "x", "password": "s3cret"}, delay_ms=600_000, job_id="named")
    queue.add("mail", {"to": "y"}, delay_ms=1_200_000)
    queue.add("report", [1], delay_ms=7_200_000)
    lab.command("ZADD", lab.keys.delayed, lab.now_ms() + 9_000_000, b"gar\x1bbage")


def undo(lab: QueueContents, inside: InProcessCli, op: str = "op") -> list[str]:
    items = inside.journal()
    flow = {"delayed": delayed_jobs.revert, "spec": repeatable.revert}[items[0]["kind"]]
    return list(lab.run(flow(lab.commands, lab.keys, op, items)))


# delayed


def test_delayed_jobs_are_listed_in_every_format(lab: QueueContents, cli: InProcessCli) -> None:
    delay_some(lab)
    listed = cli("delayed", "list", lab.queue, "-o", "json")
    assert listed.code == 0
    first, second, third, odd = listed.json
    assert all(fits(record, DELAYED_SCHEMA) for record in listed.json)
    assert (first["id"], first["name"], first["data"]) == (
        "named",
        "mail",
        {"to": "x", "password": "«redacted»"},
    )
    assert (third["data"], odd["id"], odd["hex"]) == ([1], None, b"gar\x1bbage".hex())
    assert "no readable form" in odd["undecodable"]
    assert first["run_at_ms"] < second["run_at_ms"] < third["run_at_ms"] < odd["run_at_ms"]
    assert cli("delayed", "list", lab.queue, "-o", "jsonl").lines == listed.json
    assert cli("delayed", "list", lab.queue, "-o", "name").out.split() == [one["ref"] for one in listed.json]
    table = cli("delayed", "list", lab.queue).out.splitlines()
    assert table[0].split() == ["ID", "NAME", "DUE", "ATTEMPT", "DATA", "UNDECODABLE"]
    assert len(table) == 5
    secret = cli("delayed", "list", lab.queue, "named", "--show-secrets", "-o", "json").json
    assert secret[0]["data"]["password"] == "s3cret"
    due = cli("delayed", "list", lab.queue, "--until", "1h", "--name", "ma*", "-o", "jsonl").lines
    assert [one["name"] for one in due] == ["mail", "mail"]
    chosen = cli("delayed", "list", lab.queue, "--where", "data.to == 'y'", "-o", "jsonl").lines
    assert [one["data"] for one in chosen] == [{"to": "y"}]


def test_the_histogram_tells_when_jobs_fall_due(lab: QueueContents, cli: InProcessCli) -> None:
    delay_some(lab)
    lab.command("ZADD", lab.keys.delayed, lab.now_ms() - 5000, "late")
    told = cli("delayed", "histogram", lab.queue, "-o", "json")
    assert all(fits(record, BUCKET_SCHEMA) for record in told.json)
    assert (told.json[0]["from_ms"], told.json[0]["jobs"]) == (None, 1)
    assert sum(record["jobs"] for record in told.json) == 5
    assert re.search(r"\d jobs? falls? due \d{4}-", told.err)
    table = cli("delayed", "histogram", lab.queue, "--step", "10m").out
    assert "overdue" in table
    assert "█" in table
    assert cli("delayed", "histogram", f"{lab.queue}-none", "-o", "json").json == []


def test_jobs_are_run_now_and_put_back_while_nobody_has_read_them(lab: QueueContents, cli: InProcessCli) -> None:
    delay_some(lab)
    done = cli("delayed", "now", lab.queue, "--name", "mail", "-y", "-o", "json")
    assert done.code == 0, done.err
    assert all(fits(record, CHANGE_SCHEMA) for record in done.json)
    assert [record["outcome"] for record in done.json] == ["ran", "ran"]
    stored = [entry_id.decode() for entry_id, _ in lab.command("XRANGE", lab.keys.stream, "-", "+")]
    assert [record["entry_id"] for record in done.json] == stored
    assert undo(lab, cli) == ["restored", "restored"]
    assert (lab.command("XLEN", lab.keys.stream), lab.command("ZCARD", lab.keys.delayed)) == (0, 4)
    assert SyncQueue(lab.queue, link=lab.link).cancel_delayed("named"), "its id finds it again"


def test_jobs_are_cancelled_by_their_bytes_and_put_back(lab: QueueContents, cli: InProcessCli) -> None:
    delay_some(lab)
    before = lab.command("ZRANGE", lab.keys.delayed, 0, -1, "WITHSCORES")
    done = cli("delayed", "cancel", lab.queue, "--all", "--yes", "-o", "jsonl")
    assert [record["outcome"] for record in done.lines] == ["cancelled"] * 4
    assert not lab.command("EXISTS", lab.keys.delayed)
    assert undo(lab, cli) == ["restored"] * 4
    assert lab.command("ZRANGE", lab.keys.delayed, 0, -1, "WITHSCORES") == before
    odd = cli("delayed", "list", lab.queue, "-o", "json").json[3]["ref"]
    assert cli("delayed", "cancel", lab.queue, odd, "named", "-y").code == 0
    assert lab.command("ZCARD", lab.keys.delayed) == 2


def test_jobs_are_moved_and_put_back(lab: QueueContents, cli: InProcessCli) -> None:
    delay_some(lab)
    [before] = cli("delayed", "list", lab.queue, "named", "-o", "json").json
    [moved] = cli("delayed", "move", lab.queue, "named", "--by", "1h", "-y", "-o", "json").json
    assert (moved["outcome"], moved["moved_to_ms"]) == ("moved", before["run_at_ms"] + 3_600_000)
    [after] = cli("delayed", "list", lab.queue, "named", "-o", "json").json
    assert after["run_at_ms"] == moved["moved_to_ms"]
    assert lab.command("TTL", lab.keys.delayed_index("named")) > 3600 + 600
    assert undo(lab, cli) == ["restored"]
    [to] = cli("delayed", "move", lab.queue, "named", "--to", "2031-01-01", "-y", "-o", "json").json
    assert to["moved_to_ms"] == 1_924_992_000_000
    assert cli("delayed", "move", lab.queue, "named", "--by", "-1h", "-y").code == 0


def test_delayed_verbs_refuse_what_is_not_meant(any_lab: QueueContents, cli: InProcessCli) -> None:
    delay_some(any_lab)
    queue = any_lab.queue
    assert_error(cli("delayed", "cancel", queue), 2, "--all")
    assert_error(cli("delayed", "cancel", queue, "nobody", "-y"), 4, "nobody")
    assert_error(cli("delayed", "move", queue, "named"), 2, "--by")
    assert_error(cli("delayed", "move", queue, "named", "--by", "1h", "--to", "1h"), 2)
    assert cli("delayed", "cancel", queue, "named").code == 5, "nobody is there to be asked"
    assert cli("delayed", "cancel", queue, "--name", "nothing", "-y").code == 0
    read_only = cli("delayed", "cancel", queue, "named", "-y", "--read-only")
    assert (read_only.code, cli.operations()) == (5, 0)
    dry = cli("delayed", "now", queue, "--all", "--dry-run", "--read-only", "-o", "jsonl")
    assert [one["outcome"] for one in dry.lines] == ["would run"] * 3 + ["undecodable"]
    assert any_lab.command("ZCARD", any_lab.keys.delayed) == 4
    mixed = cli("delayed", "now", queue, "--all", "-y", "-o", "jsonl")
    assert (mixed.code, mixed.lines[-1]["outcome"]) == (3, "undecodable")


def test_the_delayed_are_found_in_few_round_trips(any_lab: QueueContents, cli: InProcessCli) -> None:
    jobs = [{"name": "n", "data": nth, "delay_ms": 600_000, "job_id": f"j{nth}"} for nth in range(700)]
    SyncQueue(any_lab.queue, link=any_lab.link).add_bulk(jobs)
    trips = any_lab.link.round_trips
    found = any_lab.run(
        delayed_jobs.delayed_jobs_by_id(any_lab.commands, any_lab.keys, [f"j{nth}" for nth in range(700)])
    )
    assert (len(found), any_lab.link.round_trips - trips) == (700, 2)
    trips = any_lab.link.round_trips
    any_lab.run(delayed_jobs.read_saved_jobs(any_lab.commands, any_lab.keys, list(found.values())))
    assert any_lab.link.round_trips - trips == 2
    trips = any_lab.link.round_trips
    assert (
        any_lab.run(delayed_jobs.cancel_delayed_jobs(any_lab.commands, any_lab.keys, list(found.values())))
        == [True] * 700
    )
    assert any_lab.link.round_trips - trips <= 3, "one more where the script is new to the server"


# promote, schedule


def test_promoting_moves_all_that_is_due(lab: QueueContents, cli: InProcessCli) -> None:
    jobs = [{"name": "n", "data": nth, "delay_ms": 1} for nth in range(600)]
    SyncQueue(lab.queue, link=lab.link).add_bulk(jobs)
    lab.command("ZADD", lab.keys.delayed, 5, "garbage")
    looked = cli("promote", lab.queue, "--dry-run", "--read-only", "-o", "json").json
    assert (looked["promoted"], lab.command("XLEN", lab.keys.stream)) == (601, 0)
    told = cli("promote", lab.queue, "-o", "json").json
    assert fits(told, PROMOTE_SCHEMA)
    assert (told["promoted"], told["quarantined"], told["left"]) == (600, 1, 0)
    assert lab.command("XLEN", lab.keys.stream) == 600
    assert "promoted" in cli("promote", lab.queue).out
    assert_error(cli("promote", lab.queue, "--read-only"), 5, "read-only")


@pytest.mark.parametrize(("verb", "lock"), [("promote", "promoter_lock"), ("schedule", "scheduler_lock")])
def test_a_lock_without_an_end_is_taken_away_and_one_that_lives_is_not(
    lab: QueueContents, cli: InProcessCli, verb: str, lock: str
) -> None:
    key = getattr(lab.keys, lock)
    lab.command("SET", key, "dead-\x1b[2J", "EX", 60)
    alive = cli(verb, lab.queue, "--force-unlock", "-y")
    assert (alive.code, lab.command("EXISTS", key)) == (5, 1)
    assert is_harmless(alive.err)
    lab.command("PERSIST", key)
    assert cli(verb, lab.queue, "--force-unlock").code == 5, "nobody is there to be asked"
    assert lab.command("EXISTS", key) == 1
    dry = cli(verb, lab.queue, "--force-unlock", "--dry-run")
    assert (dry.code, lab.command("EXISTS", key)) == (0, 1)
    done = cli(verb, lab.queue, "--force-unlock", "-y")
    assert (done.code, lab.command("EXISTS", key)) == (0, 0), done.err
    assert "nobody holds" in cli(verb, lab.queue, "--force-unlock", "-y").err


def test_scheduling_fires_what_is_due_and_tells_what_it_cannot(lab: QueueContents, cli: InProcessCli) -> None:
    queue = SyncQueue(lab.queue, link=lab.link)
    queue.upsert_repeatable_job("tick", {"a": 1}, repeat={"kind": "every", "interval_ms": 3_600_000})
    lab.command("ZADD", lab.keys.repeat, lab.now_ms() - 1000, "tick::every:3600000")
    assert cli("schedule", lab.queue, "--dry-run", "-o", "json").json["overdue"] == 1
    told = cli("schedule", lab.queue, "-o", "json")
    assert fits(told.json, SCHEDULE_TICK_SCHEMA)
    assert (told.code, told.json["fired"], told.json["overdue"]) == (0, 1, 0)
    assert lab.command("XLEN", lab.keys.stream) == 1
    lab.command("ZADD", lab.keys.repeat, 5, "bad")
    lab.command("HSET", lab.keys.repeat_spec("bad"), "spec", b"\xc1")
    odd = cli("schedule", lab.queue, "-o", "json")
    assert (odd.code, [one["key"] for one in odd.json["bad"]]) == (3, ["bad"])


@pytest.mark.parametrize(("verb", "lock"), [("promote", "promoter_lock"), ("schedule", "scheduler_lock")])
def test_a_leader_of_its_own_works_until_it_is_asked_to_end(
    any_server: Server, cli_process: SubprocessCli, queue: str, verb: str, lock: str
) -> None:
    lab = QueueContents(Link.open(any_server.url), queue)
    with subprocess.Popen(
        [sys.executable, "-m", "chasqui_cli", verb, queue, "--follow", "-o", "json", "-u", any_server.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli_process.environment(),
    ) as child:
        assert child.stderr is not None
        assert child.stdout is not None
        for line in child.stderr:
            if b"leader" in line:
                break
        queue_door = SyncQueue(queue, link=lab.link)
        if verb == "promote":
            queue_door.add("n", 1, delay_ms=1)
        else:
            queue_door.upsert_repeatable_job("n", 1, repeat={"kind": "every", "interval_ms": 100})
        while not lab.command("XLEN", lab.keys.stream):
            assert child.poll() is None
        os.kill(child.pid, signal.SIGTERM)
        told = json.loads(child.stdout.read())
        assert child.wait(20) == 0
    assert told["promoted" if verb == "promote" else "fired"] >= 1
    assert not lab.command("EXISTS", getattr(lab.keys, lock)), "the lease is given up"


# repeatable


def test_schedules_are_stored_listed_run_and_removed(lab: QueueContents, cli: InProcessCli) -> None:
    stored = cli(
        "repeatable", "upsert", lab.queue, "tick", "--cron", "0 9 * * MON-FRI", "--tz", "Europe/Madrid",
        "--data", '{"a": {"$bin": "00"}}', "--key", "k", "--limit", "5", "--missed", "fire-all:3", "-y", "-o", "json",
    )  # fmt: skip
    assert stored.code == 0, stored.err
    assert stored.json["outcome"] == "created"
    assert "at 09:00, on Monday to Friday (Europe/Madrid)" in stored.err
    [listed] = cli("repeatable", "list", lab.queue, "-o", "json").json
    assert fits(listed, SCHEDULE_SCHEMA)
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
    assert cli("repeatable", "list", lab.queue, "-o", "jsonl").lines == [listed]
    before = lab.command("ZSCORE", lab.keys.repeat, "k"), lab.command("HGETALL", lab.keys.repeat_spec("k"))
    ran = cli("repeatable", "run", lab.queue, "k", "-y", "-o", "json").json
    [(entry_id, fields)] = lab.command("XRANGE", lab.keys.stream, "-", "+")
    assert (ran["entry_id"], fields[3]) == (entry_id.decode(), b"tick")
    assert (
        lab.command("ZSCORE", lab.keys.repeat, "k"),
        lab.command("HGETALL", lab.keys.repeat_spec("k")),
    ) == before
    replaced = cli("repeatable", "upsert", lab.queue, "tock", "--every", "60s", "--key", "k", "-y", "-o", "json")
    assert replaced.json["outcome"] == "replaced"
    assert "instead of: at 09:00" in replaced.err
    assert undo(lab, cli) == ["restored"]
    assert cli("repeatable", "list", lab.queue, "-o", "json").json == [listed]
    removed = cli("repeatable", "remove", lab.queue, "k", "-y", "-o", "jsonl")
    assert [one["outcome"] for one in removed.lines] == ["removed"]
    assert undo(lab, cli, "op-2") == ["restored"]
    assert cli("repeatable", "list", lab.queue, "-o", "json").json == [listed]
    table = cli("repeatable", "list", lab.queue).out
    assert "at 09:00, on Monday to Friday (Europe/Madrid)" in table


def test_schedules_that_are_late_or_broken_say_so(lab: QueueContents, cli: InProcessCli) -> None:
    spec = RepeatSpec("late", "n", Every(1000), from_data(1))
    lab.command("ZADD", lab.keys.repeat, lab.now_ms() - 90_000, "late")
    lab.command("HSET", lab.keys.repeat_spec("late"), "spec", repeat_spec.encode(spec))
    lab.command("ZADD", lab.keys.repeat, lab.now_ms() + 90_000, b"\xff\x1b")
    told = cli("repeatable", "list", lab.queue, "-o", "json").json
    assert all(fits(record, SCHEDULE_SCHEMA) for record in told)
    assert 90_000 <= told[0]["overdue_ms"] < 120_000
    assert told[1]["undecodable"] == "only its place in the schedule is left"
    table = cli("repeatable", "list", lab.queue).out
    assert "OVERDUE 1m30s" in table
    assert "unreadable: only its place" in table
    assert is_harmless(table)
    assert cli("repeatable", "remove", lab.queue, told[1]["key"], "-y").code == 0
    assert lab.command("ZCARD", lab.keys.repeat) == 1


def test_a_preview_needs_no_server_and_knows_about_clocks(cli: InProcessCli) -> None:
    words = ("repeatable", "preview", "--cron", "30 2 * * *", "--tz", "Europe/Madrid", "--from", "2027-03-27")
    told = cli(*words, "-n", "3", "-o", "json")
    assert told.code == 0, told.err
    assert all(fits(record, FIRE_SCHEMA) for record in told.json)
    assert told.json[1]["note"] == "clocks go forward at 02:00: 02:30 does not exist that day, fires at 03:00"
    assert told.json[1]["local"] == "Sun 2027-03-28 03:00:00 CEST"
    assert "at 02:30, every day (Europe/Madrid)" in told.err
    assert len(cli("repeatable", "preview", "--every", "90s", "-n", "4", "-o", "jsonl").lines) == 4
    for wrong in (
        (),
        ("--cron", "x"),
        ("--every", "1s", "--cron", "* * * * *"),
        ("--every", "1s", "--tz", "UTC"),
    ):
        assert cli("repeatable", "preview", *wrong).code == 2


def test_a_preview_of_a_stored_schedule_goes_on_from_its_next_fire(any_lab: QueueContents, cli: InProcessCli) -> None:
    cli("repeatable", "upsert", any_lab.queue, "n", "--every", "60s", "--limit", "3", "--key", "k", "-y")
    any_lab.command("HSET", any_lab.keys.repeat_spec("k"), "fired", 1)
    told = cli("repeatable", "preview", any_lab.queue, "k", "-o", "json").json
    first = round(float(any_lab.command("ZSCORE", any_lab.keys.repeat, "k")))
    assert [record["fire_ms"] for record in told] == [first, first + 60_000], "two of three are left"


def test_repeatable_refuses_what_cannot_be_right(any_lab: QueueContents, cli: InProcessCli) -> None:
    upsert = ("repeatable", "upsert", any_lab.queue, "n")
    assert_error(cli(*upsert), 2, "--cron")
    assert_error(cli(*upsert, "--cron", "61 * * * *", "-y"), 2, "invalid cron expression")
    assert_error(cli(*upsert, "--cron", "* * * * *", "--tz", "Mars/One", "-y"), 2, "unsupported timezone")
    assert_error(cli(*upsert, "--every", "1s", "--missed", "maybe", "-y"), 2, "missed fires")
    assert_error(cli(*upsert, "--every", "1h", "--end-before", "1m", "-y"), 2, "first fire")
    assert_error(cli(*upsert, "--every", "1s", "--data", "{", "-y"), 2, "no JSON")
    assert cli(*upsert, "--every", "1s").code == 5
    dry = cli(*upsert, "--every", "1s", "--dry-run", "--read-only", "-o", "json")
    assert (dry.code, dry.json["outcome"]) == (0, "would create")
    assert_error(cli("repeatable", "remove", any_lab.queue, "nope", "-y"), 4, "no schedule nope")
    assert_error(cli("repeatable", "run", any_lab.queue, "nope", "-y"), 4)
    assert not any_lab.command("EXISTS", any_lab.keys.repeat)


# workers


def crew_scene(lab: QueueContents) -> None:
    """A consumer with two jobs, one of them delivered twice, and one that only has a name."""
    SyncQueue(lab.queue, link=lab.link).add_bulk([{"name": "n", "data": nth} for nth in range(3)])
    lab.command("XGROUP", "CREATE", lab.keys.stream, "default", "0")
    lab.command("XREADGROUP", "GROUP", "default", "c-1", "COUNT", 2, "STREAMS", lab.keys.stream, ">")
    [(first, *_), _] = lab.command("XPENDING", lab.keys.stream, "default", "-", "+", 2)
    lab.command("XCLAIM", lab.keys.stream, "default", "c-1", 0, first, "RETRYCOUNT", 2, "JUSTID")
    lab.command("XGROUP", "CREATECONSUMER", lab.keys.stream, "default", "c-2")
    now = lab.now_ms()
    while lab.now_ms() <= now + 5:
        pass


def test_consumers_are_listed_with_a_verdict(lab: QueueContents, cli: InProcessCli) -> None:
    crew_scene(lab)
    told = cli("workers", "list", lab.queue, "-o", "json").json
    assert all(fits(record, CONSUMER_SCHEMA) for record in told)
    by_name = {record["consumer"]: record for record in told}
    assert (by_name["c-1"]["verdict"], by_name["c-1"]["in_flight"]) == ("working", 2)
    assert (by_name["c-1"]["delivered_again"], by_name["c-2"]["verdict"]) == (1, "waiting")
    assert cli("workers", "list", lab.queue, "-o", "jsonl").lines[0]["consumer"] in by_name
    if lab.link.features().version.startswith("7.0"):
        assert by_name["c-1"]["inactive_ms"] is None
        assert "n/a" in cli("workers", "list", lab.queue).out
    gone = cli("workers", "list", lab.queue, "--gone-after", "1ms")
    assert gone.out.count("gone") == 2
    assert "nobody works" in gone.err
    assert "no consumers" in cli("workers", "list", f"{lab.queue}-none").err


def test_the_dead_are_removed_and_what_they_held_is_freed(lab: QueueContents, cli: InProcessCli) -> None:
    crew_scene(lab)
    assert "nothing to do" in cli("workers", "prune", lab.queue, "-y").err, "nobody is gone"
    assert "nothing to do" in cli("workers", "claim", lab.queue, "-y").err
    dry = cli("workers", "prune", lab.queue, "--gone-after", "1ms", "--dry-run", "-o", "json").json
    assert [(one["consumer"], one["outcome"]) for one in dry] == [("c-2", "would remove")]
    pruned = cli("workers", "prune", lab.queue, "--gone-after", "1ms", "-y", "-o", "json").json
    assert all(fits(record, PRUNE_SCHEMA) for record in pruned)
    assert [(one["consumer"], one["outcome"]) for one in pruned] == [("c-2", "removed")]
    freed = cli("workers", "claim", lab.queue, "c-1", "-y", "-o", "json")
    assert "cannot be undone" in freed.err
    assert all(fits(record, CLAIM_SCHEMA) for record in freed.json)
    assert [(one["outcome"], one["deliveries"]) for one in freed.json] == [("freed", 2), ("freed", 1)]
    rows = lab.command("XPENDING", lab.keys.stream, "default", "-", "+", 10)
    assert [(row[1], row[3]) for row in rows] == [(b"released", 2), (b"released", 1)]
    assert cli("workers", "prune", lab.queue, "c-1", "-y").code == 0
    assert_error(cli("workers", "claim", lab.queue, "nobody", "-y"), 4, "nobody")
    assert_error(cli("workers", "prune", lab.queue, "--gone-after", "x"), 2, "duration")
    assert cli("workers", "claim", lab.queue, "released", "-y", "--read-only").code == 5


def test_ghosts_are_removed_and_whoever_held_nothing_else(lab: QueueContents, cli: InProcessCli) -> None:
    crew_scene(lab)
    rows = lab.command("XPENDING", lab.keys.stream, "default", "-", "+", 10)
    held = [row[0].decode() for row in rows]
    prune = ("workers", "prune", lab.queue, "--gone-after", "1ms", "-o", "json")
    lab.command("XDEL", lab.keys.stream, held[0])
    assert "workers prune" in cli("doctor", lab.queue).out
    dry = cli(*prune, "--dry-run")
    assert "prune 2 consumers and ghosts" in dry.err
    assert "ghosts 1: jobs in flight whose entry was deleted" in dry.err
    assert all(fits(record, PRUNE_SCHEMA) for record in dry.json)
    assert [(one["entry_id"], one["consumer"], one["outcome"]) for one in dry.json] == [
        (held[0], "c-1", "would remove"),
        (None, "c-2", "would remove"),
    ], "c-1 holds a job that is there"
    assert len(lab.command("XPENDING", lab.keys.stream, "default", "-", "+", 10)) == 2
    named = cli(*prune, "c-2", "--dry-run", "-o", "name")
    assert named.out.split() == ["c-2"], "ghosts of others are left to others"
    assert cli(*prune, "-y").code == 0
    assert [row[0].decode() for row in lab.command("XPENDING", lab.keys.stream, "default", "-", "+", 10)] == held[1:]
    lab.command("XDEL", lab.keys.stream, held[1])
    last = cli(*prune, "-y")
    assert [(one["verdict"], one["outcome"]) for one in last.json] == [
        ("ghost", "removed"),
        ("gone", "removed"),
    ]
    assert lab.command("XPENDING", lab.keys.stream, "default")[0] == 0
    assert "nothing to do: no consumers or ghosts" in cli(*prune, "-y").err
    assert lab.command("XLEN", lab.keys.stream) == 1, "the job that waits is not touched"
    cli.url = ""
    assert cli("log", "-o", "json").json[0]["result"] | {"consumers": []} == {
        "ghosts": 1, "vanished": 0, "removed": 1, "kept": 0, "consumers": [], "ended": "done",
    }  # fmt: skip
