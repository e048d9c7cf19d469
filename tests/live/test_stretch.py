"""Stretches of a stream on real servers: whatever is trimmed, deleted or made anew, the sum comes out."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui import stretch
from chasqui.errors import WrongType
from chasqui.server.link import Link
from chasqui.stretch import Chunk, Mark
from tests.live.bench import Bench
from tests.live.conftest import Everywhere


def fill(b: Bench, count: int) -> list[str]:
    return [b.say("XADD", b.keys.events, "*", "e", "active", "id", str(n)).decode() for n in range(count)]


def outlive(b: Bench, entry_id: str) -> None:
    """Let the millisecond of an entry pass: in a stream made anew its ids could not be told apart by anybody."""
    while b.now_ms() <= stretch.order(entry_id)[0]:
        pass


def read(b: Bench, at: Mark, **bounds: Any) -> Chunk:
    return b.run(stretch.read(b.commands, b.keys.events, at, **bounds))


def test_a_stretch_is_read_in_chunks_that_know_their_ordinals(everywhere: Everywhere) -> None:
    def story(b: Bench) -> list[Any]:
        ids = fill(b, 25)
        first = read(b, Mark(), count=10)
        last = read(b, first.end, count=100)
        assert [row[0].decode() for row in first.rows + last.rows] == ids
        assert last.end == Mark(ids[-1], 25)
        return [first.end.n, last.is_last, first.lost + last.lost]

    assert everywhere(story).told == [10, True, 0]


def test_what_was_trimmed_between_two_reads_is_counted(everywhere: Everywhere) -> None:
    def story(b: Bench) -> list[Any]:
        fill(b, 30)
        at = read(b, Mark(), count=10).end
        b.say("XTRIM", b.keys.events, "MAXLEN", 12)
        chunk = read(b, at, count=5)
        return [chunk.lost, len(chunk.rows), chunk.end.n, chunk.is_another]

    assert everywhere(story).told == [8, 5, 23, False]


def test_a_stream_made_anew_is_recognised_though_its_ids_go_on(everywhere: Everywhere) -> None:
    def story(b: Bench) -> list[Any]:
        fill(b, 10)
        at = read(b, Mark(), count=100).end
        b.say("DEL", b.keys.events)
        gone = read(b, at)
        outlive(b, at.id)
        fill(b, 3)
        shorter = read(b, at)
        fill(b, 20)
        longer = read(b, at)
        return [gone.reach.exists, gone.is_another, shorter.is_another, longer.is_another]

    assert everywhere(story).told == [False, False, True, True]


def test_a_walk_finds_the_nth_entry_and_stops_at_the_end(everywhere: Everywhere) -> None:
    def story(b: Bench) -> list[Any]:
        ids = fill(b, 40)
        there = b.run(stretch.walk(b.commands, b.keys.events, Mark(), 17, hop=5))
        assert there == Mark(ids[16], 17)
        end = b.run(stretch.walk(b.commands, b.keys.events, there, 100, hop=5))
        assert end == Mark(ids[-1], 40)
        bounded = b.run(stretch.walk(b.commands, b.keys.events, Mark(), 100, last=ids[9], hop=5))
        return [bounded.n]

    assert everywhere(story).told == [10]


def test_reading_takes_one_round_trip(benches: list[Bench]) -> None:
    b = benches[0]
    fill(b, 3)
    with Link.open(b.link.address) as link:
        chunk = link.run(stretch.read(b.commands, b.keys.events, Mark()))
        assert (len(chunk.rows), link.round_trips) == (3, 1)


def test_a_key_that_is_no_stream_is_told(benches: list[Bench]) -> None:
    b = benches[0]
    b.say("SET", b.keys.events, "text")
    with pytest.raises(WrongType, match="not a stream"):
        read(b, Mark())


def standing(b: Bench, at: Mark) -> stretch.Standing:
    return b.run(stretch.standing(b.commands, b.keys.events, at))[0]


def rolled_back(b: Bench, ids: list[str], kept: int) -> None:
    """The stream as a server has it that crashed before the newest entries were on its disk."""
    b.say("DEL", b.keys.events)
    for n, entry_id in enumerate(ids[:kept]):
        b.say("XADD", b.keys.events, entry_id, "e", "active", "id", str(n))


def test_a_stream_whose_server_forgot_the_newest_is_told_from_one_made_anew(everywhere: Everywhere) -> None:
    def story(b: Bench) -> list[Any]:
        ids = fill(b, 20)
        at = Mark(ids[-1], 20)
        told = [standing(b, at)]
        rolled_back(b, ids, kept=15)
        told.append(standing(b, at))
        assert b.run(stretch.resume(b.commands, b.keys.events, at)) == Mark(ids[14], 15, epoch=1)
        outlive(b, at.id)
        fill(b, 12)
        told.append(standing(b, at))
        resumed = b.run(stretch.resume(b.commands, b.keys.events, at))
        assert resumed == Mark(at.id, 15, epoch=1)
        assert len(read(b, resumed).rows) == 12
        told.append(standing(b, read(b, resumed).end))
        b.say("DEL", b.keys.events)
        fill(b, 3)
        told.append(standing(b, at))
        return [one.value for one in told]

    assert everywhere(story).told == ["same", "rolled back", "rolled back", "same", "recreated"]


def test_an_entry_that_was_deleted_or_trimmed_does_not_make_another_stream(everywhere: Everywhere) -> None:
    def story(b: Bench) -> list[Any]:
        ids = fill(b, 20)
        b.say("XDEL", b.keys.events, ids[9])
        told = [standing(b, Mark(ids[9], 10))]
        b.say("XDEL", b.keys.events, ids[19])
        told.append(standing(b, Mark(ids[19], 20)))
        b.say("XTRIM", b.keys.events, "MAXLEN", 3)
        told.append(standing(b, Mark(ids[4], 5)))
        b.say("XTRIM", b.keys.events, "MAXLEN", 0)
        told.append(standing(b, Mark(ids[19], 20)))
        return [one.value for one in told]

    assert everywhere(story).told == ["same"] * 4
