"""Snapshots and discovery with canned replies: round trips counted, odd replies read."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui.errors import AuthRefused
from chasqui.inspect import discovery, snapshot
from chasqui.inspect.discovery import DiscoveredQueues
from chasqui.inspect.snapshot import Snapshot, SnapshotFailure, WrongTypeKey
from chasqui.server.commands import Commands, StreamExtent
from chasqui.server.features import Features
from chasqui.wire.keys import Keys
from tests.support.flow_player import run_flow

COMMANDS = Commands(Features(idmp=True, ackdel=True, claim=True, kind="redis", version="8.6"))
TYPES = [b"stream", b"none", b"zset", b"none", b"none", b"string", b"none"]


def reply(*, stream: list[Any] | None = None, groups: list[Any] | None = None, types: list[bytes] = TYPES) -> list[Any]:
    return [
        10_000,
        types,
        stream or [3, b"4000-0", b"6000-0", 9],
        groups if groups is not None else [[b"default", 2, 1, b"4000-0", 2, b"5000-0", b"4000-0", 70]],
        [],
        [2, 1, b"9000"],
        [],
        [],
        [b"ada", -1],
        [],
    ]


def one(reply: list[Any]) -> Snapshot:
    found, rounds = run_flow(snapshot.take_snapshot(COMMANDS, Keys("mail")), [[reply]])
    assert rounds == 1
    return found


@pytest.mark.parametrize("queues", [1, 100])
def test_any_number_of_queues_is_one_round_trip(queues: int) -> None:
    keys = [Keys(f"q{number}") for number in range(queues)]
    found, rounds = run_flow(snapshot.take_snapshots(COMMANDS, keys), [[reply()] * queues])
    assert rounds == 1
    assert [one.queue for one in found] == [one.queue for one in keys]


def test_no_queues_are_no_round_trip() -> None:
    assert run_flow(snapshot.take_snapshots(COMMANDS, []), []) == ([], 0)


def test_ages_are_measured_by_the_servers_clock() -> None:
    found = one(reply())
    assert (found.oldest_waiting_ms, found.oldest_delayed_lag_ms) == (5000, 1000)
    assert (found.waiting, found.pending, found.consumers, found.longest_idle_ms) == (2, 1, 2, 70)
    assert found.promoter_lock == snapshot.LockHolder("ada", None)
    assert found.stream == StreamExtent(3, "4000-0", "6000-0", 9)


@pytest.mark.parametrize(
    ("group", "waiting"),
    [
        ([b"g", 1, 1, b"4000-0", None, b"5000-0", b"4000-0", 0], 2),  # the server does not know
        ([b"g", 1, 1, b"4000-0", 99, b"5000-0", b"4000-0", 0], 3),  # it counts what was trimmed
        ([b"g", 1, 9, b"4000-0", None, b"5000-0", b"4000-0", 0], 1),  # pending ones were deleted
        ([b"g", 1, 0, b"3000-0", None, b"4000-0", None, 0], 3),  # nothing that was read is left
        ([b"g", 1, 3, b"6000-0", 0, None, b"4000-0", 0], 0),
    ],
)
def test_what_waits_is_counted_also_where_the_server_is_wrong(group: list[Any], waiting: int) -> None:
    assert one(reply(groups=[group])).waiting == waiting


def test_without_a_group_everything_waits() -> None:
    found = one(reply(groups=[]))
    assert (found.groups, found.pending, found.waiting, found.oldest_waiting_ms) == ((), 0, 3, 6000)


def test_with_several_groups_the_one_furthest_behind_counts() -> None:
    ahead = [b"a", 1, 1, b"6000-0", 0, None, b"4000-0", 5]
    behind = [b"b\xff", 2, 1, b"4000-0", 2, b"5000-0", b"4000-0", 9]
    found = one(reply(groups=[ahead, behind]))
    assert (found.waiting, found.pending, found.consumers, found.oldest_waiting_ms) == (2, 2, 3, 5000)
    assert found.groups[1].name == "b\udcff"


def test_a_key_of_another_type_is_reported() -> None:
    types = [b"stream", b"string", *TYPES[2:]]
    assert one(reply(types=types)).wrong == (WrongTypeKey("{chasqui:mail}:dlq", "string", "stream"),)


def test_a_queue_that_may_not_be_looked_at_does_not_hide_the_others() -> None:
    refused = AuthRefused("no", code="NOPERM")
    found, _ = run_flow(snapshot.take_snapshots(COMMANDS, [Keys("a"), Keys("b")]), [[refused, reply()]])
    assert found[0] == SnapshotFailure("a", refused)
    assert isinstance(found[1], Snapshot)
    with pytest.raises(AuthRefused):
        run_flow(snapshot.take_snapshot(COMMANDS, Keys("a")), [[refused]])


def test_queues_are_found_in_pages_with_both_types_side_by_side() -> None:
    reports: list[DiscoveredQueues] = []
    flow = discovery.discover_on_node(page=10, progress=reports.append)
    pages: list[Any] = [
        [25],
        [
            [b"7", [b"{chasqui:mail}:stream", b"other", b"{chasqui:mail}:events"]],
            [b"9", [b"{chasqui:later}:delayed"]],
        ],
        [[b"8", [b"{chasqui:a}b}:dlq"]], [b"0", []]],
        [[b"0", [b"{chasqui:\xff\n}:stream", b"{chasqui:x}:stream:more"]]],
    ]
    found, rounds = run_flow(flow, pages)
    assert found == DiscoveredQueues(("a}b", "later", "mail", "\udcff\n"), 25, 25, complete=True)
    assert rounds == 4
    assert [(one.scanned, one.total, one.complete) for one in reports] == [
        (10, 25, False), (20, 25, False), (25, 25, True),
    ]  # fmt: skip


def test_a_search_for_queues_that_ends_early_reports_it() -> None:
    flow = discovery.discover_on_node(page=10, most_keys=10)
    found, _ = run_flow(flow, [[1000], [[b"7", [b"{chasqui:mail}:stream"]], [b"7", []]]])
    assert found == DiscoveredQueues(("mail",), 10, 1000, complete=False)
