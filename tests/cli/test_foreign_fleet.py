"""Queues of all three kinds side by side, in one round trip; and moved to ours from the command line."""

from __future__ import annotations

import json

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui.server.link import Link
from chasqui.sync_queue import SyncQueue
from chasqui.wire.joblist_keys import JobListKeys
from chasqui.wire.keys import Keys
from chasqui.wire.rsmq_keys import RsmqKeys
from chasqui_cli.commands.migrate import REPORT
from chasqui_cli.commands.queues import SHAPE
from chasqui_cli.commands.watch import SHAPE as WATCHED
from chasqui_cli.desk import Desk
from chasqui_cli.finding import seen_queues
from chasqui_cli.places import name_of, place_of
from chasqui_cli.records import SNAPSHOT
from chasqui_cli.session import Session
from tests.cli.inside import assert_shaped
from tests.cli.running import running
from tests.cli.seed_foreign import DELAYED, FAILED, HELD, PENDING, READY, TRIED, Scene, seed_list, seed_rsmq
from tests.cli.seed_foreign import scene as scene
from tests.cli.shell import Shell
from tests.cli.test_looking import FIXED
from tests.cli.test_read_only import overheard
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside
from tests.engines import await_that
from tests.servers import Server


def names(scene: Scene) -> list[str]:
    return [scene.name, f"rsmq:{scene.name}:orders", f"list:{scene.name}"]


def seed(scene: Scene, url: str) -> None:
    seed_rsmq(scene)
    seed_list(scene)
    with SyncQueue(scene.name, redis_url=url) as queue:
        queue.add("job", {"n": 1})


def test_a_name_means_one_queue() -> None:
    for name, place in {
        "orders": Keys("orders"),
        "rsmq:orders": RsmqKeys("orders"),
        "rsmq:a:b:orders": RsmqKeys("orders", "a:b"),
        "list:a:b": JobListKeys("a:b"),
        "chasqui:rsmq:orders": Keys("rsmq:orders"),
        "chasqui:orders": Keys("chasqui:orders"),
    }.items():
        assert place_of(name) == place
        if not isinstance(place, Keys):
            assert name_of(place) == name


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_inspect_shows_all_three_kinds(inside: Inside, scene: Scene, how: str) -> None:
    seed(scene, inside.url)
    ended = inside("inspect", *names(scene), "-o", how, "--visibility", "5s")
    assert ended.code == 0, ended
    if how == "table":
        rows = {line.split()[0]: line.split() for line in ended.out.splitlines()}
        assert rows[f"rsmq:{scene.name}:orders"].count("–") >= 5
        assert rows[scene.name].count("–") == 0
        return
    told = json.loads(ended.out) if how == "json" else [json.loads(line) for line in ended.out.splitlines()]
    assert_shaped(told, [SNAPSHOT])
    ours, theirs, listed = told
    assert list(ours)[: len(FIXED)] == FIXED
    assert "stale" not in ours
    assert [one["kind"] for one in told] == ["chasquimq", "rsmq", "joblist"]
    assert [one["queue"] for one in told] == names(scene)
    assert [theirs[name] for name in ("waiting", "pending", "delayed_depth", "dlq_depth")] == [2, 1, 1, None]
    assert [listed[name] for name in ("waiting", "pending", "delayed_depth", "dlq_depth")] == [1, 3, None, 1]
    assert listed["stale"] == 1


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_queues_finds_all_three_kinds(inside: Inside, scene: Scene, how: str) -> None:
    seed(scene, inside.url)
    ended = inside("queues", "-o", how)
    assert ended.code == 0, ended
    for name in names(scene):
        assert name in ended.out
    if how == "json":
        told = json.loads(ended.out)
        assert_shaped(told, [SHAPE])
        mine = {row["queue"]: row for row in told if row["queue"] in names(scene)}
        codes = [one["code"] for one in mine[f"list:{scene.name}"]["findings"]]
        assert "dead-letters" in codes


def test_watch_check_and_metrics_know_them(inside: Inside, scene: Scene) -> None:
    pytest.importorskip("prometheus_client")
    seed(scene, inside.url)
    watched = inside("watch", *names(scene), "--count", "2", "--interval", "100ms", "-o", "jsonl")
    rows = [json.loads(line) for line in watched.out.splitlines()]
    assert_shaped(rows, [WATCHED])
    assert len(rows) == 6
    assert rows[4]["added"] == 0, "RSMQ counts what was sent"
    assert rows[5]["added"] is None, "nobody counts what was enqueued to a list"
    _, theirs, listed = names(scene)
    fine = inside("check", theirs, "--age-warn", "0", "--age-crit", "0")
    assert (fine.code, fine.out.split(" | ")[0].split()[:2]) == (0, ["CHASQUI", "OK"]), fine
    assert "dlq=" not in fine.out
    assert inside("check", listed, "--dlq-warn", "1").code == 1
    assert inside("check", f"rsmq:{scene.name}:none").code == 3
    served = inside("metrics", *names(scene)).out
    assert f'chasqui_waiting{{queue="{theirs}"}} 2.0' in served
    assert f'chasqui_dead_letters{{queue="{listed}"}} 1.0' in served
    assert f'chasqui_dead_letters{{queue="{theirs}"}}' not in served


