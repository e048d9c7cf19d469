"""Ranges of a stream on real servers: whatever is trimmed, deleted or created again, the sum is right."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui.errors import WrongType
from chasqui.inspect import stream_range
from chasqui.inspect.stream_range import StreamPage, StreamPosition
from chasqui.server.link import Link
from chasqui.wire.entry_id import sort_key
from tests.live.conftest import Everywhere
from tests.support.queue_harness import QueueHarness


def fill(b: QueueHarness, count: int) -> list[str]:
    return [b.command("XADD", b.keys.events, "*", "e", "active", "id", str(n)).decode() for n in range(count)]


def outlive(b: QueueHarness, entry_id: str) -> None:
    """Let the millisecond of an entry pass: the ids of a stream created again could not be distinguished."""
    while b.now_ms() <= sort_key(entry_id)[0]:
        pass


def read(b: QueueHarness, at: StreamPosition, **bounds: Any) -> StreamPage:
    return b.run(stream_range.read_page(b.commands, b.keys.events, at, **bounds))


def test_a_stretch_is_read_in_chunks_that_know_their_ordinals(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> list[Any]:
        ids = fill(b, 25)
        first = read(b, StreamPosition(), count=10)
        last = read(b, first.next_position, count=100)
        assert [row[0].decode() for row in first.rows + last.rows] == ids
        assert last.next_position == StreamPosition(ids[-1], 25)
        return [first.next_position.ordinal, last.is_last, first.lost + last.lost]

    assert on_every_server(story).result == [10, True, 0]


def test_what_was_trimmed_between_two_reads_is_counted(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> list[Any]:
        fill(b, 30)
        at = read(b, StreamPosition(), count=10).next_position
        b.command("XTRIM", b.keys.events, "MAXLEN", 12)
        chunk = read(b, at, count=5)
        return [chunk.lost, len(chunk.rows), chunk.next_position.ordinal, chunk.is_other_stream]

    assert on_every_server(story).result == [8, 5, 23, False]


def test_a_stream_created_again_is_recognised_though_its_ids_go_on(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> list[Any]:
        fill(b, 10)
        at = read(b, StreamPosition(), count=100).next_position
        b.command("DEL", b.keys.events)
        gone = read(b, at)
        outlive(b, at.id)
        fill(b, 3)
        shorter = read(b, at)
        fill(b, 20)
        longer = read(b, at)
        return [gone.reach.exists, gone.is_other_stream, shorter.is_other_stream, longer.is_other_stream]

    assert on_every_server(story).result == [False, False, True, True]


def test_a_walk_finds_the_nth_entry_and_stops_at_the_end(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> list[Any]:
        ids = fill(b, 40)
        there = b.run(stream_range.position_after(b.commands, b.keys.events, StreamPosition(), 17, hop=5))
        assert there == StreamPosition(ids[16], 17)
        end = b.run(stream_range.position_after(b.commands, b.keys.events, there, 100, hop=5))
        assert end == StreamPosition(ids[-1], 40)
        bounded = b.run(
            stream_range.position_after(b.commands, b.keys.events, StreamPosition(), 100, last=ids[9], hop=5)
        )
        return [bounded.ordinal]

    assert on_every_server(story).result == [10]


def test_reading_takes_one_round_trip(harnesses: list[QueueHarness]) -> None:
    b = harnesses[0]
    fill(b, 3)
    with Link.open(b.link.address) as link:
        chunk = link.run(stream_range.read_page(b.commands, b.keys.events, StreamPosition()))
        assert (len(chunk.rows), link.round_trips) == (3, 1)


def test_a_key_that_is_not_a_stream_is_an_error(harnesses: list[QueueHarness]) -> None:
    b = harnesses[0]
    b.command("SET", b.keys.events, "text")
    with pytest.raises(WrongType, match="not a stream"):
        read(b, StreamPosition())


def standing(b: QueueHarness, at: StreamPosition) -> stream_range.PositionStatus:
    return b.run(stream_range.check_position(b.commands, b.keys.events, at))[0]


def rolled_back(b: QueueHarness, ids: list[str], remaining: int) -> None:
    """The stream as a server has it that crashed before the newest entries were on its disk."""
    b.command("DEL", b.keys.events)
    for n, entry_id in enumerate(ids[:remaining]):
        b.command("XADD", b.keys.events, entry_id, "e", "active", "id", str(n))


def test_a_stream_rolled_back_and_one_created_again_are_distinguished(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> list[Any]:
        ids = fill(b, 20)
        at = StreamPosition(ids[-1], 20)
        statuses = [standing(b, at)]
        rolled_back(b, ids, remaining=15)
        statuses.append(standing(b, at))
        assert b.run(stream_range.position_after_rollback(b.commands, b.keys.events, at)) == StreamPosition(
            ids[14], 15, epoch=1
        )
        outlive(b, at.id)
        fill(b, 12)
        statuses.append(standing(b, at))
        resumed = b.run(stream_range.position_after_rollback(b.commands, b.keys.events, at))
        assert resumed == StreamPosition(at.id, 15, epoch=1)
        assert len(read(b, resumed).rows) == 12
        statuses.append(standing(b, read(b, resumed).next_position))
        b.command("DEL", b.keys.events)
        fill(b, 3)
        statuses.append(standing(b, at))
        return [one.value for one in statuses]

    assert on_every_server(story).result == ["same", "rolled back", "rolled back", "same", "recreated"]


def test_an_entry_that_was_deleted_or_trimmed_does_not_make_another_stream(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> list[Any]:
        ids = fill(b, 20)
        b.command("XDEL", b.keys.events, ids[9])
        statuses = [standing(b, StreamPosition(ids[9], 10))]
        b.command("XDEL", b.keys.events, ids[19])
        statuses.append(standing(b, StreamPosition(ids[19], 20)))
        b.command("XTRIM", b.keys.events, "MAXLEN", 3)
        statuses.append(standing(b, StreamPosition(ids[4], 5)))
        b.command("XTRIM", b.keys.events, "MAXLEN", 0)
        statuses.append(standing(b, StreamPosition(ids[19], 20)))
        return [one.value for one in statuses]

    assert on_every_server(story).result == ["same"] * 4
