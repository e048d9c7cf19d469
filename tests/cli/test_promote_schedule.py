"""`promote` and `schedule`, on every kind of server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from chasqui import Link, SyncQueue
from chasqui_cli.commands.promote import PROMOTE_SCHEMA
from chasqui_cli.commands.schedule import SCHEDULE_SCHEMA as SCHEDULE_TICK_SCHEMA
from tests.support.cli.in_process import InProcessCli, has_keys
from tests.support.cli.subprocess_cli import SubprocessCli, assert_error
from tests.support.seeds.hostile_text import is_harmless
from tests.support.seeds.queue_contents import QueueContents
from tests.support.servers.server import Server


def test_promoting_moves_all_that_is_due(contents: QueueContents, cli: InProcessCli) -> None:
    jobs = [{"name": "n", "data": nth, "delay_ms": 1} for nth in range(600)]
    SyncQueue(contents.queue, link=contents.link).add_bulk(jobs)
    contents.command("ZADD", contents.keys.delayed, 5, "garbage")
    looked = cli("promote", contents.queue, "--dry-run", "--read-only", "-o", "json").json
    assert (looked["promoted"], contents.command("XLEN", contents.keys.stream)) == (601, 0)
    summary = cli("promote", contents.queue, "-o", "json").json
    assert has_keys(summary, PROMOTE_SCHEMA)
    assert (summary["promoted"], summary["quarantined"], summary["left"]) == (600, 1, 0)
    assert contents.command("XLEN", contents.keys.stream) == 600
    assert "promoted" in cli("promote", contents.queue).out
    assert_error(cli("promote", contents.queue, "--read-only"), 5, "read-only")


@pytest.mark.parametrize(("verb", "lock"), [("promote", "promoter_lock"), ("schedule", "scheduler_lock")])
def test_a_lock_without_an_end_is_taken_away_and_one_that_lives_is_not(
    contents: QueueContents, cli: InProcessCli, verb: str, lock: str
) -> None:
    key = getattr(contents.keys, lock)
    contents.command("SET", key, "dead-\x1b[2J", "EX", 60)
    alive = cli(verb, contents.queue, "--force-unlock", "-y")
    assert (alive.code, contents.command("EXISTS", key)) == (5, 1)
    assert is_harmless(alive.err)
    contents.command("PERSIST", key)
    assert cli(verb, contents.queue, "--force-unlock").code == 5, "nobody is there to be asked"
    assert contents.command("EXISTS", key) == 1
    dry = cli(verb, contents.queue, "--force-unlock", "--dry-run")
    assert (dry.code, contents.command("EXISTS", key)) == (0, 1)
    done = cli(verb, contents.queue, "--force-unlock", "-y")
    assert (done.code, contents.command("EXISTS", key)) == (0, 0), done.err
    assert "nobody holds" in cli(verb, contents.queue, "--force-unlock", "-y").err


def test_scheduling_fires_what_is_due_and_reports_what_it_cannot(contents: QueueContents, cli: InProcessCli) -> None:
    queue = SyncQueue(contents.queue, link=contents.link)
    queue.upsert_repeatable_job("tick", {"a": 1}, repeat={"kind": "every", "interval_ms": 3_600_000})
    contents.command("ZADD", contents.keys.repeat, contents.now_ms() - 1000, "tick::every:3600000")
    assert cli("schedule", contents.queue, "--dry-run", "-o", "json").json["overdue"] == 1
    result = cli("schedule", contents.queue, "-o", "json")
    assert has_keys(result.json, SCHEDULE_TICK_SCHEMA)
    assert (result.code, result.json["fired"], result.json["overdue"]) == (0, 1, 0)
    assert contents.command("XLEN", contents.keys.stream) == 1
    contents.command("ZADD", contents.keys.repeat, 5, "bad")
    contents.command("HSET", contents.keys.repeat_spec("bad"), "spec", b"\xc1")
    odd = cli("schedule", contents.queue, "-o", "json")
    assert (odd.code, [one["key"] for one in odd.json["bad"]]) == (3, ["bad"])


@pytest.mark.parametrize(("verb", "lock"), [("promote", "promoter_lock"), ("schedule", "scheduler_lock")])
def test_a_leader_of_its_own_works_until_it_is_asked_to_end(
    any_server: Server, cli_process: SubprocessCli, queue: str, verb: str, lock: str
) -> None:
    contents = QueueContents(Link.open(any_server.url), queue)
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
        producer = SyncQueue(queue, link=contents.link)
        if verb == "promote":
            producer.add("n", 1, delay_ms=1)
        else:
            producer.upsert_repeatable_job("n", 1, repeat={"kind": "every", "interval_ms": 100})
        while not contents.command("XLEN", contents.keys.stream):
            assert child.poll() is None
        os.kill(child.pid, signal.SIGTERM)
        summary = json.loads(child.stdout.read())
        assert child.wait(20) == 0
    assert summary["promoted" if verb == "promote" else "fired"] >= 1
    assert not contents.command("EXISTS", getattr(contents.keys, lock)), "the lease is given up"


@pytest.mark.parametrize("verb", ["promote", "schedule"])
def test_a_warning_about_the_connection_is_given_once(contents: QueueContents, cli: InProcessCli, verb: str) -> None:
    secure = cli.url.replace("unix://", "unix://default:any@")
    ended = cli(verb, contents.queue, "--redis-url", secure)
    assert ended.code == 0, ended
    assert ended.err.count("warning: a password on the command line") == 1
