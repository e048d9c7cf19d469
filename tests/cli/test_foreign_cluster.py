"""Other systems' queues on a real cluster: tagged ones worked on, untagged ones looked at and otherwise refused; moved
into the cluster, within it and out of it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.server.link import Link
from chasqui.sync_queue import SyncQueue
from chasqui.wire.keys import Keys
from chasqui_cli.context.command_context import CommandContext
from chasqui_cli.context.session import Session
from chasqui_cli.queues.targets import queue_snapshots
from tests.support.cli.in_process import InProcessCli
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
from tests.support.servers.clusters import ClusterServers, cluster_servers
from tests.support.servers.server import Server

pytestmark = pytest.mark.xdist_group("foreign cluster")


@pytest.fixture(scope="module")
def nodes() -> Iterator[ClusterServers]:
    with cluster_servers("redis-7.0") as ready:
        yield ready


@pytest.fixture
def foreign_queues(nodes: ClusterServers, cli: InProcessCli, queue: str) -> Iterator[ForeignQueues]:
    """Its names have a tag, so that all keys lie together."""
    cli.url = nodes.url
    with Link.open(nodes.url) as link:
        yield ForeignQueues(link, f"{{{queue[-12:]}}}")


@pytest.fixture
def flat(foreign_queues: ForeignQueues) -> ForeignQueues:
    """Queues without a tag, as clients leave them that were pointed at a cluster: none of their scripts works."""
    bare = ForeignQueues(foreign_queues.link, foreign_queues.name.strip("{}"))
    orders, jobs = bare.orders, bare.jobs
    fields: dict[str, Any] = {"vt": 30, "delay": 0, "maxsize": 65536, "created": 1, "modified": 1}
    fields |= {
        READY: "ready",
        TRIED: "tried",
        f"{TRIED}:rc": 2,
        f"{TRIED}:fr": 5,
        HELD: "held",
        f"{HELD}:rc": 1,
    }
    bare.command("HSET", orders.hash, *(word for pair in fields.items() for word in pair), DELAYED, b"\xff")
    bare.command("SADD", orders.queues, "orders")
    later = bare.now_ms() + 3_600_000
    bare.command("ZADD", orders.messages, 5, READY, 5, TRIED, later, HELD, later, DELAYED)
    bare.command("LPUSH", jobs.pending, PENDING)
    bare.command("LPUSH", jobs.processing, "claimed")
    bare.command("HSET", jobs.job(PENDING), "id", PENDING, "payload", "{}", "status", "pending")
    return bare


def test_untagged_queues_are_looked_at_in_one_round_trip_per_node(
    cli: InProcessCli, foreign_queues: ForeignQueues, flat: ForeignQueues, nodes: ClusterServers
) -> None:
    seed_rsmq(foreign_queues)
    seed_list(foreign_queues)
    with SyncQueue(flat.name, redis_url=nodes.url) as ours:
        ours.add("job", {})
    names = [flat.name]
    names += [
        f"{kind}:{one.name}{rest}"
        for one in (foreign_queues, flat)
        for kind, rest in (("rsmq", ":orders"), ("list", ""))
    ]
    result = cli("inspect", *names, "--visibility", "5s", "-o", "json")
    assert result.code == 0, result
    seen = {row["queue"]: row for row in json.loads(result.out)}
    theirs, listed = seen[f"rsmq:{flat.name}:orders"], seen[f"list:{flat.name}"]
    assert (theirs["waiting"], theirs["hidden"], theirs["pending"], theirs["listed"]) == (2, 2, None, True)
    assert (listed["waiting"], listed["pending"], listed["stale"]) == (1, 1, None)
    assert seen[f"rsmq:{foreign_queues.name}:orders"]["pending"] == 1
    with Link.open(nodes.url, read_only=True) as link:
        session = Session(link)
        queue_snapshots(CommandContext(quiet=True), session, names)
        before = link.round_trips
        queue_snapshots(CommandContext(quiet=True), session, names)
        assert link.round_trips - before <= len(nodes.masters)
    for verb in ("queues", "inspect", "metrics", "doctor"):
        assert cli(verb).code == 0, verb
    assert cli("watch", *names, "--count", "1").code == 0
    assert cli("check", f"rsmq:{flat.name}:orders", "--age-warn", "0", "--age-crit", "0").code == 1


def test_reads_of_untagged_queues_work(cli: InProcessCli, flat: ForeignQueues) -> None:
    place = ("--ns", flat.name)
    peeked = cli("rsmq", "peek", "orders", *place, "-o", "json")
    assert peeked.code == 0, peeked
    states = {row["id"]: (row["state"], row["size"]) for row in json.loads(peeked.out)}
    assert states == {
        READY: ("ready", 5),
        TRIED: ("ready", 5),
        HELD: ("in-flight", 4),
        DELAYED: ("delayed", 1),
    }
    assert list(states)[:2] == [READY, TRIED]
    first = flat.run(rsmq.read_page(flat.orders, count=1, preview=2))
    second = flat.run(rsmq.read_page(flat.orders, after=first.after, count=9))
    assert first.messages[0].body == b"re"
    assert [message.id for message in (*first.messages, *second.messages)] == list(states)
    assert json.loads(cli("rsmq", "show", "orders", TRIED, *place, "-o", "json").out)["receives"] == 2
    counted = json.loads(cli("rsmq", "counts", "orders", *place, "-o", "json").out)[0]
    assert [counted[name] for name in ("ready", "delayed", "in_flight")] == [2, 1, 1]
    assert len(cli("rsmq", "export", "orders", *place).out.splitlines()) == 4
    assert json.loads(cli("rsmq", "queue", "describe", "-n", "orders", *place).out)["msgs"] == 4
    assert json.loads(cli("rsmq", "doctor", "orders", *place, "-o", "json").out)[0]["ailment"] == "split"
    assert cli("joblist", "overview", flat.name).code == 0
    assert json.loads(cli("joblist", "list", flat.name, "-o", "json").out)[0]["id"] == PENDING
    assert cli("joblist", "show", flat.name, PENDING).code == 0
    assert json.loads(cli("joblist", "doctor", flat.name, "-o", "json").out)[0]["ailment"] == "split"


RSMQ_CHANGES = [
    "queue create -n orders", "queue delete -n orders", "message send -n orders -m x", "message receive -n orders",
    "message pop -n orders", f"message delete -n orders -i {READY}", "purge orders --all", "move orders --to other --all",
    "sweep orders --max-rc 1 --to other", "expire orders --older-than 1h", "release orders", "hold orders --for 1h --all",
    "import orders -",
]  # fmt: skip
LIST_CHANGES = [
    "enqueue", "retry --all", "cancel --all", "move --to other --all", "purge --list failed", "reclaim"
]  # fmt: skip


def test_what_needs_all_keys_at_once_is_refused_before_anything_is_done(cli: InProcessCli, flat: ForeignQueues) -> None:
    keys = [flat.orders.messages, flat.orders.hash, flat.orders.queues, *flat.jobs.lists]
    before = [flat.command("DUMP", key) for key in keys]
    lines = [["rsmq", *words.split(), "--ns", flat.name] for words in RSMQ_CHANGES]
    lines += [["joblist", verb, flat.name, *rest] for verb, *rest in map(str.split, LIST_CHANGES)]
    lines += [["migrate", f"rsmq://{flat.name}/orders", f"chasqui://{flat.name}"]]
    lines += [["migrate", f"joblist://{flat.name}", f"chasqui://{flat.name}"]]
    for words in lines:
        asks = words[0] == "migrate" or words[1] not in ("queue", "message")
        ended = cli(*words, *(["--yes"] if asks else []), stdin="")
        assert ended.code == 5, (words, ended)
        assert "several slots" in ended.err
        assert "hint: nothing was changed" in ended.err
    assert [flat.command("DUMP", key) for key in keys] == before
    assert cli.operations() == [], "nothing was written down as done"


def test_the_way_out_that_the_doctor_names_works(
    cli: InProcessCli, foreign_queues: ForeignQueues, flat: ForeignQueues
) -> None:
    found = json.loads(cli("doctor", f"rsmq:{flat.name}:orders", "-o", "json").out)
    [hint] = [one["mend"] for one in found if one["code"] == "split"]
    create, _, rest = hint.partition(" && ")
    export, _, into = rest.partition(" | ")
    assert cli(*shlex.split(create)[1:]).code == 0
    lines = cli(*shlex.split(export)[1:]).out
    ended = cli(*shlex.split(into)[1:], stdin=lines)
    assert ended.code == 0, ended
    assert [one.body for one in foreign_queues.run(rsmq.peek(foreign_queues.orders, 9))] == [
        one.body for one in flat.run(rsmq.peek(flat.orders, 9))
    ]


def test_tagged_queues_are_worked_on(cli: InProcessCli, foreign_queues: ForeignQueues, nodes: ClusterServers) -> None:
    seed_rsmq(foreign_queues)
    seed_list(foreign_queues)
    place = ("--ns", foreign_queues.name)
    assert cli("rsmq", "message", "send", "-n", "orders", "-m", "x", *place).code == 0
    assert cli("rsmq", "move", "orders", READY, "--to", "other", "--yes", *place).code == 0
    apart = cli("rsmq", "move", "orders", TRIED, "--to", "other", "--to-ns", "{elsewhere}", "--yes", *place)
    assert apart.code == 5, apart
    assert cli("rsmq", "purge", "orders", "--all", "--yes", *place).code == 0
    cli.url = ""
    op = cli("log", "-o", "name").out.split()[0]
    assert cli("undo", op, "--yes", "-u", nodes.url).code == 0
    cli.url = nodes.url
    assert {TRIED, DELAYED} <= {one.id for one in foreign_queues.run(rsmq.peek(foreign_queues.orders, 99))}
    assert cli("rsmq", "doctor", "orders", "--repair", "--yes", *place).code == 0
    assert cli("joblist", "reclaim", foreign_queues.name, "--yes").code == 0
    assert cli("joblist", "retry", foreign_queues.name, "--all", "--yes").code == 0
    assert cli("joblist", "cancel", foreign_queues.name, PENDING, "--yes").code == 0
    assert cli("joblist", "doctor", foreign_queues.name, "--repair", "--yes").code == 0


@pytest.mark.parametrize("way", ["into the cluster", "within it", "out of it"])
def test_queues_move_into_within_and_out_of_a_cluster(
    cli: InProcessCli, foreign_queues: ForeignQueues, nodes: ClusterServers, any_server: Server, way: str
) -> None:
    with Link.open(any_server.url) as single:
        source = ForeignQueues(single, foreign_queues.name) if way == "into the cluster" else foreign_queues
        target = foreign_queues if way != "out of it" else ForeignQueues(single, foreign_queues.name)
        seed_rsmq(source)
        seed_list(source)
        far = nodes.url if way == "into the cluster" else any_server.url
        cli.url = any_server.url if way == "into the cluster" else nodes.url
        at = ["--to-url", far] if way != "within it" else []
        ours = f"{foreign_queues.name.strip('{}')}-{way[:3]}"
        done = cli("migrate", f"rsmq://{foreign_queues.name}/orders", f"chasqui://{ours}", *at, "--yes", "-o", "json")
        assert done.code == 0, done
        report = json.loads(done.out)
        assert (report["counts"], report["after"]["parked"]) == ({"stream": 2, "delayed": 1, "held": 1}, 0)
        again = cli("migrate", f"joblist://{foreign_queues.name}", f"chasqui://{ours}-2", *at, "--yes", "-o", "json")
        assert json.loads(again.out)["counts"] == {"stream": 1, "dlq": 1}
        assert target.command("XLEN", Keys(ours).stream) == 2
        assert target.command("ZCARD", Keys(ours).delayed) == 1
        assert target.command("XLEN", Keys(f"{ours}-2").dlq) == 1
        assert [one.id for one in source.run(rsmq.peek(RsmqKeys("orders", foreign_queues.name), 9))] == [HELD]
        assert source.run(joblist.read_job(JobListKeys(foreign_queues.name), FAILED)) is None
        once_more = cli(
            "migrate", f"rsmq://{foreign_queues.name}/orders", f"chasqui://{ours}", *at, "--yes", "-o", "json"
        )
        assert json.loads(once_more.out)["moved"] == 0
