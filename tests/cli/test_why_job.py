"""`why` and `job show`, `job result`, `job cancel`, on every kind of server."""

from __future__ import annotations

import json
import uuid

import pytest

from chasqui.server.commands import Commands
from chasqui.undo import changed_delayed_jobs
from chasqui_cli.commands.job import cancel, result
from chasqui_cli.output.job_records import JOB_SCHEMA, JOB_STATE_SCHEMA
from tests.support.cli.in_process import assert_matches_schema
from tests.support.cli.seeded_queue import SeededQueue
from tests.support.cli.subprocess_cli import assert_error


def test_why_explains_every_state(seeded: SeededQueue) -> None:
    expected = {
        "waiting": "next in line",
        "second": "behind 1 other",
        "in-flight": "in flight on c-7",
        "delayed": "delayed until",
        "anonymous": "delayed until",
        "dead": "dead because of retries_exhausted: SMTP 550",
        "done": "its result of 18 bytes is kept for",
    }
    for state, words in expected.items():
        ended = seeded("why", seeded.jobs[state], "--queue", seeded.queue)
        assert ended.code == 0
        assert words in ended.out.splitlines()[0]
    [record], _ = seeded.all_formats("why", "dead-1", "--queue", seeded.queue, shape=JOB_STATE_SCHEMA, many=False)
    assert (record["state"], record["evidence"]["reason"], len(record["events"])) == (
        "dead",
        "retries_exhausted",
        3,
    )


def test_why_without_a_queue_looks_everywhere_and_prints_how_far(seeded: SeededQueue) -> None:
    own = f"own-{uuid.uuid4().hex}"
    seeded.seed.add(own)
    ended = seeded("why", own)
    assert ended.code == 0
    assert ended.out.startswith(f"{own} in {seeded.queue}: waiting")
    assert "looked into " in ended.err
    lost = seeded("why", f"{own}-not")
    assert lost.code == 4
    assert "unknown" in lost.out
    assert seeded("why", f"{own}-not", "--queue", seeded.queue, "-o", "json").json["state"] == "unknown"


def test_job_show_merges_everything(seeded: SeededQueue) -> None:
    words = ("job", "show", seeded.queue, "dead-1")
    [record], table = seeded.all_formats(*words, shape=JOB_SCHEMA, many=False)
    assert (record["state"], record["name"], record["attempt"]) == ("dead", "mail", 3)
    assert (record["data"], record["payload_bytes"]) == ({"to": "ada", "n": 1}, 11)
    assert [one["event"] for one in record["events"]] == ["active", "failed", "dlq"]
    assert "SMTP 550" in table
    done = seeded("job", "show", seeded.queue, "done-1", "-o", "json").json
    assert done["result"] == {"sent": True, "token": "«redacted»"}
    assert_error(seeded("job", "show", seeded.queue, "nobody", "-q"), 4, "no trace of a job 'nobody'")


def test_job_result_is_printed_decoded(seeded: SeededQueue) -> None:
    assert seeded("job", "result", seeded.queue, "done-1", "--show-secrets").json == {
        "sent": True,
        "token": "hush",
    }
    record = seeded("job", "result", seeded.queue, "done-1", "-o", "jsonl").json
    assert_matches_schema(record, result.RESULT_SCHEMA)
    assert record["result"]["token"] == "«redacted»"
    assert_error(seeded("job", "result", seeded.queue, "waits-1"), 4, "there is no result of 'waits-1'")
    seeded.seed.command("SET", seeded.seed.keys.result("odd-1"), b"\xc1")
    assert_error(seeded("job", "result", seeded.queue, "odd-1"), 1)


@pytest.mark.parametrize("which", ["delayed", "anonymous"])
def test_job_cancel_removes_exactly_one_and_keeps_what_is_needed_to_put_it_back(
    seeded: SeededQueue, which: str
) -> None:
    job_id, keys = seeded.jobs[which], seeded.seed.keys
    members = seeded.seed.command("ZRANGE", keys.delayed, 0, -1, "WITHSCORES")
    words = ("job", "cancel", seeded.queue, job_id)
    dry = seeded(*words, "--dry-run", "--read-only", "-o", "jsonl")
    assert_matches_schema(dry.json, cancel.CANCEL_SCHEMA)
    assert (dry.code, dry.json["outcome"], seeded.seed.command("ZCARD", keys.delayed)) == (
        0,
        "would cancel",
        2,
    )
    assert not list(seeded.home.rglob("journal/*"))
    assert_error(seeded(*words, "-q", "--read-only", "--yes"), 5, "read-only")
    refused = seeded(*words)
    assert (refused.code, seeded.seed.command("ZCARD", keys.delayed)) == (5, 2)
    done = seeded(*words, "--yes", "--note", "a mistake", "-o", "jsonl")
    assert (done.code, done.json["outcome"]) == (0, "cancelled")
    [left] = seeded.seed.command("ZRANGE", keys.delayed, 0, -1)
    [gone] = set(members[::2]) - {left}
    assert seeded.seed.command("EXISTS", keys.delayed_index(job_id), keys.delayed_marker(job_id)) == 0
    [journal] = seeded.home.rglob("journal/*.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    [item] = [line["item"] for line in lines if "item" in line]
    assert (item["kind"], item["action"], item["id"]) == ("delayed", "cancelled", job_id)
    assert (bytes.fromhex(item["member"]), item["run_at_ms"]) == (gone, int(members[members.index(gone) + 1]))
    assert (item["index_ms"] > 0) == (item["marker_ms"] > 0) == (which == "delayed")
    assert lines[-1]["result"] == {"cancelled": 1, "gone": 0, "ended": "done"}
    assert_error(seeded(*words, "--yes", "-q"), 4, "there is no delayed job")
    link = seeded.seed.link
    for outcome in ("restored", "already"):
        assert link.run(changed_delayed_jobs.revert(Commands(link.features()), keys, "op-1", [item])) == [outcome]
    assert seeded.seed.command("ZRANGE", keys.delayed, 0, -1, "WITHSCORES") == members
