"""`events` and `watch`, on every kind of server."""

from __future__ import annotations

import pytest

from chasqui_cli.commands import watch
from chasqui_cli.output.records import EVENT_SCHEMA
from tests.support.cli.in_process import assert_matches_schema
from tests.support.cli.seeded_queue import SeededQueue
from tests.support.seeds.every_state import QueueSeeder


def test_events_of_the_past(seeded: SeededQueue) -> None:
    ended = seeded("events", seeded.queue)
    for record in ended.lines:
        assert_matches_schema(record, EVENT_SCHEMA)
    assert [one["event"] for one in ended.lines] == ["active", "failed", "dlq", "active", "completed"]
    assert ended.lines[-1] == {
        "queue": seeded.queue, "entry_id": ended.lines[-1]["entry_id"], "event": "completed", "id": "done-1",
        "name": "mail", "ts": seeded.seed.now_ms, "attempt": 1, "duration_us": 1500,
    }  # fmt: skip
    assert f"{seeded.queue}: events reach back" in ended.err
    assert seeded("events", "tail", seeded.queue).out == ended.out
    table = seeded("events", seeded.queue, "-o", "table").out.splitlines()
    assert (len(table), table[0].split()[:3]) == (6, ["WHEN", "QUEUE", "EVENT"])
    assert "reason=SMTP 550" in table[2]


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("--event", "failed", "--event", "dlq"), ["failed", "dlq"]),
        (("--where", "duration_us > `1000`"), ["completed"]),
        (("--name", "no*"), []),
        (("--from", "$"), []),
        (("--since", "1h"), ["active", "failed", "dlq", "active", "completed"]),
        (("--until", "1h"), []),
        (("--scan", "2"), ["active", "failed"]),
    ],
)
def test_events_are_chosen(seeded: SeededQueue, words: tuple[str, ...], kinds: list[str]) -> None:
    assert [one["event"] for one in seeded("events", seeded.queue, *words).lines] == kinds


def test_events_after_an_id_and_what_was_trimmed(seeded: SeededQueue) -> None:
    ids = [one["entry_id"] for one in seeded("events", seeded.queue).lines]
    assert [one["entry_id"] for one in seeded("events", seeded.queue, "--from", ids[2]).lines] == ids[3:]
    seeded.seed.command("XTRIM", seeded.seed.keys.events, "MAXLEN", 1)
    gap, last = seeded("events", seeded.queue, "--from", ids[0]).lines
    assert_matches_schema(gap, EVENT_SCHEMA)
    assert (gap["event"], gap["reason"], gap["from_id"], last["entry_id"]) == (
        "gap",
        "trimmed",
        ids[0],
        ids[-1],
    )


def test_past_events_have_an_end_and_so_are_json_too(seeded: SeededQueue) -> None:
    seeded.seed.add_event("active", "x", attempt=1)
    seeded.seed.add_event("completed", "x", attempt=1)
    events = seeded("events", seeded.queue, "-o", "json").json
    assert events == seeded("events", seeded.queue, "-o", "jsonl").lines
    assert [one["event"] for one in events][-2:] == ["active", "completed"]


def test_events_of_all_queues_come_in_order_of_time(seeded: SeededQueue) -> None:
    other = QueueSeeder(seeded.seed.link, f"{seeded.queue}-2")
    seeded.seed.let_time_pass()
    other.add_event("active", "x", attempt=1)
    seeded.seed.let_time_pass()
    seeded.seed.add_event("active", "y", attempt=1)
    mine = [seeded.queue, other.queue]
    ids = [one["id"] for one in seeded("events").lines if one["queue"] in mine]
    assert ids[-2:] == ["x", "y"]


@pytest.mark.parametrize(
    "words",
    [
        ("--from", "0", "--since", "1h"),
        ("--follow", "--until", "1h"),
        ("--follow", "-o", "json"),
        ("--from", "x"),
    ],
)
def test_events_that_make_no_sense_are_refused(seeded: SeededQueue, words: tuple[str, ...]) -> None:
    ended = seeded("events", seeded.queue, *words, "-q")
    assert (ended.code, ended.out) == (2, "")


def test_watch_shows_what_changed(seeded: SeededQueue) -> None:
    words = ("watch", seeded.queue, "--interval", "100ms", "--count", "2")
    first, second = seeded(*words).lines
    assert_matches_schema(first, watch.WATCH_SCHEMA)
    assert_matches_schema(second, watch.WATCH_SCHEMA)
    assert (first["in_per_s"], second["added"], second["read"]) == (None, 0, 0)
    assert second["forecast"] == {"word": "stalled", "clears_ms": None, "per_s": None}
    head, *rows = seeded(*words, "-o", "table").out.splitlines()
    assert head.split()[:3] == ["QUEUE", "TIME", "WAITING"]
    assert len(rows) == 2
    assert "stalled" in rows[1]
    assert len(seeded(*words, "-o", "json").json) == 2
    assert seeded("watch", seeded.queue, "-o", "json").code == 2, "that would have no end"
