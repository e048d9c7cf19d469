"""Queues of all kinds side by side: found by looking through the keys, seen in one round trip, no message read."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from chasqui import foreign
from chasqui.errors import ChangeRefused
from chasqui.foreign import ForeignSnapshot, JobListKeys, RsmqKeys, joblist, rsmq
from chasqui.foreign.health_rules import foreign_findings
from chasqui.foreign.rsmq import Draft
from chasqui.foreign.rsmq.rsmq_calls import HIDDEN_SAMPLE
from chasqui.inspect.snapshot import Snapshot, SnapshotFailure, WrongTypeKey
from chasqui.server.commands import Commands
from chasqui.server.flow import Call
from chasqui.server.link import AsyncLink, Link
from chasqui.wire.keys import Keys
from tests.foreign.conftest import ForeignServer
from tests.support.links import command_batch
from tests.support.servers.clusters import cluster_servers

MIB = 1 << 20
OURS_ONLY = {"groups", "stream", "dlq", "events", "caps"}
HOUR_MS = 3_600_000


def look(server: ForeignServer, *places: Any, **named: Any) -> list[Any]:
    with Link.open(server.link.address, read_only=True) as viewer:
        return viewer.run(foreign.snapshots(Commands(viewer.features()), places, **named))


def test_every_field_a_table_shows_is_there_for_every_kind() -> None:
    ours = {field.name for field in fields(Snapshot)} - OURS_ONLY
    assert ours <= {name for name in dir(ForeignSnapshot) if not name.startswith("_")}


def test_an_rsmq_queue_as_seen(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq, vt_s=45))
    foreign_server.run(rsmq.send(foreign_server.rsmq, "held"))
    foreign_server.run(rsmq.receive(foreign_server.rsmq, vt_ms=HOUR_MS))
    foreign_server.run(
        rsmq.send_many(foreign_server.rsmq, [Draft("ready"), Draft("ready"), Draft("later", delay_ms=HOUR_MS)])
    )
    [seen] = look(foreign_server, foreign_server.rsmq)
    assert (seen.kind, seen.queue, seen.namespace) == ("rsmq", "orders", foreign_server.name)
    assert (seen.stream_depth, seen.waiting, seen.pending, seen.delayed_depth, seen.hidden) == (4, 2, 1, 1, 2)
    assert 0 <= seen.oldest_waiting_ms < 10_000
    assert (seen.consumers, seen.dlq_depth, seen.repeatable_count, seen.events_depth) == (None,) * 4
    assert (seen.attributes.vt_s, seen.attributes.sent, seen.attributes.received) == (45, 4, 1)
    assert seen.listed
    assert seen.exists


def test_more_hidden_messages_than_a_look_goes_through_are_not_guessed_apart(
    foreign_server: ForeignServer,
) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    foreign_server.run(rsmq.send_many(foreign_server.rsmq, [Draft("x", delay_ms=HOUR_MS)] * (HIDDEN_SAMPLE + 1)))
    [seen] = look(foreign_server, foreign_server.rsmq)
    assert (seen.hidden, seen.pending, seen.delayed_depth) == (HIDDEN_SAMPLE + 1, None, None)
    assert foreign_server.run(rsmq.count_by_state(foreign_server.rsmq)).delayed == HIDDEN_SAMPLE + 1


def test_a_list_queue_as_seen(foreign_server: ForeignServer) -> None:
    then = foreign_server.now_ms() - 60_000
    for payload in range(4):
        foreign_server.run(joblist.enqueue(foreign_server.jobs, payload, now_ms=then))
    for ago in (9000, 0):
        foreign_server.run(joblist.claim(foreign_server.jobs, block_ms=100, now_ms=foreign_server.now_ms() - ago))
    foreign_server.command("LPUSH", foreign_server.jobs.failed, "a", "b")
    foreign_server.command("LPUSH", foreign_server.jobs.completed, "c")
    [seen] = look(foreign_server, foreign_server.jobs, visibility_ms=5000)
    assert (seen.kind, seen.waiting, seen.pending, seen.dlq_depth, seen.completed) == ("joblist", 2, 2, 2, 1)
    assert 60_000 <= seen.oldest_waiting_ms < 90_000
    assert 9000 <= seen.longest_idle_ms < 30_000
    assert seen.stale == 1
    assert (seen.delayed_depth, seen.repeatable_count, seen.attributes) == (None, None, None)
    assert look(foreign_server, foreign_server.jobs)[0].stale is None


def test_what_is_not_there_is_empty_and_not_made_by_looking(foreign_server: ForeignServer) -> None:
    for seen in look(foreign_server, foreign_server.rsmq, foreign_server.jobs):
        assert not seen.exists
        assert (seen.stream_depth, seen.waiting, seen.wrong) == (0, 0, ())
    assert (
        foreign_server.command(
            "EXISTS", foreign_server.rsmq.hash, foreign_server.rsmq.messages, *foreign_server.jobs.lists
        )
        == 0
    )


def test_twenty_queues_of_each_kind_are_one_round_trip(foreign_server: ForeignServer) -> None:
    ours = [Keys(f"{foreign_server.name}-{n}") for n in range(20)]
    lists = [JobListKeys(f"{foreign_server.name}-{n}") for n in range(20)]
    theirs = [RsmqKeys(f"q{n}", foreign_server.name) for n in range(20)]
    for keys in theirs:
        foreign_server.run(rsmq.create_queue(keys))
        foreign_server.run(rsmq.send(keys, "x"))
    for jobs in lists:
        foreign_server.run(joblist.enqueue(jobs, "x", now_ms=foreign_server.now_ms()))
    foreign_server.run(command_batch(*(Call(("XADD", keys.stream, "*", "d", "x")) for keys in ours)))
    mixed = [place for trio in zip(ours, lists, theirs, strict=True) for place in trio]
    with Link.open(foreign_server.link.address, read_only=True) as viewer:
        commands = Commands(viewer.features())
        viewer.run(foreign.snapshots(commands, mixed[:3]))
        before = viewer.round_trips
        seen = viewer.run(foreign.snapshots(commands, mixed))
        assert viewer.round_trips - before == 1
    assert [one.queue for one in seen] == [place.queue for place in mixed]
    assert all(not isinstance(one, SnapshotFailure) and one.waiting == 1 for one in seen)
    assert {one.kind for one in seen if not isinstance(one, SnapshotFailure)} == {
        "chasquimq",
        "rsmq",
        "joblist",
    }


def test_not_one_byte_of_a_message_is_sent(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq, maxsize=-1))
    foreign_server.run(rsmq.send(foreign_server.rsmq, b"x" * MIB))
    foreign_server.run(joblist.enqueue(foreign_server.jobs, "x" * MIB, now_ms=foreign_server.now_ms()))
    foreign_server.run(joblist.claim(foreign_server.jobs, block_ms=100, now_ms=foreign_server.now_ms()))
    with Link.open(foreign_server.link.address, read_only=True) as viewer:
        flow = foreign.snapshots(Commands(viewer.features()), [foreign_server.rsmq, foreign_server.jobs])
        viewer.run(flow)
        before = viewer.bytes_in
        viewer.run(foreign.snapshots(Commands(viewer.features()), [foreign_server.rsmq, foreign_server.jobs]))
        assert viewer.bytes_in - before < 1500


def test_a_key_of_another_type_is_reported_and_the_rest_is_read(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    foreign_server.command("SET", foreign_server.rsmq.messages, "no set")
    foreign_server.command("LPUSH", foreign_server.jobs.pending, "a")
    foreign_server.command("SET", foreign_server.jobs.failed, "no list")
    foreign_server.command("SET", foreign_server.jobs.job("a"), "no hash")
    theirs, lists = look(foreign_server, foreign_server.rsmq, foreign_server.jobs)
    assert theirs.wrong == (WrongTypeKey(foreign_server.rsmq.messages, "string", "zset"),)
    assert theirs.attributes is not None
    assert lists.wrong == (WrongTypeKey(foreign_server.jobs.failed, "string", "list"),)
    assert (lists.waiting, lists.dlq_depth) == (1, 0)


@pytest.mark.parametrize("name", ["orders", "has space.é", "\udcff\udcfe", "*?[]\\", "{tag}"])
def test_queues_of_all_kinds_are_found(foreign_server: ForeignServer, name: str) -> None:
    listed, unlisted, phantom = (RsmqKeys(f"{name}{n}", f"{foreign_server.name}:deep") for n in range(3))
    for keys in (listed, unlisted):
        foreign_server.command("HSET", keys.hash, "vt", 30, "delay", 0, "maxsize", 65536)
    foreign_server.command("SADD", listed.queues, listed.queue, phantom.queue)
    foreign_server.command("HSET", f"{foreign_server.name}:not a queue:Q", "some", "thing")
    lists = [JobListKeys(f"{foreign_server.name}{name}{n}") for n in range(4)]
    for jobs, key in zip(lists, ("pending", "processing", "completed", "failed"), strict=True):
        foreign_server.command("LPUSH", getattr(jobs, key), "x")
    with Link.open(foreign_server.link.address, read_only=True) as viewer:
        found = foreign.discover(viewer)
        ours = [keys for keys in found.rsmq if keys.namespace.startswith(foreign_server.name)]
        assert ours == sorted([listed, unlisted, phantom], key=lambda keys: keys.queue)
        assert {keys for keys in found.joblists if keys.queue.startswith(foreign_server.name)} == set(lists)
        seen = viewer.run(foreign.snapshots(Commands(viewer.features()), [*ours, *lists]))
        assert all(isinstance(one, ForeignSnapshot) and one.exists for one in seen)


def test_a_search_reports_progress_and_stops_at_its_limit(foreign_server: ForeignServer) -> None:
    for start in range(0, 20_000, 5000):
        foreign_server.run(
            command_batch(*(Call(("SET", f"{foreign_server.name}-{n}", "")) for n in range(start, start + 5000)))
        )
    reports: list[foreign.ForeignQueues] = []
    found = foreign.discover(foreign_server.link, progress=reports.append)
    assert found == reports[-1]
    assert len(reports) >= 4
    bounded = foreign.discover(foreign_server.link, most_keys=5000)
    assert not bounded.complete
    assert bounded.scanned < bounded.total


async def test_in_a_cluster_it_is_one_round_trip_per_node() -> None:
    with cluster_servers("valkey-9.1") as nodes:
        theirs = [RsmqKeys(f"q{n}", f"{{r{n}}}") for n in range(10)]
        lists = [JobListKeys(f"{{l{n}}}") for n in range(10)]
        ours = [Keys(f"q{n}") for n in range(10)]
        untagged = RsmqKeys("orders")
        async with AsyncLink.open(nodes.url) as link:
            commands = Commands(await link.features())
            for keys in theirs:
                await link.run(rsmq.create_queue(keys))
                await link.run(rsmq.send(keys, "x"))
                assert await link.run(rsmq.receive(keys, vt_ms=0))
            for jobs in lists:
                await link.run(joblist.enqueue(jobs, "x", now_ms=1))
            places: list[Any] = [*ours, *lists, *theirs, untagged]
            await link.run(foreign.snapshots(commands, places))
            before = link.round_trips
            seen = await link.run(foreign.snapshots(commands, places))
            assert link.round_trips - before == 3
            assert [one.waiting for one in seen[10:30] if isinstance(one, ForeignSnapshot)] == [1] * 20
            assert isinstance(seen[30], SnapshotFailure)
            found = await foreign.discover_async(link)
            assert set(found.rsmq) == set(theirs)
            assert set(found.joblists) == set(lists)


def test_a_read_only_link_is_enough_for_everything_that_only_looks(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    sent = foreign_server.run(rsmq.send(foreign_server.rsmq, "x"))
    foreign_server.run(joblist.enqueue(foreign_server.jobs, "x", now_ms=foreign_server.now_ms()))
    with Link.open(foreign_server.link.address, read_only=True) as viewer:
        looks: list[Any] = [
            rsmq.list_queues(foreign_server.name),
            rsmq.queue_stats(foreign_server.rsmq),
            rsmq.peek(foreign_server.rsmq, 9),
            rsmq.read_message(foreign_server.rsmq, sent),
            rsmq.count_by_state(foreign_server.rsmq),
            rsmq.examine(foreign_server.rsmq),
            joblist.read_depths(foreign_server.jobs),
            joblist.list_ids(foreign_server.jobs, "pending"),
            joblist.read_overview(foreign_server.jobs),
            joblist.examine(foreign_server.jobs),
            joblist.reclaim(foreign_server.jobs, dry_run=True),
        ]
        for flow in looks:
            viewer.run(flow)
        assert foreign.migrate(viewer, foreign_server.rsmq, foreign_server.ours, dry_run=True).before.ready == 1
        with pytest.raises(ChangeRefused):
            viewer.run(rsmq.receive(foreign_server.rsmq))


def test_the_command_for_a_list_queue_names_it_even_if_it_begins_like_a_prefix(foreign_server: ForeignServer) -> None:
    keys = JobListKeys(f"list:{foreign_server.name}")
    foreign_server.run(joblist.enqueue(keys, "x", now_ms=foreign_server.now_ms() - 86_400_000))
    [seen] = foreign_server.run(foreign.snapshots(Commands(foreign_server.link.features()), [keys]))
    assert isinstance(seen, ForeignSnapshot)
    [finding] = foreign_findings(seen)
    assert finding.fix == f"chasqui joblist list {keys.queue}"
