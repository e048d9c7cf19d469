"""Reading events with canned replies: where to begin, what adds up, and every way in which it may not."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui.errors import ArgumentError, ServerError, WrongType
from chasqui.inspect import events
from chasqui.inspect.events import EventBatch, EventPosition, Gap, StoredEvent
from chasqui.server.commands import Commands, StreamExtent
from chasqui.server.features import Features
from chasqui.wire.event_entry import Event
from chasqui.wire.keys import Keys
from tests.support.flow_player import run_flow, run_flow_recording

COMMANDS = Commands(Features(idmp=True, ackdel=True, claim=True, kind="redis", version="8.6"))
KEYS = Keys("mail")
START = EventPosition(KEYS, "10-0", 10, "10-0", 10)


def stream(first: int, last: int, *, added: int | None = None, rows_read: range | None = None) -> list[Any]:
    """The reply of a stream whose entries are numbered through, of which some were read."""
    rows = [[f"{n}-0".encode(), [b"e", b"active", b"id", b"j%d" % n, b"ts", b"1"]] for n in rows_read or ()]
    length = max(0, last - first + 1)
    return [
        length,
        f"{first}-0".encode() if length else None,
        f"{last}-0".encode(),
        added if added is not None else last,
        rows,
    ]


def read(at: EventPosition, reply: Any, count: int = 100) -> EventBatch:
    [haul], rounds = run_flow(events.read_after(COMMANDS, [at], count=count), [[reply]])
    assert rounds == 1
    return haul


def ids(haul: EventBatch) -> list[str]:
    return [item.entry_id for item in haul.items if isinstance(item, StoredEvent)]


def gaps(haul: EventBatch) -> list[Gap]:
    return [item for item in haul.items if isinstance(item, Gap)]


def test_now_becomes_an_id_once_and_for_all() -> None:
    flow = events.start_positions(COMMANDS, [KEYS, Keys("new")], "$")
    [at, new], rounds = run_flow(flow, [[stream(3, 10), None]])
    assert (at, rounds) == (START, 1)
    assert new == EventPosition(Keys("new"), "0-0", 0)


@pytest.mark.parametrize(
    ("asked", "entry_id", "seen"),
    [("0", "0-0", 2), ("0-0", "0-0", 2), ("7", "7-0", None), ("7-3", "7-3", None)],
)
def test_reading_begins_after_the_id_that_was_asked_for(asked: str, entry_id: str, seen: int | None) -> None:
    [at], _ = run_flow(events.start_positions(COMMANDS, [KEYS], asked), [[stream(3, 10)]])
    assert (at.entry_id, at.ordinal) == (entry_id, seen)


@pytest.mark.parametrize("wrong", ["", "-", "+", "now", "1-", "1-2-3", "-1", "١", "99999999999999999999999"])
def test_what_is_no_id_is_refused_before_anything_is_sent(wrong: str) -> None:
    with pytest.raises(ArgumentError, match="is no event id"):
        next(events.start_positions(COMMANDS, [KEYS], wrong))


def test_events_that_follow_come_without_a_gap() -> None:
    haul = read(START, stream(3, 12, rows_read=range(11, 13)))
    assert haul.items[0] == StoredEvent("mail", "11-0", Event("active", "j11", 1))
    assert ids(haul) == ["11-0", "12-0"]
    assert gaps(haul) == []
    assert (haul.position.entry_id, haul.position.ordinal, haul.more) == ("12-0", 12, False)


def test_a_stream_trimmed_up_to_what_was_read_has_no_gap() -> None:
    assert gaps(read(START, stream(11, 12, rows_read=range(11, 13)))) == []
    assert gaps(read(START, stream(11, 10, added=10))) == []


def test_a_stream_trimmed_beyond_what_was_read_reports_how_much_is_lost() -> None:
    haul = read(START, stream(15, 20, rows_read=range(15, 21)))
    assert haul.items[0] == Gap("mail", "10-0", "15-0", 4, "trimmed")
    assert ids(haul) == [f"{n}-0" for n in range(15, 21)]
    assert haul.position.ordinal == 20


def test_a_gap_is_reported_once_even_when_there_is_more_than_one_page() -> None:
    first = read(START, stream(15, 20, rows_read=range(15, 17)), count=2)
    assert (gaps(first), first.more) == ([Gap("mail", "10-0", "15-0", 4, "trimmed")], True)
    second = read(first.position, stream(15, 20, rows_read=range(17, 19)), count=2)
    third = read(second.position, stream(15, 20, rows_read=range(19, 21)), count=2)
    last = read(third.position, stream(15, 20), count=2)
    assert [gaps(haul) for haul in (second, third, last)] == [[], [], []]
    assert last.position.ordinal == 20


def test_trimming_between_two_pages_is_noticed() -> None:
    first = read(START, stream(3, 20, rows_read=range(11, 13)), count=2)
    second = read(first.position, stream(16, 20, rows_read=range(16, 18)), count=2)
    assert gaps(second) == [Gap("mail", "12-0", "16-0", 3, "trimmed")]


def test_single_deleted_events_are_noticed_at_the_end() -> None:
    reply = stream(3, 14, rows_read=range(13, 15))
    reply[0] -= 2
    assert gaps(read(START, reply)) == [Gap("mail", "10-0", "14-0", 2, "trimmed")]


def test_a_stream_emptied_before_it_was_read_has_a_gap() -> None:
    assert gaps(read(START, [0, None, b"15-0", 15, []])) == [Gap("mail", "10-0", "15-0", 5, "trimmed")]


def test_a_deleted_stream_is_reported_once_and_all_later_events_are_new() -> None:
    haul = read(START, None)
    assert haul.items == (Gap("mail", "10-0", "0-0", None, "deleted"),)
    assert read(haul.position, None).items == ()
    again = read(haul.position, stream(1, 2, rows_read=range(1, 3)))
    assert (ids(again), gaps(again)) == (["1-0", "2-0"], [])


def test_a_recreated_stream_is_recognised_although_its_ids_go_on() -> None:
    haul = read(START, stream(50, 52, added=3, rows_read=range(50, 53)))
    assert gaps(haul) == [Gap("mail", "10-0", "50-0", None, "recreated")]
    assert ids(haul) == ["50-0", "51-0", "52-0"]
    assert haul.position.ordinal == 3


def test_a_stream_recreated_under_a_slow_clock_is_read_from_its_beginning() -> None:
    haul = read(START, stream(4, 6, added=3))
    assert gaps(haul) == [Gap("mail", "10-0", "0-0", None, "rewound")]
    assert haul.more
    again = read(haul.position, stream(4, 6, added=3, rows_read=range(4, 7)))
    assert (ids(again), gaps(again)) == (["4-0", "5-0", "6-0"], [])


def test_a_copy_that_lost_its_end_goes_on_from_there() -> None:
    at = EventPosition(KEYS, "30-0", 30, "10-0", 10)
    haul = read(at, stream(3, 25))
    assert gaps(haul) == [Gap("mail", "30-0", "25-0", None, "rewound")]
    assert (haul.position.entry_id, haul.position.ordinal) == ("25-0", 25)


def test_a_copy_that_has_caught_up_by_the_next_read_has_lost_nothing_we_need() -> None:
    at = EventPosition(KEYS, "30-0", 30, "10-0", 10)
    haul = read(at, stream(3, 40, added=28, rows_read=range(38, 41)))
    assert (gaps(haul), haul.position.ordinal) == ([], 28)


def test_after_an_old_id_a_possible_gap_is_reported() -> None:
    resumed = EventPosition(KEYS, "10-0", None, "10-0", 20)
    assert gaps(read(resumed, stream(15, 20, rows_read=range(15, 21)))) == [
        Gap("mail", "10-0", "15-0", None, "trimmed")
    ]
    assert gaps(read(resumed, stream(10, 20, rows_read=range(11, 21)))) == []
    assert gaps(read(resumed, stream(11, 20, added=10, rows_read=range(11, 21)))) == []


def test_waiting_reads_only_who_has_news() -> None:
    at = [START, EventPosition(Keys("other"), "5-0", 5)]
    flow = events.read_after(COMMANDS, at, count=10, block_ms=5000)
    news = [[Keys("other").events.encode(), [[b"6-0", [b"e", b"x"]]]]]
    hauls, batches = run_flow_recording(flow, [[news], [stream(1, 6, rows_read=range(6, 7))]])
    assert [haul.position.keys.queue for haul in hauls] == ["other"]
    [wait] = batches[0]
    assert wait.args[:6] == ("XREAD", "COUNT", 1, "BLOCK", 5000, "STREAMS")
    assert wait.args[6:] == (KEYS.events, Keys("other").events, "10-0", "5-0")
    assert wait.block_ms == 5000


def test_when_no_stream_has_news_all_are_read() -> None:
    at = [START, EventPosition(Keys("other"), "5-0", 5)]
    flow = events.read_after(COMMANDS, at, count=10, block_ms=5000)
    hauls, rounds = run_flow(flow, [[None], [stream(3, 10), None]])
    assert rounds == 2
    assert [gaps(haul) for haul in hauls] == [[], [Gap("other", "5-0", "0-0", None, "deleted")]]


def test_one_key_of_a_wrong_type_does_not_keep_the_others_from_being_read() -> None:
    wrong = WrongType("no stream", code="WRONGTYPE")
    at = [START, EventPosition(Keys("other"), "5-0", 5)]
    flow = events.read_after(COMMANDS, at, count=10, block_ms=5000)
    hauls, _ = run_flow(flow, [[wrong], [stream(3, 11, rows_read=range(11, 12)), wrong]])
    assert ids(hauls[0]) == ["11-0"]
    assert (hauls[1].error, hauls[1].position) == (wrong, at[1])


def test_trouble_that_passes_is_the_callers() -> None:
    flow = events.read_after(COMMANDS, [START], count=10, block_ms=5000)
    next(flow)
    with pytest.raises(ServerError, match="loading"):
        flow.send([ServerError("loading", transient=True)])


def test_reach_is_one_round_trip_for_any_number_of_queues() -> None:
    flow = events.read_extents(COMMANDS, [Keys(str(n)) for n in range(100)])
    rows_read, rounds = run_flow(flow, [[stream(3, 10)] * 99 + [None]])
    assert rounds == 1
    assert (rows_read[0], rows_read[-1]) == (StreamExtent(8, "3-0", "10-0", 10), StreamExtent())


def test_the_latest_events_come_in_the_order_they_were_written() -> None:
    rows = [[b"2-0", [b"e", b"b"]], [b"1-0", [b"e", b"a"]]]
    rows_read, rounds = run_flow(events.latest_events(COMMANDS, KEYS, 2), [[rows]])
    assert ([one.event.kind for one in rows_read], rounds) == (["a", "b"], 1)
