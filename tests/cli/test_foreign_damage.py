"""Everything that is known to go wrong with other systems' data, planted on a real server: shown, reported by both
doctors, and mended by the very command line that `chasqui doctor` names; nothing is lost by it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui_cli.records import FINDING
from tests.cli.inside import assert_shaped
from tests.cli.seed_foreign import DELAYED, HELD, READY, TRIED, Scene, seed_rsmq
from tests.cli.seed_foreign import scene as scene
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside

GHOST = "gqll7vywlc" + "g" * 22


def _set(*pairs: Any) -> Callable[[Scene], object]:
    return lambda scene: scene.say("HSET", scene.orders.hash, *pairs)


def _ghost(scene: Scene) -> None:
    """A send that met a drop: messages, and a hash without attributes."""
    scene.say("DEL", scene.orders.hash, scene.orders.messages)
    scene.say("SREM", scene.orders.queues, "orders")
    scene.say("ZADD", scene.orders.messages, 5, GHOST)
    scene.say("HSET", scene.orders.hash, GHOST, "body of a ghost", "totalsent", 1)


def _rust(scene: Scene) -> None:
    """A fresh queue of the Rust client: seven fields, and milliseconds."""
    scene.say("DEL", scene.orders.hash, scene.orders.messages)
    fields = {
        "vt": 30000,
        "delay": 0,
        "maxsize": 65536,
        "created": 1,
        "modified": 1,
        "totalrecv": 0,
        "totalsent": 0,
    }
    scene.say("HSET", scene.orders.hash, *(word for pair in fields.items() for word in pair))


def _phantom(scene: Scene) -> None:
    scene.say("DEL", scene.orders.hash, scene.orders.messages)


def _stray_body(scene: Scene) -> None:
    scene.say("ZREM", scene.orders.messages, TRIED)


RSMQ: dict[str, tuple[str, Callable[[Scene], object]]] = {
    "a member without a body": ("no-body", lambda it: it.say("HDEL", it.orders.hash, READY)),
    "a count without a first receive": ("no-first-receive", lambda it: it.say("HDEL", it.orders.hash, f"{TRIED}:fr")),
    "a count that is no number": ("bad-count", _set(f"{TRIED}:rc", "often")),
    "PyRSMQ's fraction": ("fraction", _set("vt", "30.5")),
    "an attribute that is no number": ("not-a-number", _set("maxsize", "huge")),
    "a total that is no number": ("not-a-number", _set("totalsent", "lots")),
    "Rust's milliseconds": ("milliseconds-vt", _rust),
    "Rust's microseconds": (
        "microseconds", lambda it: it.say("ZADD", it.orders.messages, 1700000000000000, DELAYED)
    ),
    "counters of a deleted message": ("stray-field", _set("gone:rc", 3, "gone:fr", 4)),
    "a body whose member is gone": ("stray-field", _stray_body),
    "a ghost": ("ghost", _ghost),
    "an unlisted queue": ("unlisted", lambda it: it.say("SREM", it.orders.queues, "orders")),
    "a name without a queue": ("phantom", _phantom),
}  # fmt: skip


def bodies(scene: Scene) -> set[bytes]:
    """Every body that is stored, whether a message has it or not."""
    names = scene.say("HKEYS", scene.orders.hash)
    found = [name for name in names if len(name) == 32]
    return {scene.say("HGET", scene.orders.hash, name) for name in found}


def in_journal(inside: Inside) -> set[bytes]:
    files = inside.home.glob(".local/state/chasqui/journal/*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {bytes.fromhex(line["item"]["body"]) for line in lines if line.get("item", {}).get("body")}


@pytest.mark.parametrize("what", RSMQ)
def test_damage_of_rsmq_is_shown_reported_and_mended(inside: Inside, scene: Scene, what: str) -> None:
    code, plant = RSMQ[what]
    seed_rsmq(scene)
    plant(scene)
    before, place = bodies(scene), ("--ns", scene.name)
    for how in ("table", "json"):
        assert inside("rsmq", "peek", "orders", *place, "-o", how).code == (4 if code == "phantom" else 0)
        for message_id in (READY, TRIED, DELAYED, HELD):
            assert inside("rsmq", "show", "orders", message_id, *place, "-o", how).code in (0, 4)
        assert inside("inspect", f"rsmq:{scene.name}:orders", "-o", how).code == 0
    assert inside("rsmq", "counts", *place).code == 0
    told = inside("doctor", f"rsmq:{scene.name}:orders", "-o", "json")
    assert told.code == 0, told
    assert_shaped(json.loads(told.out), [FINDING])
    [finding] = [one for one in json.loads(told.out) if one["code"] == code]
    own = json.loads(inside("rsmq", "doctor", "orders", *place, "-o", "json").out)
    assert {row["ailment"] for row in own} == {code}
    mended = inside(*shlex.split(finding["mend"])[1:], "--yes", "-o", "json")
    assert mended.code == 0, mended
    assert {row["outcome"] for row in json.loads(mended.out)} == {"repaired"}
    left = inside("doctor", f"rsmq:{scene.name}:orders", "-o", "json")
    assert code not in left.out, "what was mended is well"
    assert bodies(scene) | in_journal(inside) == before, "every body is in its queue, or in the journal"
    if code != "phantom":
        assert inside("rsmq", "message", "receive", "-n", "orders", *place).code == 0


def test_a_body_without_a_message_comes_back_as_one(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    _stray_body(scene)
    assert inside("rsmq", "doctor", "orders", "--ns", scene.name, "--repair", "--yes").code == 0
    assert bodies(scene) == {b'{"to": "held"}', b'{"password": "hush"}', b"later"}
    [op] = inside.operations()
    assert inside("undo", op, "--yes").code == 0
    assert scene.run(rsmq.show(scene.orders, TRIED)).body == b"tried"


@pytest.mark.parametrize("part", ["messages", "hash", "queues", "parked"])
def test_a_key_of_another_type_is_told_with_what_sets_it_aside(
    inside: Inside, scene: Scene, part: str
) -> None:
    seed_rsmq(scene)
    key = getattr(scene.orders, part)
    scene.say("DEL", key)
    scene.say("SET", key, "no such thing")
    for verb in (
        ("rsmq", "peek"),
        ("rsmq", "show"),
        ("rsmq", "purge"),
        ("rsmq", "doctor"),
        ("rsmq", "counts"),
    ):
        words = {"show": (READY,), "purge": ("--all", "--yes"), "doctor": ("--repair", "--yes")}
        ended = inside(*verb, "orders", *words.get(verb[1], ()), "--ns", scene.name)
        assert ended.code in (0, 1, 3, 4), ended
        assert "Traceback" not in ended.err
    found = json.loads(inside("doctor", f"rsmq:{scene.name}:orders", "-o", "json").out)
    [finding] = [one for one in found if one["code"] == "wrong-type"]
    assert finding["level"] == "critical"
    scene.say(*shlex.split(finding["mend"])[1:])
    assert scene.say("GET", f"{key}.aside") == b"no such thing"
    assert "wrong-type" not in inside("doctor", f"rsmq:{scene.name}:orders", "-o", "json").out


def _job(scene: Scene, job_id: str, **fields: Any) -> None:
    stored = {
        "id": job_id,
        "payload": "{}",
        "attempts": 1,
        "enqueued_at_ms": scene.now_ms() - 60_000,
    } | fields
    words = [word for pair in stored.items() if pair[1] is not None for word in pair]
    scene.say("HSET", scene.jobs.job(job_id), *words)


def _ran(scene: Scene, job_id: str) -> str:
    """A job that was enqueued, claimed and completed; answers its token, which survives."""
    scene.run(joblist.enqueue(scene.jobs, {}, now_ms=scene.now_ms(), job_id=job_id))
    claim = scene.run(joblist.claim(scene.jobs, block_ms=100, now_ms=scene.now_ms()))
    scene.run(joblist.complete(scene.jobs, job_id, claim.token, 1, now_ms=scene.now_ms()))
    return str(claim.token)


def _completed_twice(scene: Scene) -> None:
    token = _ran(scene, "x")
    scene.run(joblist.complete(scene.jobs, "x", token, 1, now_ms=scene.now_ms()))


def _failed_after_completing(scene: Scene) -> None:
    token = _ran(scene, "x")
    scene.run(joblist.fail(scene.jobs, "x", token, "late", attempts=1, now_ms=scene.now_ms()))


def _completed_while_pending(scene: Scene) -> None:
    scene.run(joblist.enqueue(scene.jobs, {}, now_ms=scene.now_ms(), job_id="x"))
    scene.run(joblist.complete(scene.jobs, "x", "", 1, now_ms=scene.now_ms()))


def _listed(which: str, **fields: Any) -> Callable[[Scene], None]:
    def plant(scene: Scene) -> None:
        if fields:
            _job(scene, "x", **fields)
        scene.say("LPUSH", getattr(scene.jobs, which), "x")

    return plant


CLAIM = {"status": "processing", "claim_token": "t"}
LISTS: dict[str, tuple[set[str], Callable[[Scene], object], str]] = {
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
def test_damage_of_a_list_is_shown_reported_and_mended(inside: Inside, scene: Scene, what: str) -> None:
    codes, plant, home = LISTS[what]
    scene.run(joblist.enqueue(scene.jobs, {"n": 1}, now_ms=scene.now_ms(), job_id="sound"))
    scene.run(joblist.bump(scene.jobs, ["sound"]))
    scene.say("RPOP", scene.jobs.pending)
    plant(scene)
    scene.say("RPUSH", scene.jobs.pending, "sound")
    for how in ("table", "json"):
        for which in ("pending", "processing", "completed", "failed"):
            assert inside("joblist", "list", scene.name, "--list", which, "-o", how).code == 0
        assert inside("joblist", "show", scene.name, "x", "-o", how).code == 0
        assert inside("joblist", "overview", scene.name, "-o", how).code == 0
        assert inside("joblist", "reclaim", scene.name, "--dry-run", "-o", how).code == 0
        assert inside("inspect", f"list:{scene.name}", "-o", how).code == 0
    own = json.loads(inside("joblist", "doctor", scene.name, "-o", "json").out)
    assert {row["ailment"] for row in own} == codes
    told = inside("doctor", f"list:{scene.name}", "-o", "json")
    assert told.code == 0, told
    mends = {one["code"]: one["mend"] for one in json.loads(told.out)}
    for code in codes:
        words = [word for word in shlex.split(mends[code])[1:] if word != "--dry-run"]
        mended = inside(*words, *(["--visibility", "1ms"] if code == "unsigned" else []), "--yes")
        assert mended.code == 0, mended
    assert json.loads(inside("joblist", "doctor", scene.name, "-o", "json").out) == []
    job = scene.run(joblist.job(scene.jobs, "x"))
    assert (dict(job.places) if job else {}).keys() == ({home} if home else set())
    if home in ("pending", "processing"):
        assert job.text("payload") == "{}", "what may run has its payload"
        assert job.ttl_ms is None, "and keeps it"
    if home == "processing":
        assert inside("joblist", "reclaim", scene.name, "--visibility", "1ms", "--yes").code == 0
        assert "pending" in scene.run(joblist.job(scene.jobs, "x")).places, "a worker gets it in the end"
    assert scene.run(joblist.job(scene.jobs, "sound")).places == {
        "pending": (scene.say("LLEN", scene.jobs.pending) - 1,)
    }


def test_what_a_repair_cannot_decide_is_told_with_what_does(inside: Inside, scene: Scene) -> None:
    say, jobs = scene.say, scene.jobs
    scene.run(joblist.enqueue(jobs, {}, now_ms=scene.now_ms(), job_id="way"))
    say("LMOVE", jobs.pending, jobs.parked, "LEFT", "LEFT")
    say("LPUSH", jobs.pending, "odd")
    say("SET", jobs.job("odd"), "no hash")
    say("HSET", f"queue:{scene.name}:stats", "enqueued_total", 3)
    found = json.loads(inside("doctor", f"list:{scene.name}", "-o", "json").out)
    mends = {one["code"]: shlex.split(one["mend"]) for one in found}
    assert mends.keys() >= {"parked", "wrong-type", "counters"}
    repaired = inside("joblist", "doctor", scene.name, "--repair", "--yes", "-o", "json")
    assert {row["outcome"] for row in json.loads(repaired.out)} == {"found"}
    say(*mends["wrong-type"][1:])
    words = [word.replace("QUEUE", scene.name) for word in mends["parked"][1:]]
    assert inside(*words, "--to-url", inside.url, "--yes").code in (0, 3)
    assert say("EXISTS", jobs.parked) == 0
    assert say("XLEN", f"{{chasqui:{scene.name}}}:stream") == 1


def test_a_job_that_always_kills_its_worker_is_given_up_on(inside: Inside, scene: Scene) -> None:
    _listed("processing", **CLAIM, attempts=9, claimed_at_ms=5)(scene)
    ended = inside("joblist", "reclaim", scene.name, "--max-attempts", "5", "--yes", "-o", "json")
    assert [row["outcome"] for row in json.loads(ended.out)] == ["failed"]
    assert scene.run(joblist.job(scene.jobs, "x")).places == {"failed": (0,)}


def test_the_doctor_examines_all_three_kinds_and_says_how_far(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    scene.say("HSET", scene.orders.hash, "gone:rc", 1)
    drafts = [rsmq.Draft("x") for _ in range(60)]
    scene.run(rsmq.send_many(scene.orders, drafts))
    _listed("pending")(scene)
    scene.run(joblist.enqueue_many(scene.jobs, [(f"j{n}", {}) for n in range(60)], now_ms=scene.now_ms()))
    ended = inside("doctor", "--sample", "50", "-o", "json")
    assert ended.code == 0, ended
    found = {(str(one["queue"]), one["code"]) for one in json.loads(ended.out)}
    assert (f"rsmq:{scene.name}:orders", "stray-field") in found
    assert f"rsmq:{scene.name}:orders: looked at 50 of 64 messages" in ended.err
    assert f"list:{scene.name}: looked at 50 of 61 pending" in ended.err
    assert inside("doctor", f"rsmq:{scene.name}:nothing").code == 4
    assert inside("doctor", f"list:{scene.name}-nothing").code == 4
    table = inside("doctor", f"rsmq:{scene.name}:orders").out
    assert "--only stray-field" in table
