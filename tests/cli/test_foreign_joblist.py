"""`chasqui joblist`: looked at, reclaimed, retried, cancelled, moved, purged, mended and worked, on every kind of server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chasqui.foreign import joblist
from chasqui_cli.commands.joblist.changing import CHANGED
from chasqui_cli.commands.joblist.looking import OVERVIEW
from chasqui_cli.commands.joblist.mending import FOUND
from chasqui_cli.commands.joblist.naming import JOB
from tests.cli.hostile import STRINGS, is_harmless
from tests.cli.inside import assert_shaped
from tests.cli.running import running
from tests.cli.seed_foreign import BROKEN, CLAIMED, FAILED, ORPHAN, PENDING, Scene, seed_list
from tests.cli.seed_foreign import scene as scene
from tests.cli.shell import Shell
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside
from tests.engines import await_that
from tests.servers import Server


def lists(scene: Scene) -> dict[str, list[bytes]]:
    names = ("pending", "processing", "completed", "failed")
    return {name: scene.say("LRANGE", getattr(scene.jobs, name), 0, -1) for name in names}


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_the_overview_counts_stale_claims_for_a_visibility(inside: Inside, scene: Scene, how: str) -> None:
    seed_list(scene)
    ended = inside("joblist", "overview", scene.name, "--visibility", "5s", "-o", how)
    assert ended.code == 0, ended
    if how == "table":
        assert ended.out.split("\n")[0].split() == [
            "QUEUE", "PENDING", "PROCESSING", "STALE", "COMPLETED", "FAILED", "OLDEST", "CLAIM", "BROKEN"
        ]  # fmt: skip
        return
    [row] = json.loads(ended.out) if how == "json" else [json.loads(ended.out)]
    assert_shaped(row, OVERVIEW)
    counted = [row[name] for name in ("pending", "processing", "stale", "completed", "failed")]
    assert counted == [1, 3, 1, 0, 1]
    assert {one["id"]: one["verdict"] for one in row["unsettled"]} == {BROKEN: "broken", ORPHAN: "orphan"}
    later = inside("joblist", "overview", scene.name, "--visibility", "1h", "-o", "json")
    assert json.loads(later.out)[0]["stale"] == 0


def test_a_job_is_shown_with_its_places(inside: Inside, scene: Scene) -> None:
    seed_list(scene)
    shown = json.loads(inside("joblist", "show", scene.name, FAILED, "-o", "json").out)
    assert_shaped(shown, JOB)
    assert (shown["lists"], shown["last_error"], shown["payload"]) == (
        {"failed": [0]},
        "boom",
        {"job": FAILED},
    )
    assert shown["expires_in_ms"] > 0
    assert inside("joblist", "show", scene.name, "nobody").code == 4
    listed = json.loads(inside("joblist", "list", scene.name, "--list", "processing", "-o", "json").out)
    assert [row["id"] for row in listed] == [ORPHAN, BROKEN, CLAIMED]
    assert inside("joblist", "list", f"{scene.name}-nothing").code == 4


def test_reclaim_skips_and_reports_what_cannot_be_judged(inside: Inside, scene: Scene) -> None:
    seed_list(scene)
    said = ("joblist", "reclaim", scene.name, "-o", "json")
    before = lists(scene)
    planned = json.loads(inside(*said, "--dry-run").out)
    assert_shaped(planned, [CHANGED])
    wanted = {CLAIMED: "would reclaim", BROKEN: "skipped", ORPHAN: "skipped"}
    assert {row["id"]: row["outcome"] for row in planned} == wanted
    assert lists(scene) == before
    done = inside(*said, "--yes")
    assert done.code == 0, done
    assert {row["id"]: row["outcome"] for row in json.loads(done.out)} == wanted | {CLAIMED: "reclaimed"}
    assert lists(scene)["pending"] == [CLAIMED.encode(), PENDING.encode()]
    dropped = json.loads(inside(*said, "--drop-orphans", "--yes").out)
    assert {row["id"]: row["outcome"] for row in dropped} == {BROKEN: "skipped", ORPHAN: "dropped"}
    seed_list(Scene(scene.link, f"{scene.name}-2"))
    given_up = inside("joblist", "reclaim", f"{scene.name}-2", "--max-attempts", "1", "--yes", "-o", "json")
    assert {row["id"]: row["outcome"] for row in json.loads(given_up.out)}[CLAIMED] == "failed"


def test_a_retried_job_does_not_expire(inside: Inside, scene: Scene) -> None:
    seed_list(scene)
    scene.say("LPUSH", scene.jobs.failed, "expired")
    ended = inside("joblist", "retry", scene.name, "--all", "--yes", "-o", "json")
    assert ended.code == 3
    assert {row["id"]: row["outcome"] for row in json.loads(ended.out)} == {
        FAILED: "retried",
        "expired": "expired",
    }
    assert scene.say("PTTL", scene.jobs.job(FAILED)) == -1
    assert scene.run(joblist.job(scene.jobs, FAILED)).text("attempts") == "0"


@pytest.mark.parametrize(
    ("words", "job_id", "which"),
    [(("cancel", PENDING), PENDING, "pending"), (("purge", "--list", "failed"), FAILED, "failed")],
)
def test_deleted_jobs_come_back_once(
    inside: Inside, scene: Scene, words: tuple[str, ...], job_id: str, which: str
) -> None:
    seed_list(scene)
    before, job = lists(scene), scene.run(joblist.job(scene.jobs, job_id))
    verb, *rest = words
    said = ("joblist", verb, scene.name, *rest, "-o", "json")
    assert inside(*said, "--dry-run").code == 0
    assert lists(scene) == before
    assert inside(*said).code == 5
    assert inside(*said, "--yes").code == 0
    assert lists(scene)[which] == []
    assert scene.run(joblist.job(scene.jobs, job_id)) is None
    [op] = inside.operations()
    assert inside("undo", op, "--yes").code == 0
    assert lists(scene) == before
    assert scene.run(joblist.job(scene.jobs, job_id)).fields == job.fields


def test_move_and_enqueue(inside: Inside, scene: Scene) -> None:
    seed_list(scene)
    other = f"{scene.name}-2"
    assert inside("joblist", "move", scene.name, "--to", other, PENDING, "nope", "--yes").code == 3
    assert scene.say("LRANGE", f"queue:{other}:pending", 0, -1) == [PENDING.encode()]
    assert inside("joblist", "move", scene.name, "--to", other, "--list", "processing", "--all").code == 2
    assert inside("joblist", "enqueue", other, '{"a": 1}', "--id", "mine").out == "mine\n"
    assert inside("joblist", "enqueue", other, '{"a": 1}', "--id", "mine").code == 0
    assert scene.say("LLEN", f"queue:{other}:pending") == 2
    assert inside("joblist", "enqueue", other, "no json").code == 2
    assert inside("joblist", "purge", other, "--list", "processing", "--yes").code == 2


def test_damage_is_reported_and_repaired(inside: Inside, scene: Scene) -> None:
    seed_list(scene)
    say, jobs = scene.say, scene.jobs
    say("LPUSH", jobs.pending, PENDING, "nothing")
    say("HSET", jobs.job("lost"), "id", "lost", "payload", "{}", "status", "pending")
    say("PEXPIRE", jobs.job(PENDING), 100_000)
    say("LPUSH", jobs.failed, "expired")
    said = ("joblist", "doctor", scene.name, "-o", "json")
    found = json.loads(inside(*said).out)
    assert_shaped(found, [FOUND])
    kinds = {row["ailment"] for row in found}
    assert {"no-job", "lost-job", "twice", "expiring", "bad-time", "expired"} <= kinds
    mended = json.loads(inside(*said, "--repair", "--yes").out)
    assert {row["outcome"] for row in mended if row["ailment"] in ("no-job", "lost-job", "twice")} == {
        "repaired"
    }
    assert json.loads(inside(*said).out) == []


def test_hostile_texts_are_harmless(inside: Inside, scene: Scene) -> None:
    for number, told in enumerate(STRINGS.values()):
        text = told.encode("utf-8", "surrogatepass")
        key = b"queue:" + scene.name.encode() + b":job:" + text
        scene.say("LPUSH", scene.jobs.processing, text)
        scene.say("HSET", key, "payload", text, "claimed_at_ms", text, "last_error", text, "n", number)
    for verb, *rest in (
        ("overview",),
        ("list", "--list", "processing"),
        ("doctor",),
        ("reclaim", "--dry-run"),
    ):
        for how in ("table", "wide", "json", "jsonl", "csv", "yaml"):
            ended = inside("joblist", verb, scene.name, *rest, "-o", how)
            assert ended.code == 0, ended
            assert is_harmless(ended.out), (verb, how)
            assert is_harmless(ended.err), (verb, how)


def test_a_worker_runs_handlers_and_events_are_told(
    shell: Shell, scene: Scene, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "listed.py").write_text("def handle(claim):\n    return {'got': claim.payload['n']}\n")
    at = ("-u", server.url)
    work = ("joblist", "work", "listed:handle", "--queue", scene.name, "--app-dir", str(tmp_path), *at)
    with running(shell, "joblist", "events", scene.name, "--count", "1", *at) as ear:
        listening = lambda: scene.say("PUBSUB", "NUMSUB", scene.jobs.events)[1] == 1  # noqa: E731 - said once
        await_that(listening, "somebody listens")
        scene.run(joblist.enqueue(scene.jobs, {"n": 7}, now_ms=scene.now_ms(), job_id="one"))
        with running(shell, *work) as worker:
            ear.until(lambda it: bool(it.out), "an event")
            assert worker.interrupted() == 0
            worker.until(lambda it: any("1 completed" in line for line in it.err), "the account")
        assert json.loads(ear.out[0]) == {
            "queue": scene.name, "id": "one", "status": "completed", "raw": '{"id":"one","status":"completed"}'
        }  # fmt: skip
    assert scene.run(joblist.job(scene.jobs, "one")).value("result") == {"got": 7}
