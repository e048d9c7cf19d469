"""`delayed`, on every kind of server."""

from __future__ import annotations

import re

from chasqui import SyncQueue
from chasqui.operate import delayed_jobs
from chasqui.undo import changed_delayed_jobs
from chasqui_cli.commands.delayed._record import BUCKET_SCHEMA, CHANGE_SCHEMA, DELAYED_SCHEMA
from chasqui_cli.output.times import format_iso
from tests.support.cli.in_process import InProcessCli, has_keys
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.queue_contents import QueueContents


def undo(contents: QueueContents, cli: InProcessCli, op: str = "op") -> list[str]:
    return list(contents.run(changed_delayed_jobs.revert(contents.commands, contents.keys, op, cli.journal())))


def delay_some(contents: QueueContents) -> None:
    """One with an id, two without, and one that is not a job."""
    queue = SyncQueue(contents.queue, link=contents.link)
    queue.add("mail", {"to": "x", "password": "s3cret"}, delay_ms=600_000, job_id="named")
    queue.add("mail", {"to": "y"}, delay_ms=1_200_000)
    queue.add("report", [1], delay_ms=7_200_000)
    contents.command("ZADD", contents.keys.delayed, contents.now_ms() + 9_000_000, b"gar\x1bbage")


def test_delayed_jobs_are_listed_in_every_format(contents: QueueContents, cli: InProcessCli) -> None:
    delay_some(contents)
    listed = cli("delayed", "list", contents.queue, "-o", "json")
    assert listed.code == 0
    first, second, third, odd = listed.json
    assert all(has_keys(record, DELAYED_SCHEMA) for record in listed.json)
    assert (first["id"], first["name"], first["data"]) == (
        "named",
        "mail",
        {"to": "x", "password": "«redacted»"},
    )
    assert (third["data"], odd["id"], odd["hex"]) == ([1], None, b"gar\x1bbage".hex())
    assert "no readable form" in odd["undecodable"]
    assert first["run_at_ms"] < second["run_at_ms"] < third["run_at_ms"] < odd["run_at_ms"]
    assert cli("delayed", "list", contents.queue, "-o", "jsonl").lines == listed.json
    assert cli("delayed", "list", contents.queue, "-o", "name").out.split() == [one["ref"] for one in listed.json]
    table = cli("delayed", "list", contents.queue).out.splitlines()
    assert table[0].split() == ["ID", "NAME", "DUE", "ATTEMPT", "DATA", "UNDECODABLE"]
    assert len(table) == 5
    secret = cli("delayed", "list", contents.queue, "named", "--show-secrets", "-o", "json").json
    assert secret[0]["data"]["password"] == "s3cret"
    due = cli("delayed", "list", contents.queue, "--until", "1h", "--name", "ma*", "-o", "jsonl").lines
    assert [one["name"] for one in due] == ["mail", "mail"]
    chosen = cli("delayed", "list", contents.queue, "--where", "data.to == 'y'", "-o", "jsonl").lines
    assert [one["data"] for one in chosen] == [{"to": "y"}]


def test_every_job_that_was_named_is_listed(contents: QueueContents, cli: InProcessCli) -> None:
    ids = [f"job-{nth}" for nth in range(25)]
    queue = SyncQueue(contents.queue, link=contents.link)
    queue.add_bulk([{"name": "n", "data": None, "delay_ms": 600_000, "job_id": one} for one in ids])
    listed = cli("delayed", "list", contents.queue, *ids, "-o", "json").json
    assert {one["id"] for one in listed} == set(ids)
    assert len(cli("delayed", "list", contents.queue, "-o", "json").json) == 20


def test_the_histogram_shows_when_jobs_fall_due(contents: QueueContents, cli: InProcessCli) -> None:
    delay_some(contents)
    contents.command("ZADD", contents.keys.delayed, contents.now_ms() - 5000, "late")
    result = cli("delayed", "histogram", contents.queue, "-o", "json")
    assert all(has_keys(record, BUCKET_SCHEMA) for record in result.json)
    assert (result.json[0]["from_ms"], result.json[0]["jobs"]) == (None, 1)
    assert sum(record["jobs"] for record in result.json) == 5
    assert re.search(r"\d jobs? falls? due \d{4}-", result.err)
    table = cli("delayed", "histogram", contents.queue, "--step", "10m").out
    assert "overdue" in table
    assert "█" in table
    assert cli("delayed", "histogram", f"{contents.queue}-none", "-o", "json").json == []


def test_jobs_are_run_now_and_put_back_while_no_worker_has_read_them(
    contents: QueueContents, cli: InProcessCli
) -> None:
    delay_some(contents)
    done = cli("delayed", "now", contents.queue, "--name", "mail", "-y", "-o", "json")
    assert done.code == 0, done.err
    assert all(has_keys(record, CHANGE_SCHEMA) for record in done.json)
    assert [record["outcome"] for record in done.json] == ["ran", "ran"]
    stored = [entry_id.decode() for entry_id, _ in contents.command("XRANGE", contents.keys.stream, "-", "+")]
    assert [record["entry_id"] for record in done.json] == stored
    assert undo(contents, cli) == ["restored", "restored"]
    assert (contents.command("XLEN", contents.keys.stream), contents.command("ZCARD", contents.keys.delayed)) == (0, 4)
    assert SyncQueue(contents.queue, link=contents.link).cancel_delayed("named"), "its id finds it again"


