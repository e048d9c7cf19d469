"""`chasqui joblist`: inspected, reclaimed, retried, cancelled, moved, purged, repaired and worked, on every kind of server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chasqui.foreign import joblist
from chasqui_cli.commands.joblist._change import CHANGE_SCHEMA
from chasqui_cli.commands.joblist._record import JOB_SCHEMA
from chasqui_cli.commands.joblist.doctor import DOCTOR_SCHEMA
from chasqui_cli.commands.joblist.overview import OVERVIEW_SCHEMA
from tests.support.cli.in_process import InProcessCli, assert_matches_schema
from tests.support.cli.live_command import start_command
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.processes.engines import wait_until
from tests.support.seeds.foreign_queues import (
    BROKEN,
    CLAIMED,
    FAILED,
    ORPHAN,
    PENDING,
    ForeignQueues,
    seed_list,
)
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless
from tests.support.servers.server import Server


def lists(scene: ForeignQueues) -> dict[str, list[bytes]]:
    names = ("pending", "processing", "completed", "failed")
    return {name: scene.command("LRANGE", getattr(scene.jobs, name), 0, -1) for name in names}


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_the_overview_counts_stale_claims_for_a_visibility(
    cli: InProcessCli, foreign_queues: ForeignQueues, how: str
) -> None:
    seed_list(foreign_queues)
    ended = cli("joblist", "overview", foreign_queues.name, "--visibility", "5s", "-o", how)
    assert ended.code == 0, ended
    if how == "table":
        assert ended.out.split("\n")[0].split() == [
            "QUEUE", "PENDING", "PROCESSING", "STALE", "COMPLETED", "FAILED", "OLDEST", "CLAIM", "BROKEN"
        ]  # fmt: skip
        return
    [row] = json.loads(ended.out) if how == "json" else [json.loads(ended.out)]
    assert_matches_schema(row, OVERVIEW_SCHEMA)
    counted = [row[name] for name in ("pending", "processing", "stale", "completed", "failed")]
    assert counted == [1, 3, 1, 0, 1]
    assert {one["id"]: one["verdict"] for one in row["unsettled"]} == {BROKEN: "broken", ORPHAN: "orphan"}
    later = cli("joblist", "overview", foreign_queues.name, "--visibility", "1h", "-o", "json")
    assert json.loads(later.out)[0]["stale"] == 0


def test_a_job_is_shown_with_its_places(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_list(foreign_queues)
    shown = json.loads(cli("joblist", "show", foreign_queues.name, FAILED, "-o", "json").out)
    assert_matches_schema(shown, JOB_SCHEMA)
    assert (shown["lists"], shown["last_error"], shown["payload"]) == (
        {"failed": [0]},
        "boom",
        {"job": FAILED},
    )
    assert shown["expires_in_ms"] > 0
    assert cli("joblist", "show", foreign_queues.name, "nobody").code == 4
    listed = json.loads(cli("joblist", "list", foreign_queues.name, "--list", "processing", "-o", "json").out)
    assert [row["id"] for row in listed] == [ORPHAN, BROKEN, CLAIMED]
    assert cli("joblist", "list", f"{foreign_queues.name}-nothing").code == 4


def test_reclaim_skips_and_reports_what_cannot_be_judged(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_list(foreign_queues)
    line = ("joblist", "reclaim", foreign_queues.name, "-o", "json")
    before = lists(foreign_queues)
    planned = json.loads(cli(*line, "--dry-run").out)
    assert_matches_schema(planned, [CHANGE_SCHEMA])
    wanted = {CLAIMED: "would reclaim", BROKEN: "skipped", ORPHAN: "skipped"}
    assert {row["id"]: row["outcome"] for row in planned} == wanted
    assert lists(foreign_queues) == before
    done = cli(*line, "--yes")
    assert done.code == 0, done
    assert {row["id"]: row["outcome"] for row in json.loads(done.out)} == wanted | {CLAIMED: "reclaimed"}
    assert lists(foreign_queues)["pending"] == [CLAIMED.encode(), PENDING.encode()]
    dropped = json.loads(cli(*line, "--drop-orphans", "--yes").out)
    assert {row["id"]: row["outcome"] for row in dropped} == {BROKEN: "skipped", ORPHAN: "dropped"}
    seed_list(ForeignQueues(foreign_queues.link, f"{foreign_queues.name}-2"))
    given_up = cli("joblist", "reclaim", f"{foreign_queues.name}-2", "--max-attempts", "1", "--yes", "-o", "json")
    assert {row["id"]: row["outcome"] for row in json.loads(given_up.out)}[CLAIMED] == "failed"


def test_a_retried_job_does_not_expire(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_list(foreign_queues)
    foreign_queues.command("LPUSH", foreign_queues.jobs.failed, "expired")
    ended = cli("joblist", "retry", foreign_queues.name, "--all", "--yes", "-o", "json")
    assert ended.code == 3
    assert {row["id"]: row["outcome"] for row in json.loads(ended.out)} == {
        FAILED: "retried",
        "expired": "expired",
    }
    assert foreign_queues.command("PTTL", foreign_queues.jobs.job(FAILED)) == -1
    assert foreign_queues.run(joblist.read_job(foreign_queues.jobs, FAILED)).text("attempts") == "0"


@pytest.mark.parametrize(
    ("words", "job_id", "which"),
    [(("cancel", PENDING), PENDING, "pending"), (("purge", "--list", "failed"), FAILED, "failed")],
)
def test_deleted_jobs_come_back_once(
    cli: InProcessCli, foreign_queues: ForeignQueues, words: tuple[str, ...], job_id: str, which: str
) -> None:
    seed_list(foreign_queues)
    before, job = lists(foreign_queues), foreign_queues.run(joblist.read_job(foreign_queues.jobs, job_id))
    verb, *rest = words
    line = ("joblist", verb, foreign_queues.name, *rest, "-o", "json")
    assert cli(*line, "--dry-run").code == 0
    assert lists(foreign_queues) == before
    assert cli(*line).code == 5
    assert cli(*line, "--yes").code == 0
    assert lists(foreign_queues)[which] == []
    assert foreign_queues.run(joblist.read_job(foreign_queues.jobs, job_id)) is None
    [op] = cli.operations()
    assert cli("undo", op, "--yes").code == 0
    assert lists(foreign_queues) == before
    assert foreign_queues.run(joblist.read_job(foreign_queues.jobs, job_id)).fields == job.fields


def test_move_and_enqueue(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_list(foreign_queues)
    other = f"{foreign_queues.name}-2"
    assert cli("joblist", "move", foreign_queues.name, "--to", other, PENDING, "nope", "--yes").code == 3
    assert foreign_queues.command("LRANGE", f"queue:{other}:pending", 0, -1) == [PENDING.encode()]
    assert cli("joblist", "move", foreign_queues.name, "--to", other, "--list", "processing", "--all").code == 2
    assert cli("joblist", "enqueue", other, '{"a": 1}', "--id", "mine").out == "mine\n"
    assert cli("joblist", "enqueue", other, '{"a": 1}', "--id", "mine").code == 0
    assert foreign_queues.command("LLEN", f"queue:{other}:pending") == 2
    assert cli("joblist", "enqueue", other, "no json").code == 2
    assert cli("joblist", "purge", other, "--list", "processing", "--yes").code == 2


def test_damage_is_reported_and_repaired(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_list(foreign_queues)
    command, jobs = foreign_queues.command, foreign_queues.jobs
    command("LPUSH", jobs.pending, PENDING, "nothing")
    command("HSET", jobs.job("lost"), "id", "lost", "payload", "{}", "status", "pending")
    command("PEXPIRE", jobs.job(PENDING), 100_000)
    command("LPUSH", jobs.failed, "expired")
    line = ("joblist", "doctor", foreign_queues.name, "-o", "json")
    found = json.loads(cli(*line).out)
    assert_matches_schema(found, [DOCTOR_SCHEMA])
    kinds = {row["ailment"] for row in found}
    assert {"no-job", "lost-job", "twice", "expiring", "bad-time", "expired"} <= kinds
    repaired = json.loads(cli(*line, "--repair", "--yes").out)
    assert {row["outcome"] for row in repaired if row["ailment"] in ("no-job", "lost-job", "twice")} == {"repaired"}
    assert json.loads(cli(*line).out) == []


def test_hostile_texts_are_harmless(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    for number, hostile in enumerate(HOSTILE_TEXTS.values()):
        text = hostile.encode("utf-8", "surrogatepass")
        key = b"queue:" + foreign_queues.name.encode() + b":job:" + text
        foreign_queues.command("LPUSH", foreign_queues.jobs.processing, text)
        foreign_queues.command("HSET", key, "payload", text, "claimed_at_ms", text, "last_error", text, "n", number)
    for verb, *rest in (
        ("overview",),
        ("list", "--list", "processing"),
        ("doctor",),
        ("reclaim", "--dry-run"),
    ):
        for how in ("table", "wide", "json", "jsonl", "csv", "yaml"):
            ended = cli("joblist", verb, foreign_queues.name, *rest, "-o", how)
            assert ended.code == 0, ended
            assert is_harmless(ended.out), (verb, how)
            assert is_harmless(ended.err), (verb, how)


def test_a_worker_runs_handlers_and_publishes_events(
    cli_process: SubprocessCli, foreign_queues: ForeignQueues, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "listed.py").write_text("def handle(claim):\n    return {'got': claim.payload['n']}\n")
    at = ("-u", server.url)
    work = (
        "joblist",
        "work",
        "listed:handle",
        "--queue",
        foreign_queues.name,
        "--app-dir",
        str(tmp_path),
        *at,
    )
    with start_command(cli_process, "joblist", "events", foreign_queues.name, "--count", "1", *at) as ear:
        listening = lambda: foreign_queues.command("PUBSUB", "NUMSUB", foreign_queues.jobs.events)[1] == 1  # noqa: E731 - said once
        wait_until(listening, "somebody listens")
        foreign_queues.run(joblist.enqueue(foreign_queues.jobs, {"n": 7}, now_ms=foreign_queues.now_ms(), job_id="one"))
        with start_command(cli_process, *work) as worker:
            ear.wait_until(lambda it: bool(it.out), "an event")
            assert worker.interrupt() == 0
            worker.wait_until(lambda it: any("1 completed" in line for line in it.err), "the account")
        assert json.loads(ear.out[0]) == {
            "queue": foreign_queues.name, "id": "one", "status": "completed", "raw": '{"id":"one","status":"completed"}'
        }  # fmt: skip
    assert foreign_queues.run(joblist.read_job(foreign_queues.jobs, "one")).value("result") == {"got": 7}
