"""Queues of all three kinds side by side, in one round trip; and moved to ours from the command line."""

from __future__ import annotations

import json

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.server.link import Link
from chasqui.sync_queue import SyncQueue
from chasqui.wire.keys import Keys
from chasqui_cli.commands.migrate import MIGRATION_SCHEMA
from chasqui_cli.commands.queues import QUEUE_SCHEMA
from chasqui_cli.commands.watch import WATCH_SCHEMA as WATCHED
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.session import Session
from chasqui_cli.output.records import SNAPSHOT_SCHEMA
from chasqui_cli.queues.queue_names import format_queue_ref, parse_queue_ref
from chasqui_cli.queues.targets import queue_snapshots
from tests.cli.test_read_only import overheard
from tests.support.cli.in_process import InProcessCli, assert_matches_schema
from tests.support.cli.live_command import start_command
from tests.support.cli.seeded_queue import FIXED_SNAPSHOT_FIELDS
from tests.support.cli.subprocess_cli import SubprocessCli
from tests.support.processes.engines import wait_until
from tests.support.seeds.foreign_queues import (
    DELAYED,
    FAILED,
    HELD,
    PENDING,
    READY,
    TRIED,
    ForeignQueues,
    seed_list,
    seed_rsmq,
)
from tests.support.servers.server import Server


def names(scene: ForeignQueues) -> list[str]:
    return [scene.name, f"rsmq:{scene.name}:orders", f"list:{scene.name}"]


def seed(scene: ForeignQueues, url: str) -> None:
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
        assert parse_queue_ref(name) == place
        if not isinstance(place, Keys):
            assert format_queue_ref(place) == name


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_inspect_shows_all_three_kinds(cli: InProcessCli, foreign_queues: ForeignQueues, how: str) -> None:
    seed(foreign_queues, cli.url)
    ended = cli("inspect", *names(foreign_queues), "-o", how, "--visibility", "5s")
    assert ended.code == 0, ended
    if how == "table":
        rows = {line.split()[0]: line.split() for line in ended.out.splitlines()}
        assert rows[f"rsmq:{foreign_queues.name}:orders"].count("–") >= 5
        assert rows[foreign_queues.name].count("–") == 0
        return
    result = json.loads(ended.out) if how == "json" else [json.loads(line) for line in ended.out.splitlines()]
    assert_matches_schema(result, [SNAPSHOT_SCHEMA])
    ours, theirs, listed = result
    assert list(ours)[: len(FIXED_SNAPSHOT_FIELDS)] == FIXED_SNAPSHOT_FIELDS
    assert "stale" not in ours
    assert [one["kind"] for one in result] == ["chasquimq", "rsmq", "joblist"]
    assert [one["queue"] for one in result] == names(foreign_queues)
    assert [theirs[name] for name in ("waiting", "pending", "delayed_depth", "dlq_depth")] == [2, 1, 1, None]
    assert [listed[name] for name in ("waiting", "pending", "delayed_depth", "dlq_depth")] == [1, 3, None, 1]
    assert listed["stale"] == 1


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_queues_finds_all_three_kinds(cli: InProcessCli, foreign_queues: ForeignQueues, how: str) -> None:
    seed(foreign_queues, cli.url)
    ended = cli("queues", "-o", how)
    assert ended.code == 0, ended
    for name in names(foreign_queues):
        assert name in ended.out
    if how == "json":
        result = json.loads(ended.out)
        assert_matches_schema(result, [QUEUE_SCHEMA])
        mine = {row["queue"]: row for row in result if row["queue"] in names(foreign_queues)}
        codes = [one["code"] for one in mine[f"list:{foreign_queues.name}"]["findings"]]
        assert "dead-letters" in codes