def test_twenty_of_each_kind_take_one_round_trip(inside: Inside, scene: Scene, server: Server) -> None:
    told: list[str] = []
    for number in range(20):
        orders, jobs = RsmqKeys(f"q{number}", scene.name), JobListKeys(f"{scene.name}-{number}")
        scene.run(rsmq.create(orders))
        scene.run(rsmq.send(orders, "x" * 1000))
        scene.run(joblist.enqueue(jobs, {}, now_ms=scene.now_ms()))
        with SyncQueue(f"{scene.name}-{number}", redis_url=inside.url) as queue:
            queue.add("job", {})
        told += [f"{scene.name}-{number}", name_of(orders), name_of(jobs)]
    with Link.open(inside.url, read_only=True) as link, overheard(server) as heard:
        session = Session(link)
        seen_queues(Desk(quiet=True), session, told[:3])
        before = link.round_trips
        seen = seen_queues(Desk(quiet=True), session, told)
        assert link.round_trips - before == 1
    assert [one.queue for one in seen] == told
    assert [one.waiting for one in seen if hasattr(one, "waiting")] == [1] * 60
    with overheard(server) as more:
        assert inside("queues").code == 0
        assert inside("inspect", "-o", "json").code == 0
        assert inside("rsmq", "doctor", "q1", "--ns", scene.name).code == 0
    assert not [line for line in (*heard, *more) if "HGETALL" in line.upper()]


def test_damaged_queues_do_not_hide_the_others(inside: Inside, scene: Scene) -> None:
    seed(scene, inside.url)
    scene.say("SET", f"{scene.name}:odd:Q", "no hash")
    scene.say("SADD", f"{scene.name}:QUEUES", "odd", "phantom")
    scene.say("SET", f"queue:{scene.name}-odd:failed", "no list")
    scene.say("LPUSH", f"queue:{scene.name}-odd:pending", "x")
    ended = inside("queues", "-o", "json")
    assert ended.code == 0, ended
    codes = {str(row["queue"]): {one["code"] for one in row["findings"]} for row in json.loads(ended.out)}
    assert "wrong-type" in codes[f"rsmq:{scene.name}:odd"]
    assert codes[f"rsmq:{scene.name}:phantom"] == {"phantom"}
    assert "wrong-type" in codes[f"list:{scene.name}-odd"]
    assert f"rsmq:{scene.name}:orders" in codes


def test_migrate_tells_what_it_would_do_and_does_it(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    said = ("migrate", f"rsmq://{scene.name}/orders", f"chasqui://{scene.name}", "-o", "json")
    planned = json.loads(inside(*said, "--dry-run").out)
    assert_shaped(planned, REPORT)
    assert (planned["moved"], planned["before"]["ready"], planned["before"]["held"]) == (0, 2, 1)
    assert inside(*said).code == 5
    done = inside(*said, "--yes")
    assert done.code == 0, done
    report = json.loads(done.out)
    assert_shaped(report, REPORT)
    assert (report["moved"], report["counts"]["stream"], report["counts"]["delayed"]) == (3, 2, 1)
    assert report["after"] | {"sent": 0, "received": 0} == {
        "ready": 0, "delayed": 0, "held": 1, "failed": 0, "parked": 0, "sent": 0, "received": 0
    }  # fmt: skip
    seen = json.loads(inside("inspect", scene.name, "-o", "json").out)[0]
    assert (seen["stream_depth"], seen["delayed_depth"]) == (2, 1)
    for job_id, state in ((READY, "waiting"), (TRIED, "waiting"), (DELAYED, "delayed")):
        told = inside("why", job_id, "--queue", scene.name, "-o", "json")
        assert json.loads(told.out)["state"] == state
    assert [message.id for message in scene.run(rsmq.peek(scene.orders, 10))] == [HELD]
    again = json.loads(inside(*said, "--yes").out)
    assert again["moved"] == 0
    assert inside("migrate", "kafka://x", "chasqui://x").code == 2
    assert inside("migrate", "rsmq://x", "rsmq://y").code == 2


def test_migrate_to_another_server(inside: Inside, scene: Scene, any_server: Server) -> None:
    seed_list(scene)
    said = ("migrate", f"joblist://{scene.name}", f"chasqui://{scene.name}-far", "--to-url", any_server.url)
    done = inside(*said, "--visibility", "5s", "--yes", "-o", "json")
    assert done.code in (0, 3), done
    report = json.loads(done.out)
    assert report["counts"]["dlq"] == 1
    assert report["after"]["parked"] == 0
    told = json.loads(inside("inspect", f"{scene.name}-far", "-u", any_server.url, "-o", "json").out)[0]
    assert told["stream_depth"] >= 1
    assert told["dlq_depth"] == 1
    for job_id in (PENDING, FAILED):
        assert scene.run(joblist.job(scene.jobs, job_id)) is None


def test_following_bridges_live_producers_until_it_is_interrupted(
    shell: Shell, scene: Scene, server: Server
) -> None:
    seed_rsmq(scene)
    stream = Keys(scene.name).stream
    words = ("migrate", f"rsmq://{scene.name}/orders", f"chasqui://{scene.name}", "--follow", "--yes")
    with running(shell, *words, "-o", "json", "-u", server.url) as mover:
        await_that(lambda: scene.say("XLEN", stream) == 2, "what was there is moved")
        scene.run(rsmq.send(scene.orders, "while it runs"))
        await_that(lambda: scene.say("XLEN", stream) == 3, "what was sent is moved")
        scene.run(rsmq.release(scene.orders, rsmq.Filter(ids=frozenset({HELD}), held=True)))
        await_that(lambda: scene.say("XLEN", stream) == 4, "what was held is moved when it is visible")
        assert mover.interrupted() == 0
        mover.until(lambda it: it.out[-1:] == ["}"], "the report")
        assert json.loads("\n".join(mover.out))["moved"] == 5
