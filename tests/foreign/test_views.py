"""Queues of all kinds side by side: found by looking through the keys, seen in one round trip, no message read."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from chasqui import foreign
from chasqui.errors import Refused
from chasqui.foreign import ForeignSnapshot, JobListKeys, RsmqKeys, joblist, rsmq
from chasqui.foreign.rsmq import Draft
from chasqui.server.call import Call
from chasqui.server.commands import Commands
from chasqui.server.commands.rsmq_calls import SAMPLE
from chasqui.server.link import AsyncLink, Link
from chasqui.snapshot import Snapshot, Unseen, WrongKey
from chasqui.wire.keys import Keys
from tests.clusters import cluster
from tests.foreign.conftest import Desk
from tests.links import batch

MIB = 1 << 20
OURS_ONLY = {"groups", "stream", "dlq", "events", "caps"}
HOUR_MS = 3_600_000


def look(desk: Desk, *places: Any, **named: Any) -> list[Any]:
    with Link.open(desk.link.address, read_only=True) as viewer:
        return viewer.run(foreign.snapshots(Commands(viewer.features()), places, **named))


def test_every_field_a_table_shows_is_there_for_every_kind() -> None:
    ours = {field.name for field in fields(Snapshot)} - OURS_ONLY
    assert ours <= {field.name for field in fields(ForeignSnapshot)}


def test_an_rsmq_queue_as_seen(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq, vt_s=45))
    desk.run(rsmq.send(desk.rsmq, "held"))
    desk.run(rsmq.receive(desk.rsmq, vt_ms=HOUR_MS))
    desk.run(rsmq.send_many(desk.rsmq, [Draft("ready"), Draft("ready"), Draft("later", delay_ms=HOUR_MS)]))
    [seen] = look(desk, desk.rsmq)
    assert (seen.kind, seen.queue, seen.namespace) == ("rsmq", "orders", desk.name)
    assert (seen.stream_depth, seen.waiting, seen.pending, seen.delayed_depth, seen.hidden) == (4, 2, 1, 1, 2)
    assert 0 <= seen.oldest_waiting_ms < 10_000
    assert (seen.consumers, seen.dlq_depth, seen.repeatable_count, seen.events_depth) == (None,) * 4
    assert (seen.attributes.vt_s, seen.attributes.sent, seen.attributes.received) == (45, 4, 1)
    assert seen.listed
    assert seen.exists


def test_more_hidden_messages_than_a_look_goes_through_are_not_guessed_apart(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq))
    desk.run(rsmq.send_many(desk.rsmq, [Draft("x", delay_ms=HOUR_MS)] * (SAMPLE + 1)))
    [seen] = look(desk, desk.rsmq)
    assert (seen.hidden, seen.pending, seen.delayed_depth) == (SAMPLE + 1, None, None)
    assert desk.run(rsmq.counts(desk.rsmq)).delayed == SAMPLE + 1


def test_a_list_queue_as_seen(desk: Desk) -> None:
    then = desk.now_ms() - 60_000
    for payload in range(4):
        desk.run(joblist.enqueue(desk.jobs, payload, now_ms=then))
    for ago in (9000, 0):
        desk.run(joblist.claim(desk.jobs, block_ms=100, now_ms=desk.now_ms() - ago))
    desk.say("LPUSH", desk.jobs.failed, "a", "b")
    desk.say("LPUSH", desk.jobs.completed, "c")
    [seen] = look(desk, desk.jobs, visibility_ms=5000)
    assert (seen.kind, seen.waiting, seen.pending, seen.dlq_depth, seen.completed) == ("joblist", 2, 2, 2, 1)
    assert 60_000 <= seen.oldest_waiting_ms < 90_000
    assert 9000 <= seen.longest_idle_ms < 30_000
    assert seen.stale == 1
    assert (seen.delayed_depth, seen.repeatable_count, seen.attributes) == (None, None, None)
    assert look(desk, desk.jobs)[0].stale is None


def test_what_is_not_there_is_empty_and_not_made_by_looking(desk: Desk) -> None:
    for seen in look(desk, desk.rsmq, desk.jobs):
        assert not seen.exists
        assert (seen.stream_depth, seen.waiting, seen.wrong) == (0, 0, ())
    assert desk.say("EXISTS", desk.rsmq.hash, desk.rsmq.messages, *desk.jobs.lists) == 0


def test_twenty_queues_of_each_kind_are_one_round_trip(desk: Desk) -> None:
    ours = [Keys(f"{desk.name}-{n}") for n in range(20)]
    lists = [JobListKeys(f"{desk.name}-{n}") for n in range(20)]
    theirs = [RsmqKeys(f"q{n}", desk.name) for n in range(20)]
    for keys in theirs:
        desk.run(rsmq.create(keys))
        desk.run(rsmq.send(keys, "x"))
    for jobs in lists:
        desk.run(joblist.enqueue(jobs, "x", now_ms=desk.now_ms()))
    desk.run(batch(*(Call(("XADD", keys.stream, "*", "d", "x")) for keys in ours)))
    mixed = [place for trio in zip(ours, lists, theirs, strict=True) for place in trio]
    with Link.open(desk.link.address, read_only=True) as viewer:
        commands = Commands(viewer.features())
        viewer.run(foreign.snapshots(commands, mixed[:3]))
        before = viewer.round_trips
        seen = viewer.run(foreign.snapshots(commands, mixed))
        assert viewer.round_trips - before == 1
    assert [one.queue for one in seen] == [place.queue for place in mixed]
    assert all(not isinstance(one, Unseen) and one.waiting == 1 for one in seen)
    assert {one.kind for one in seen if not isinstance(one, Unseen)} == {"chasquimq", "rsmq", "joblist"}


def test_not_one_byte_of_a_message_is_sent(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq, maxsize=-1))
    desk.run(rsmq.send(desk.rsmq, b"x" * MIB))
    desk.run(joblist.enqueue(desk.jobs, "x" * MIB, now_ms=desk.now_ms()))
    desk.run(joblist.claim(desk.jobs, block_ms=100, now_ms=desk.now_ms()))
    with Link.open(desk.link.address, read_only=True) as viewer:
        flow = foreign.snapshots(Commands(viewer.features()), [desk.rsmq, desk.jobs])
        viewer.run(flow)
        before = viewer.bytes_in
        viewer.run(foreign.snapshots(Commands(viewer.features()), [desk.rsmq, desk.jobs]))
        assert viewer.bytes_in - before < 1500


def test_a_key_of_another_type_is_told_and_the_rest_is_seen(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq))
    desk.say("SET", desk.rsmq.messages, "no set")
    desk.say("LPUSH", desk.jobs.pending, "a")
    desk.say("SET", desk.jobs.failed, "no list")
    desk.say("SET", desk.jobs.job("a"), "no hash")
    theirs, lists = look(desk, desk.rsmq, desk.jobs)
    assert theirs.wrong == (WrongKey(desk.rsmq.messages, "string", "zset"),)
    assert theirs.attributes is not None
    assert lists.wrong == (WrongKey(desk.jobs.failed, "string", "list"),)
    assert (lists.waiting, lists.dlq_depth) == (1, 0)


@pytest.mark.parametrize("name", ["orders", "has space.é", "\udcff\udcfe", "*?[]\\", "{tag}"])
def test_queues_of_all_kinds_are_found(desk: Desk, name: str) -> None:
    listed, unlisted, phantom = (RsmqKeys(f"{name}{n}", f"{desk.name}:deep") for n in range(3))
    for keys in (listed, unlisted):
        desk.say("HSET", keys.hash, "vt", 30, "delay", 0, "maxsize", 65536)
    desk.say("SADD", listed.queues, listed.queue, phantom.queue)
    desk.say("HSET", f"{desk.name}:not a queue:Q", "some", "thing")
    lists = [JobListKeys(f"{desk.name}{name}{n}") for n in range(4)]
    for jobs, key in zip(lists, ("pending", "processing", "completed", "failed"), strict=True):
        desk.say("LPUSH", getattr(jobs, key), "x")
    with Link.open(desk.link.address, read_only=True) as viewer:
        found = foreign.discover(viewer)
        ours = [keys for keys in found.rsmq if keys.namespace.startswith(desk.name)]
        assert ours == sorted([listed, unlisted, phantom], key=lambda keys: keys.queue)
        assert {keys for keys in found.joblists if keys.queue.startswith(desk.name)} == set(lists)
        seen = viewer.run(foreign.snapshots(Commands(viewer.features()), [*ours, *lists]))
        assert all(isinstance(one, ForeignSnapshot) and one.exists for one in seen)


def test_looking_tells_how_it_gets_on_and_stops_when_told(desk: Desk) -> None:
    for start in range(0, 20_000, 5000):
        desk.run(batch(*(Call(("SET", f"{desk.name}-{n}", "")) for n in range(start, start + 5000))))
    heard: list[foreign.ForeignQueues] = []
    found = foreign.discover(desk.link, progress=heard.append)
    assert found == heard[-1]
    assert len(heard) >= 4
    bounded = foreign.discover(desk.link, most_keys=5000)
    assert not bounded.complete
    assert bounded.looked < bounded.total


async def test_in_a_cluster_it_is_one_round_trip_per_node() -> None:
    with cluster("valkey-9.1") as nodes:
        theirs = [RsmqKeys(f"q{n}", f"{{r{n}}}") for n in range(10)]
        lists = [JobListKeys(f"{{l{n}}}") for n in range(10)]
        ours = [Keys(f"q{n}") for n in range(10)]
        untagged = RsmqKeys("orders")
        async with AsyncLink.open(nodes.url) as link:
            commands = Commands(await link.features())
            for keys in theirs:
                await link.run(rsmq.create(keys))
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
            assert isinstance(seen[30], Unseen)
            found = await foreign.discover_async(link)
            assert set(found.rsmq) == set(theirs)
            assert set(found.joblists) == set(lists)


def test_a_read_only_link_is_enough_for_everything_that_only_looks(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq))
    sent = desk.run(rsmq.send(desk.rsmq, "x"))
    desk.run(joblist.enqueue(desk.jobs, "x", now_ms=desk.now_ms()))
    with Link.open(desk.link.address, read_only=True) as viewer:
        looks: list[Any] = [
            rsmq.names(desk.name),
            rsmq.stats(desk.rsmq),
            rsmq.peek(desk.rsmq, 9),
            rsmq.show(desk.rsmq, sent),
            rsmq.counts(desk.rsmq),
            rsmq.examine(desk.rsmq),
            rsmq.purge(desk.rsmq, rsmq.Filter(), dry_run=True),
            joblist.depths(desk.jobs),
            joblist.ids(desk.jobs, "pending"),
            joblist.overview(desk.jobs),
            joblist.examine(desk.jobs),
            joblist.reclaim(desk.jobs, dry_run=True),
        ]
        for flow in looks:
            viewer.run(flow)
        assert foreign.migrate(viewer, desk.rsmq, desk.ours, dry_run=True).before.ready == 1
        with pytest.raises(Refused):
            viewer.run(rsmq.receive(desk.rsmq))
