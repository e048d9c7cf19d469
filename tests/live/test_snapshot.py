"""Snapshots and discovery on real servers: every state, hostile names, wrong types, and not one byte of payload."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from chasqui.inspect import discovery, snapshot
from chasqui.inspect.discovery import DiscoveredQueues
from chasqui.inspect.snapshot import Snapshot, SnapshotFailure, WrongTypeKey
from chasqui.server.commands import Commands
from chasqui.server.flow import Arg, Call
from chasqui.server.link import AsyncLink, Link
from chasqui.wire.keys import Keys
from tests.support.links import command, command_batch
from tests.support.servers.clusters import cluster_servers
from tests.support.servers.server import Server

MIB = 1 << 20
HOSTILE = [
    "",
    " ",
    "a}b",
    "{tag}",
    "a\nb",
    "\x1b]52;c;ZXZpbA==\x07",
    "[/nope]",
    "*?[]\\",
    "über 🏃",
    "x}:result:y",
    "ends}:stream",
    "\udcff\udcfe bytes",
    "n\x00ul",
]


@dataclass(slots=True)
class SnapshotHarness:
    """A link that may write, for setting scenes, and one that may not, for looking."""

    link: Link
    viewer: Link
    commands: Commands
    keys: Keys

    def command(self, *words: Arg) -> Any:
        return self.link.run(command(*words))

    def add(self, *data: bytes) -> None:
        self.link.run(command_batch(*(self.commands.add_unchecked(self.keys, ["d", one]) for one in data)))

    def seen(self) -> Snapshot:
        return self.viewer.run(snapshot.take_snapshot(self.commands, self.keys))


@pytest.fixture
def harness(server: Server, queue: str) -> Iterator[SnapshotHarness]:
    with Link.open(server.url) as link, Link.open(server.url, read_only=True) as viewer:
        yield SnapshotHarness(link, viewer, Commands(viewer.features()), Keys(queue))


def test_an_entry_from_the_future_has_waited_for_no_time(harness: SnapshotHarness) -> None:
    now_ms = int(harness.command("TIME")[0]) * 1000
    harness.command("XADD", harness.keys.stream, f"{now_ms + 3_600_000}-0", "d", "1")
    assert harness.seen().oldest_waiting_ms == 0


def test_a_queue_with_everything_in_it(harness: SnapshotHarness) -> None:
    keys = harness.keys
    now_ms = int(harness.command("TIME")[0]) * 1000
    harness.add(b"1", b"2", b"3", b"4", b"5")
    harness.command("XGROUP", "CREATE", keys.stream, "default", "0")
    harness.command("XREADGROUP", "GROUP", "default", "ada", "COUNT", 2, "STREAMS", keys.stream, ">")
    harness.command("XGROUP", "CREATECONSUMER", keys.stream, "default", "bob")
    harness.command("XADD", keys.dlq, "*", "d", "x")
    harness.command("ZADD", keys.delayed, now_ms - 60_000, "overdue", now_ms + 60_000, "later")
    harness.command("ZADD", keys.repeat, now_ms - 5000, "a", now_ms + 60_000, "b", now_ms + 70_000, "c")
    harness.command("XADD", keys.events, "*", "e", "drained")
    harness.command("SET", keys.promoter_lock, "c-7", "EX", 5)
    harness.command("SET", keys.scheduler_lock, "stuck")
    seen = harness.seen()
    assert (seen.queue, seen.kind) == (keys.queue, "chasquimq")
    assert abs(seen.server_time_ms - now_ms) < 10_000
    assert (seen.stream_depth, seen.waiting, seen.pending, seen.consumers) == (5, 3, 2, 2)
    assert (seen.dlq_depth, seen.events_depth) == (1, 1)
    assert (seen.delayed_depth, seen.delayed_due) == (2, 1)
    assert 60_000 <= seen.oldest_delayed_lag_ms < 80_000
    assert 0 <= seen.oldest_waiting_ms < 10_000
    assert (seen.repeatable_count, seen.repeatable_overdue, seen.next_repeat_ms) == (3, 1, now_ms - 5000)
    assert seen.promoter_lock
    assert seen.promoter_lock.holder == "c-7"
    assert 0 < (seen.promoter_lock.ttl_ms or 0) <= 5000
    assert seen.scheduler_lock == snapshot.LockHolder("stuck", None)
    [group] = seen.groups
    assert (group.name, group.pending, group.waiting, group.lag) == ("default", 2, 3, 3)
    assert group.oldest_pending_id == seen.stream.first_id
    assert group.longest_idle_ms < 10_000
    assert (seen.stream.added, seen.wrong, seen.exists) == (5, (), True)


def test_a_queue_that_is_not_there_is_empty_and_is_not_made_by_looking(harness: SnapshotHarness) -> None:
    seen = harness.seen()
    assert not seen.exists
    assert (seen.stream_depth, seen.waiting, seen.groups, seen.oldest_waiting_ms) == (0, 0, (), 0)
    assert harness.command("EXISTS", harness.keys.stream) == 0


def test_what_waits_is_counted_right_after_a_deletion_and_after_a_trim(harness: SnapshotHarness) -> None:
    stream = harness.keys.stream
    harness.command("XGROUP", "CREATE", stream, "default", "0", "MKSTREAM")
    entries = [harness.command("XADD", stream, "*", "d", n) for n in range(10)]
    harness.command("XREADGROUP", "GROUP", "default", "ada", "COUNT", 2, "STREAMS", stream, ">")
    harness.command("XDEL", stream, entries[5])
    assert (harness.seen().groups[0].lag, harness.seen().waiting) == (None, 7)
    harness.command("XTRIM", stream, "MAXLEN", 3)
    assert harness.seen().waiting == 3


def test_not_one_byte_of_payload_is_sent(harness: SnapshotHarness) -> None:
    keys = harness.keys
    big = b"x" * MIB
    harness.add(big)
    harness.command("XGROUP", "CREATE", keys.stream, "default", "0")
    harness.command("XREADGROUP", "GROUP", "default", "ada", "COUNT", 1, "STREAMS", keys.stream, ">")
    harness.add(big)
    harness.command("XADD", keys.dlq, "*", "d", big)
    harness.command("XADD", keys.events, "*", "reason", big)
    harness.command("ZADD", keys.delayed, 1, big)
    harness.seen()
    before = harness.viewer.bytes_in
    seen = harness.seen()
    assert (seen.pending, seen.waiting, seen.dlq_depth, seen.delayed_depth) == (1, 1, 1, 1)
    assert harness.viewer.bytes_in - before < 1000


def test_a_hundred_queues_are_one_round_trip(harness: SnapshotHarness) -> None:
    queues = [Keys(f"{harness.keys.queue}-{number}") for number in range(100)]
    harness.link.run(command_batch(*(Call(("XADD", keys.stream, "*", "d", "x")) for keys in queues)))
    harness.seen()
    before = harness.viewer.round_trips
    found = harness.viewer.run(snapshot.take_snapshots(harness.commands, queues))
    assert harness.viewer.round_trips - before == 1
    assert [one.queue for one in found] == [keys.queue for keys in queues]
    assert all(isinstance(one, Snapshot) and one.waiting == 1 for one in found)


@pytest.mark.parametrize("part", ["stream", "dlq", "delayed", "repeat", "events", "promoter_lock", "scheduler_lock"])
def test_a_key_of_another_type_is_reported_and_the_rest_is_seen(harness: SnapshotHarness, part: str) -> None:
    key, expected = getattr(harness.keys, part), "string" if "lock" in part else "zset"
    expected = "stream" if part in {"stream", "dlq", "events"} else expected
    harness.command("HSET", key, "no", "such type")
    other = harness.keys.dlq if part == "stream" else harness.keys.stream
    harness.command("XADD", other, "*", "d", "x")
    seen = harness.seen()
    assert seen.wrong == (WrongTypeKey(key, "hash", expected),)
    assert seen.exists
    assert seen.stream_depth + seen.dlq_depth == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_any_kind_are_found_and_looked_at(harness: SnapshotHarness, name: str) -> None:
    hostile = Keys(f"{harness.keys.queue}{name}")
    harness.link.run(command_batch(Call(("XADD", hostile.stream, "*", "d", "x"), keys=(hostile.stream,))))
    assert hostile.queue in discovery.discover_queues(harness.viewer).queues
    assert harness.viewer.run(snapshot.take_snapshot(harness.commands, hostile)).waiting == 1


def test_a_queue_is_found_by_any_key_that_holds_jobs_and_by_nothing_else(harness: SnapshotHarness) -> None:
    names = [Keys(f"{harness.keys.queue}-{number}") for number in range(7)]
    for key in (names[0].stream, names[1].dlq, names[2].events):
        harness.command("XADD", key, "*", "d", "x")
    for key in (names[3].delayed, names[4].repeat):
        harness.command("ZADD", key, 1, "x")
    harness.command("SET", names[5].result("x}:stream"), "a result")
    harness.command("SET", names[6].promoter_lock, "somebody")
    found = discovery.discover_queues(harness.viewer)
    assert found.complete
    ours = [name for name in found.queues if name.startswith(harness.keys.queue)]
    assert ours == [keys.queue for keys in names[:5]]


def test_discovery_reports_its_progress_and_stops_at_its_limit(harness: SnapshotHarness) -> None:
    prefix = harness.keys.queue
    for start in range(0, 20_000, 5000):
        harness.link.run(command_batch(*(Call(("SET", f"{prefix}-{n}", "")) for n in range(start, start + 5000))))
    reports: list[DiscoveredQueues] = []
    found = discovery.discover_queues(harness.viewer, progress=reports.append)
    assert found == reports[-1]
    assert len(reports) >= 4
    assert [one.scanned for one in reports] == sorted(one.scanned for one in reports)
    bounded = discovery.discover_queues(harness.viewer, most_keys=5000)
    assert not bounded.complete
    assert bounded.scanned < bounded.total


def test_a_restricted_user_sees_its_keys_and_the_reasons_for_the_others(harness: SnapshotHarness) -> None:
    mine, other, user = (
        Keys(harness.keys.queue),
        Keys(f"{harness.keys.queue}-secret"),
        f"viewer-{uuid.uuid4().hex[:8]}",
    )
    reads = "+ping +time +type +get +pttl +zcard +zcount +zrange +xinfo +xpending +xrange +evalsha_ro +script|load"
    key_rule = f"%R~{{chasqui:{mine.queue}}}:*"
    harness.command("ACL", "SETUSER", user, "on", ">pw", "-@all", *reads.split(), "+command|docs", "+info", key_rule)
    harness.command("XADD", mine.stream, "*", "d", "x")
    host = str(harness.link.address).removeprefix("unix://")
    with Link.open(f"unix://{user}:pw@{host}", read_only=True) as viewer:
        found = viewer.run(snapshot.take_snapshots(Commands(viewer.features()), [other, mine]))
    assert isinstance(found[0], SnapshotFailure)
    assert "the user needs" in (found[0].error.hint or "")
    assert isinstance(found[1], Snapshot)
    assert found[1].waiting == 1


async def test_in_a_cluster_it_is_one_round_trip_per_node_and_queues_are_found_on_all() -> None:
    with cluster_servers("valkey-9.1") as nodes:
        queues = [*(Keys(f"q{number}") for number in range(30)), Keys("\udcff")]
        async with AsyncLink.open(nodes.url) as link:
            commands = Commands(await link.features())
            await link.run(
                command_batch(*(Call(("XADD", keys.stream, "*", "d", "x"), keys=(keys.stream,)) for keys in queues))
            )
            await link.run(snapshot.take_snapshots(commands, queues))
            before = link.round_trips
            found = await link.run(snapshot.take_snapshots(commands, queues))
            assert link.round_trips - before == 3
            assert all(isinstance(one, Snapshot) and one.waiting == 1 for one in found)
            assert (await discovery.discover_queues_async(link)).queues == tuple(sorted(k.queue for k in queues))