def test_jobs_are_cancelled_by_their_bytes_and_put_back(contents: QueueContents, cli: InProcessCli) -> None:
    delay_some(contents)
    before = contents.command("ZRANGE", contents.keys.delayed, 0, -1, "WITHSCORES")
    done = cli("delayed", "cancel", contents.queue, "--all", "--yes", "-o", "jsonl")
    assert [record["outcome"] for record in done.lines] == ["cancelled"] * 4
    assert not contents.command("EXISTS", contents.keys.delayed)
    assert undo(contents, cli) == ["restored"] * 4
    assert contents.command("ZRANGE", contents.keys.delayed, 0, -1, "WITHSCORES") == before
    odd = cli("delayed", "list", contents.queue, "-o", "json").json[3]["ref"]
    assert cli("delayed", "cancel", contents.queue, odd, "named", "-y").code == 0
    assert contents.command("ZCARD", contents.keys.delayed) == 2


def test_jobs_are_moved_and_put_back(contents: QueueContents, cli: InProcessCli) -> None:
    delay_some(contents)
    [before] = cli("delayed", "list", contents.queue, "named", "-o", "json").json
    [moved] = cli("delayed", "move", contents.queue, "named", "--by", "1h", "-y", "-o", "json").json
    assert (moved["outcome"], moved["moved_to_ms"]) == ("moved", before["run_at_ms"] + 3_600_000)
    [after] = cli("delayed", "list", contents.queue, "named", "-o", "json").json
    assert after["run_at_ms"] == moved["moved_to_ms"]
    assert contents.command("TTL", contents.keys.delayed_index("named")) > 3600 + 600
    assert undo(contents, cli) == ["restored"]
    [to] = cli("delayed", "move", contents.queue, "named", "--to", "2031-01-01", "-y", "-o", "json").json
    assert to["moved_to_ms"] == 1_924_992_000_000
    assert cli("delayed", "move", contents.queue, "named", "--by", "-1h", "-y").code == 0


def test_delayed_verbs_refuse_what_is_not_meant(any_contents: QueueContents, cli: InProcessCli) -> None:
    delay_some(any_contents)
    queue = any_contents.queue
    assert_error(cli("delayed", "cancel", queue), 2, "--all")
    assert_error(cli("delayed", "cancel", queue, "nobody", "-y"), 4, "nobody")
    assert_error(cli("delayed", "move", queue, "named"), 2, "--by")
    assert_error(cli("delayed", "move", queue, "named", "--by", "1h", "--to", "1h"), 2)
    assert cli("delayed", "cancel", queue, "named").code == 5, "nobody is there to be asked"
    assert cli("delayed", "cancel", queue, "--name", "nothing", "-y").code == 0
    read_only = cli("delayed", "cancel", queue, "named", "-y", "--read-only")
    assert (read_only.code, cli.operations()) == (5, [])
    dry = cli("delayed", "now", queue, "--all", "--dry-run", "--read-only", "-o", "jsonl")
    assert [one["outcome"] for one in dry.lines] == ["would run"] * 3 + ["undecodable"]
    assert any_contents.command("ZCARD", any_contents.keys.delayed) == 4
    mixed = cli("delayed", "now", queue, "--all", "-y", "-o", "jsonl")
    assert (mixed.code, mixed.lines[-1]["outcome"]) == (3, "undecodable")


def test_the_delayed_are_found_in_few_round_trips(any_contents: QueueContents, cli: InProcessCli) -> None:
    jobs = [{"name": "n", "data": nth, "delay_ms": 600_000, "job_id": f"j{nth}"} for nth in range(700)]
    SyncQueue(any_contents.queue, link=any_contents.link).add_bulk(jobs)
    trips = any_contents.link.round_trips
    found = any_contents.run(
        delayed_jobs.delayed_jobs_by_id(any_contents.commands, any_contents.keys, [f"j{nth}" for nth in range(700)])
    )
    assert (len(found), any_contents.link.round_trips - trips) == (700, 2)
    trips = any_contents.link.round_trips
    any_contents.run(
        changed_delayed_jobs.read_saved_jobs(any_contents.commands, any_contents.keys, list(found.values()))
    )
    assert any_contents.link.round_trips - trips == 2
    trips = any_contents.link.round_trips
    assert (
        any_contents.run(
            delayed_jobs.cancel_delayed_jobs(any_contents.commands, any_contents.keys, list(found.values()))
        )
        == [True] * 700
    )
    assert any_contents.link.round_trips - trips <= 3, "one more where the script is new to the server"


def test_moments_are_written_in_the_style_that_was_asked_for(contents: QueueContents, cli: InProcessCli) -> None:
    delay_some(contents)
    due = cli("delayed", "list", contents.queue, "named", "-o", "json").json[0]["run_at_ms"]
    assert str(due) in cli("delayed", "list", contents.queue, "named", "--time", "raw").out
    assert format_iso(due)[:19] in cli("delayed", "list", contents.queue, "named", "--time", "iso").out
