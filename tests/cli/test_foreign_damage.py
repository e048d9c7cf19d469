"""Everything that is known to go wrong with other systems' data, planted on a real server: shown, reported by both
doctors, and repaired by the very command line that `chasqui doctor` names; nothing is lost by it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui_cli.output.records import FINDING_SCHEMA
from tests.support.cli.in_process import InProcessCli, assert_matches_schema
from tests.support.seeds.foreign_queues import DELAYED, HELD, READY, TRIED, ForeignQueues, seed_rsmq

GHOST = "gqll7vywlc" + "g" * 22


def _set(*pairs: Any) -> Callable[[ForeignQueues], object]:
    return lambda scene: scene.command("HSET", scene.orders.hash, *pairs)


def _ghost(scene: ForeignQueues) -> None:
    """A send that met a drop: messages, and a hash without attributes."""
    scene.command("DEL", scene.orders.hash, scene.orders.messages)
    scene.command("SREM", scene.orders.queues, "orders")
    scene.command("ZADD", scene.orders.messages, 5, GHOST)
    scene.command("HSET", scene.orders.hash, GHOST, "body of a ghost", "totalsent", 1)


def _rust(scene: ForeignQueues) -> None:
    """A fresh queue of the Rust client: seven fields, and milliseconds."""
    scene.command("DEL", scene.orders.hash, scene.orders.messages)
    fields = {
        "vt": 30000,
        "delay": 0,
        "maxsize": 65536,
        "created": 1,
        "modified": 1,
        "totalrecv": 0,
        "totalsent": 0,
    }
    scene.command("HSET", scene.orders.hash, *(word for pair in fields.items() for word in pair))


def _phantom(scene: ForeignQueues) -> None:
    scene.command("DEL", scene.orders.hash, scene.orders.messages)


def _stray_body(scene: ForeignQueues) -> None:
    scene.command("ZREM", scene.orders.messages, TRIED)


RSMQ: dict[str, tuple[str, Callable[[ForeignQueues], object]]] = {
    "a member without a body": ("no-body", lambda it: it.command("HDEL", it.orders.hash, READY)),
    "a count without a first receive": ("no-first-receive", lambda it: it.command("HDEL", it.orders.hash, f"{TRIED}:fr")),
    "a count that is no number": ("bad-count", _set(f"{TRIED}:rc", "often")),
    "PyRSMQ's fraction": ("fraction", _set("vt", "30.5")),
    "an attribute that is no number": ("not-a-number", _set("maxsize", "huge")),
    "a total that is no number": ("not-a-number", _set("totalsent", "lots")),
    "Rust's milliseconds": ("milliseconds-vt", _rust),
    "Rust's microseconds": (
        "microseconds", lambda it: it.command("ZADD", it.orders.messages, 1700000000000000, DELAYED)
    ),
    "counters of a deleted message": ("stray-field", _set("gone:rc", 3, "gone:fr", 4)),
    "a body whose member is gone": ("stray-field", _stray_body),
    "a ghost": ("ghost", _ghost),
    "an unlisted queue": ("unlisted", lambda it: it.command("SREM", it.orders.queues, "orders")),
    "a name without a queue": ("phantom", _phantom),
}  # fmt: skip


def bodies(scene: ForeignQueues) -> set[bytes]:
    """Every body that is stored, whether a message has it or not."""
    names = scene.command("HKEYS", scene.orders.hash)
    found = [name for name in names if len(name) == 32]
    return {scene.command("HGET", scene.orders.hash, name) for name in found}


def in_journal(inside: InProcessCli) -> set[bytes]:
    files = inside.home.glob(".local/state/chasqui/journal/*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {bytes.fromhex(line["item"]["body"]) for line in lines if line.get("item", {}).get("body")}


@pytest.mark.parametrize("what", RSMQ)
def test_damage_of_rsmq_is_shown_reported_and_repaired(
    cli: InProcessCli, foreign_queues: ForeignQueues, what: str
) -> None:
    code, plant = RSMQ[what]
    seed_rsmq(foreign_queues)
    plant(foreign_queues)
    before, place = bodies(foreign_queues), ("--ns", foreign_queues.name)
    for how in ("table", "json"):
        assert cli("rsmq", "peek", "orders", *place, "-o", how).code == (4 if code == "phantom" else 0)
        for message_id in (READY, TRIED, DELAYED, HELD):
            assert cli("rsmq", "show", "orders", message_id, *place, "-o", how).code in (0, 4)
        assert cli("inspect", f"rsmq:{foreign_queues.name}:orders", "-o", how).code == 0
    assert cli("rsmq", "counts", *place).code == 0
    result = cli("doctor", f"rsmq:{foreign_queues.name}:orders", "-o", "json")
    assert result.code == 0, result
    assert_matches_schema(json.loads(result.out), [FINDING_SCHEMA])
    [finding] = [one for one in json.loads(result.out) if one["code"] == code]
    own = json.loads(cli("rsmq", "doctor", "orders", *place, "-o", "json").out)
    assert {row["ailment"] for row in own} == {code}
    repaired = cli(*shlex.split(finding["mend"])[1:], "--yes", "-o", "json")
    assert repaired.code == 0, repaired
    assert {row["outcome"] for row in json.loads(repaired.out)} == {"repaired"}
    left = cli("doctor", f"rsmq:{foreign_queues.name}:orders", "-o", "json")
    assert code not in left.out, "what was mended is well"
    assert bodies(foreign_queues) | in_journal(cli) == before, "every body is in its queue, or in the journal"
    if code != "phantom":
        assert cli("rsmq", "message", "receive", "-n", "orders", *place).code == 0


def test_a_body_without_a_message_comes_back_as_one(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    _stray_body(foreign_queues)
    assert cli("rsmq", "doctor", "orders", "--ns", foreign_queues.name, "--repair", "--yes").code == 0
    assert bodies(foreign_queues) == {b'{"to": "held"}', b'{"password": "hush"}', b"later"}
    [op] = cli.operations()
    assert cli("undo", op, "--yes").code == 0
    assert foreign_queues.run(rsmq.read_message(foreign_queues.orders, TRIED)).body == b"tried"


@pytest.mark.parametrize("part", ["messages", "hash", "queues", "in_migration"])
def test_a_key_of_another_type_is_reported_with_the_command_that_sets_it_aside(
    cli: InProcessCli, foreign_queues: ForeignQueues, part: str
) -> None:
    seed_rsmq(foreign_queues)
    key = getattr(foreign_queues.orders, part)
    foreign_queues.command("DEL", key)
    foreign_queues.command("SET", key, "no such thing")
    for verb in (
        ("rsmq", "peek"),
        ("rsmq", "show"),
        ("rsmq", "purge"),
        ("rsmq", "doctor"),
        ("rsmq", "counts"),
    ):
        words = {"show": (READY,), "purge": ("--all", "--yes"), "doctor": ("--repair", "--yes")}
        ended = cli(*verb, "orders", *words.get(verb[1], ()), "--ns", foreign_queues.name)
        assert ended.code in (0, 1, 3, 4), ended
        assert "Traceback" not in ended.err
    found = json.loads(cli("doctor", f"rsmq:{foreign_queues.name}:orders", "-o", "json").out)
    [finding] = [one for one in found if one["code"] == "wrong-type"]
    assert finding["level"] == "critical"
    foreign_queues.command(*shlex.split(finding["mend"])[1:])
    assert foreign_queues.command("GET", f"{key}.aside") == b"no such thing"
    assert "wrong-type" not in cli("doctor", f"rsmq:{foreign_queues.name}:orders", "-o", "json").out


def _job(scene: ForeignQueues, job_id: str, **fields: Any) -> None:
    stored = {
        "id": job_id,
        "payload": "{}",
        "attempts": 1,
        "enqueued_at_ms": scene.now_ms() - 60_000,
    } | fields
    words = [word for pair in stored.items() if pair[1] is not None for word in pair]
    scene.command("HSET", scene.jobs.job(job_id), *words)


def _ran(scene: ForeignQueues, job_id: str) -> str:
    """A job that was enqueued, claimed and completed; answers its token, which survives."""
    scene.run(joblist.enqueue(scene.jobs, {}, now_ms=scene.now_ms(), job_id=job_id))
    claim = scene.run(joblist.claim(scene.jobs, block_ms=100, now_ms=scene.now_ms()))
    scene.run(joblist.complete(scene.jobs, job_id, claim.token, 1, now_ms=scene.now_ms()))
    return str(claim.token)


def _completed_twice(scene: ForeignQueues) -> None:
    token = _ran(scene, "x")
    scene.run(joblist.complete(scene.jobs, "x", token, 1, now_ms=scene.now_ms()))


def _failed_after_completing(scene: ForeignQueues) -> None:
    token = _ran(scene, "x")
    scene.run(joblist.fail(scene.jobs, "x", token, "late", attempts=1, now_ms=scene.now_ms()))


def _completed_while_pending(scene: ForeignQueues) -> None:
    scene.run(joblist.enqueue(scene.jobs, {}, now_ms=scene.now_ms(), job_id="x"))
    scene.run(joblist.complete(scene.jobs, "x", "", 1, now_ms=scene.now_ms()))


def _listed(which: str, **fields: Any) -> Callable[[ForeignQueues], None]:
    def plant(scene: ForeignQueues) -> None:
        if fields:
            _job(scene, "x", **fields)
        scene.command("LPUSH", getattr(scene.jobs, which), "x")

    return plant


CLAIM = {"status": "processing", "claim_token": "t"}
LISTS: dict[str, tuple[set[str], Callable[[ForeignQueues], object], str]] = {
    "completed twice": ({"twice"}, _completed_twice, "completed"),
    "failed after completing": ({"two-lists", "expiring"}, _failed_after_completing, "pending"),
    "completed while pending": ({"two-lists"}, _completed_while_pending, "completed"),
    "pending without a hash": ({"no-job"}, _listed("pending"), ""),
    "processing without a hash": ({"no-job"}, _listed("processing"), ""),
    "failed and expired": ({"expired"}, _listed("failed"), ""),
    "claimed without a time": (
        {"bad-time"}, _listed("processing", **CLAIM, enqueued_at_ms=None), "processing"
    ),
    "a time that is no number": ({"bad-time"}, _listed("processing", **CLAIM, claimed_at_ms="soon"), "processing"),
    "moved and not signed": ({"unsigned"}, _listed("processing", status="pending"), "pending"),
    "another status": ({"status"}, _listed("pending", status="failed"), "pending"),
    "in no list": ({"lost-job"}, lambda it: _job(it, "x", status="pending"), "pending"),
    "a hash without a payload": ({"empty-job"}, lambda it: _job(it, "x", payload=None, status="processing"), ""),
}  # fmt: skip


@pytest.mark.parametrize("what", LISTS)
def test_damage_of_a_list_is_shown_reported_and_repaired(
    cli: InProcessCli, foreign_queues: ForeignQueues, what: str
) -> None:
    codes, plant, home = LISTS[what]
    foreign_queues.run(joblist.enqueue(foreign_queues.jobs, {"n": 1}, now_ms=foreign_queues.now_ms(), job_id="sound"))
    foreign_queues.run(joblist.move_to_front(foreign_queues.jobs, ["sound"]))
    foreign_queues.command("RPOP", foreign_queues.jobs.pending)
    plant(foreign_queues)
    foreign_queues.command("RPUSH", foreign_queues.jobs.pending, "sound")
    for how in ("table", "json"):
        for which in ("pending", "processing", "completed", "failed"):
            assert cli("joblist", "list", foreign_queues.name, "--list", which, "-o", how).code == 0
        assert cli("joblist", "show", foreign_queues.name, "x", "-o", how).code == 0
        assert cli("joblist", "overview", foreign_queues.name, "-o", how).code == 0
        assert cli("joblist", "reclaim", foreign_queues.name, "--dry-run", "-o", how).code == 0
        assert cli("inspect", f"list:{foreign_queues.name}", "-o", how).code == 0
    own = json.loads(cli("joblist", "doctor", foreign_queues.name, "-o", "json").out)
    assert {row["ailment"] for row in own} == codes
    result = cli("doctor", f"list:{foreign_queues.name}", "-o", "json")
    assert result.code == 0, result
    repairs = {one["code"]: one["mend"] for one in json.loads(result.out)}
    for code in codes:
        words = [word for word in shlex.split(repairs[code])[1:] if word != "--dry-run"]
        repaired = cli(*words, *(["--visibility", "1ms"] if code == "unsigned" else []), "--yes")
        assert repaired.code == 0, repaired
    assert json.loads(cli("joblist", "doctor", foreign_queues.name, "-o", "json").out) == []
    job = foreign_queues.run(joblist.read_job(foreign_queues.jobs, "x"))
    assert (dict(job.places) if job else {}).keys() == ({home} if home else set())
    if home in ("pending", "processing"):
        assert job.text("payload") == "{}", "what may run has its payload"
        assert job.ttl_ms is None, "and keeps it"
    if home == "processing":
        assert cli("joblist", "reclaim", foreign_queues.name, "--visibility", "1ms", "--yes").code == 0
        assert "pending" in foreign_queues.run(joblist.read_job(foreign_queues.jobs, "x")).places, (
            "a worker gets it in the end"
        )
    assert foreign_queues.run(joblist.read_job(foreign_queues.jobs, "sound")).places == {
        "pending": (foreign_queues.command("LLEN", foreign_queues.jobs.pending) - 1,)
    }


def test_what_a_repair_cannot_decide_is_reported_with_a_command_that_does(
    cli: InProcessCli, foreign_queues: ForeignQueues
) -> None:
    command, jobs = foreign_queues.command, foreign_queues.jobs
    foreign_queues.run(joblist.enqueue(jobs, {}, now_ms=foreign_queues.now_ms(), job_id="way"))
    command("LMOVE", jobs.pending, jobs.in_migration, "LEFT", "LEFT")
    command("LPUSH", jobs.pending, "odd")
    command("SET", jobs.job("odd"), "no hash")
    command("HSET", f"queue:{foreign_queues.name}:stats", "enqueued_total", 3)
    found = json.loads(cli("doctor", f"list:{foreign_queues.name}", "-o", "json").out)
    repairs = {one["code"]: shlex.split(one["mend"]) for one in found}
    assert repairs.keys() >= {"parked", "wrong-type", "counters"}
    repaired = cli("joblist", "doctor", foreign_queues.name, "--repair", "--yes", "-o", "json")
    assert {row["outcome"] for row in json.loads(repaired.out)} == {"found"}
    command(*repairs["wrong-type"][1:])
    words = [word.replace("QUEUE", foreign_queues.name) for word in repairs["parked"][1:]]
    assert cli(*words, "--to-url", cli.url, "--yes").code in (0, 3)
    assert command("EXISTS", jobs.in_migration) == 0
    assert command("XLEN", f"{{chasqui:{foreign_queues.name}}}:stream") == 1


def test_a_job_that_always_kills_its_worker_is_given_up_on(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    _listed("processing", **CLAIM, attempts=9, claimed_at_ms=5)(foreign_queues)
    ended = cli("joblist", "reclaim", foreign_queues.name, "--max-attempts", "5", "--yes", "-o", "json")
    assert [row["outcome"] for row in json.loads(ended.out)] == ["failed"]
    assert foreign_queues.run(joblist.read_job(foreign_queues.jobs, "x")).places == {"failed": (0,)}


def test_the_doctor_examines_all_three_kinds_and_reports_how_far(
    cli: InProcessCli, foreign_queues: ForeignQueues
) -> None:
    seed_rsmq(foreign_queues)
    foreign_queues.command("HSET", foreign_queues.orders.hash, "gone:rc", 1)
    drafts = [rsmq.Draft("x") for _ in range(60)]
    foreign_queues.run(rsmq.send_many(foreign_queues.orders, drafts))
    _listed("pending")(foreign_queues)
    foreign_queues.run(
        joblist.enqueue_many(foreign_queues.jobs, [(f"j{n}", {}) for n in range(60)], now_ms=foreign_queues.now_ms())
    )
    ended = cli("doctor", "--sample", "50", "-o", "json")
    assert ended.code == 0, ended
    found = {(str(one["queue"]), one["code"]) for one in json.loads(ended.out)}
    assert (f"rsmq:{foreign_queues.name}:orders", "stray-field") in found
    assert f"rsmq:{foreign_queues.name}:orders: looked at 50 of 64 messages" in ended.err
    assert f"list:{foreign_queues.name}: looked at 50 of 61 pending" in ended.err
    assert cli("doctor", f"rsmq:{foreign_queues.name}:nothing").code == 4
    assert cli("doctor", f"list:{foreign_queues.name}-nothing").code == 4
    table = cli("doctor", f"rsmq:{foreign_queues.name}:orders").out
    assert "--only stray-field" in table