def test_watch_check_and_metrics_know_them(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    pytest.importorskip("prometheus_client")
    seed(foreign_queues, cli.url)
    watched = cli("watch", *names(foreign_queues), "--count", "2", "--interval", "100ms", "-o", "jsonl")
    rows = [json.loads(line) for line in watched.out.splitlines()]
    assert_matches_schema(rows, [WATCHED])
    assert len(rows) == 6
    assert rows[4]["added"] == 0, "RSMQ counts what was sent"
    assert rows[5]["added"] is None, "nobody counts what was enqueued to a list"
    _, theirs, listed = names(foreign_queues)
    fine = cli("check", theirs, "--age-warn", "0", "--age-crit", "0")
    assert (fine.code, fine.out.split(" | ")[0].split()[:2]) == (0, ["CHASQUI", "OK"]), fine
    assert "dlq=" not in fine.out
    assert cli("check", listed, "--dlq-warn", "1").code == 1
    assert cli("check", f"rsmq:{foreign_queues.name}:none").code == 3
    served = cli("metrics", *names(foreign_queues)).out
    assert f'chasqui_waiting{{queue="{theirs}"}} 2.0' in served
    assert f'chasqui_dead_letters{{queue="{listed}"}} 1.0' in served
    assert f'chasqui_dead_letters{{queue="{theirs}"}}' not in served


def test_twenty_of_each_kind_take_one_round_trip(
    cli: InProcessCli, foreign_queues: ForeignQueues, server: Server
) -> None:
    queue_names: list[str] = []
    for number in range(20):
        orders, jobs = (
            RsmqKeys(f"q{number}", foreign_queues.name),
            JobListKeys(f"{foreign_queues.name}-{number}"),
        )
        foreign_queues.run(rsmq.create_queue(orders))
        foreign_queues.run(rsmq.send(orders, "x" * 1000))
        foreign_queues.run(joblist.enqueue(jobs, {}, now_ms=foreign_queues.now_ms()))
        with SyncQueue(f"{foreign_queues.name}-{number}", redis_url=cli.url) as queue:
            queue.add("job", {})
        queue_names += [f"{foreign_queues.name}-{number}", format_queue_ref(orders), format_queue_ref(jobs)]
    with Link.open(cli.url, read_only=True) as link, overheard(server) as monitored:
        session = Session(link)
        queue_snapshots(CommandContext(quiet=True), session, queue_names[:3])
        before = link.round_trips
        seen = queue_snapshots(CommandContext(quiet=True), session, queue_names)
        assert link.round_trips - before == 1
    assert [one.queue for one in seen] == queue_names
    assert [one.waiting for one in seen if hasattr(one, "waiting")] == [1] * 60
    with overheard(server) as more:
        assert cli("queues").code == 0
        assert cli("inspect", "-o", "json").code == 0
        assert cli("rsmq", "doctor", "q1", "--ns", foreign_queues.name).code == 0
    assert not [line for line in (*monitored, *more) if "HGETALL" in line.upper()]


def test_damaged_queues_do_not_hide_the_others(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed(foreign_queues, cli.url)
    foreign_queues.command("SET", f"{foreign_queues.name}:odd:Q", "no hash")
    foreign_queues.command("SADD", f"{foreign_queues.name}:QUEUES", "odd", "phantom")
    foreign_queues.command("SET", f"queue:{foreign_queues.name}-odd:failed", "no list")
    foreign_queues.command("LPUSH", f"queue:{foreign_queues.name}-odd:pending", "x")
    ended = cli("queues", "-o", "json")
    assert ended.code == 0, ended
    codes = {str(row["queue"]): {one["code"] for one in row["findings"]} for row in json.loads(ended.out)}
    assert "wrong-type" in codes[f"rsmq:{foreign_queues.name}:odd"]
    assert codes[f"rsmq:{foreign_queues.name}:phantom"] == {"phantom"}
    assert "wrong-type" in codes[f"list:{foreign_queues.name}-odd"]
    assert f"rsmq:{foreign_queues.name}:orders" in codes


def test_migrate_shows_its_plan_and_carries_it_out(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    line = (
        "migrate",
        f"rsmq://{foreign_queues.name}/orders",
        f"chasqui://{foreign_queues.name}",
        "-o",
        "json",
    )
    planned = json.loads(cli(*line, "--dry-run").out)
    assert_matches_schema(planned, MIGRATION_SCHEMA)
    assert (planned["moved"], planned["before"]["ready"], planned["before"]["held"]) == (0, 2, 1)
    assert cli(*line).code == 5
    done = cli(*line, "--yes")
    assert done.code == 0, done
    report = json.loads(done.out)
    assert_matches_schema(report, MIGRATION_SCHEMA)
    assert (report["moved"], report["counts"]["stream"], report["counts"]["delayed"]) == (3, 2, 1)
    assert report["after"] | {"sent": 0, "received": 0} == {
        "ready": 0, "delayed": 0, "held": 1, "failed": 0, "parked": 0, "sent": 0, "received": 0
    }  # fmt: skip
    seen = json.loads(cli("inspect", foreign_queues.name, "-o", "json").out)[0]
    assert (seen["stream_depth"], seen["delayed_depth"]) == (2, 1)
    for job_id, state in ((READY, "waiting"), (TRIED, "waiting"), (DELAYED, "delayed")):
        result = cli("why", job_id, "--queue", foreign_queues.name, "-o", "json")
        assert json.loads(result.out)["state"] == state
    assert [message.id for message in foreign_queues.run(rsmq.peek(foreign_queues.orders, 10))] == [HELD]
    again = json.loads(cli(*line, "--yes").out)
    assert again["moved"] == 0
    empty = cli("migrate", f"rsmq://{foreign_queues.name}/nothing", "chasqui://x", "--yes")
    assert empty.err.count("warning") == 1
    assert cli("migrate", "kafka://x", "chasqui://x").code == 2
    assert cli("migrate", "rsmq://x", "rsmq://y").code == 2


def test_migrate_to_another_server(cli: InProcessCli, foreign_queues: ForeignQueues, any_server: Server) -> None:
    seed_list(foreign_queues)
    line = (
        "migrate",
        f"joblist://{foreign_queues.name}",
        f"chasqui://{foreign_queues.name}-far",
        "--to-url",
        any_server.url,
    )
    done = cli(*line, "--visibility", "5s", "--yes", "-o", "json")
    assert done.code in (0, 3), done
    report = json.loads(done.out)
    assert report["counts"]["dlq"] == 1
    assert report["after"]["parked"] == 0
    result = json.loads(cli("inspect", f"{foreign_queues.name}-far", "-u", any_server.url, "-o", "json").out)[0]
    assert result["stream_depth"] >= 1
    assert result["dlq_depth"] == 1
    for job_id in (PENDING, FAILED):
        assert foreign_queues.run(joblist.read_job(foreign_queues.jobs, job_id)) is None


def test_following_bridges_live_producers_until_it_is_interrupted(
    cli_process: SubprocessCli, foreign_queues: ForeignQueues, server: Server
) -> None:
    seed_rsmq(foreign_queues)
    stream = Keys(foreign_queues.name).stream
    words = (
        "migrate",
        f"rsmq://{foreign_queues.name}/orders",
        f"chasqui://{foreign_queues.name}",
        "--follow",
        "--yes",
    )
    with start_command(cli_process, *words, "-o", "json", "-u", server.url) as mover:
        wait_until(lambda: foreign_queues.command("XLEN", stream) == 2, "what was there is moved")
        foreign_queues.run(rsmq.send(foreign_queues.orders, "while it runs"))
        wait_until(lambda: foreign_queues.command("XLEN", stream) == 3, "what was sent is moved")
        foreign_queues.run(rsmq.change_visibility(foreign_queues.orders, HELD, 0))
        wait_until(lambda: foreign_queues.command("XLEN", stream) == 4, "what was held is moved when it is visible")
        assert mover.interrupt() == 0
        mover.wait_until(lambda it: it.out[-1:] == ["}"], "the report")
        assert json.loads("\n".join(mover.out))["moved"] == 5
