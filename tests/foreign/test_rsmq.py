"""What an operator can do with an RSMQ queue, on every server: look without receiving, and change what is meant only."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest

from chasqui.errors import ArgumentError, WrongType
from chasqui.foreign import rsmq
from chasqui.foreign.job_import import ImportedJob
from chasqui.foreign.rsmq import (
    Draft,
    Message,
    MessageFilter,
    message_queries,
    rsmq_calls,
)
from chasqui.foreign.rsmq.keys import RsmqKeys, new_message_id, sent_at_us
from tests.foreign.conftest import ForeignServer, interrupt_before
from tests.support.links import command_batch

HOUR_MS = 3_600_000


@pytest.fixture
def three(foreign_server: ForeignServer) -> dict[str, str]:
    """A queue with a message of each state."""
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    held = foreign_server.run(rsmq.send(foreign_server.rsmq, "held"))
    assert foreign_server.run(rsmq.receive(foreign_server.rsmq, vt_ms=HOUR_MS))
    ready = foreign_server.run(rsmq.send(foreign_server.rsmq, "ready"))
    delayed = foreign_server.run(rsmq.send(foreign_server.rsmq, "delayed", delay_ms=HOUR_MS + 5))
    return {"in-flight": held, "ready": ready, "delayed": delayed}


def test_an_id_contains_the_time_it_was_made() -> None:
    assert sent_at_us(new_message_id(1_700_000_001_000_007)) == 1_700_000_001_000_007
    assert len(new_message_id(1_700_000_001_000_007)) == 32
    assert sent_at_us("böse" * 8) is None


def test_peeking_changes_nothing_and_shows_the_state_of_each(
    foreign_server: ForeignServer, three: dict[str, str]
) -> None:
    keys = (foreign_server.rsmq.messages, foreign_server.rsmq.hash)
    before = foreign_server.dump(*keys)
    now_ms = foreign_server.now_ms()
    found = foreign_server.run(rsmq.peek(foreign_server.rsmq, 10))
    assert {message.state(now_ms): message.id for message in found} == three
    assert [message.body for message in found] == [b"ready", b"held", b"delayed"]
    assert [message.receives for message in found] == [None, 1, None]
    counts = foreign_server.run(rsmq.count_by_state(foreign_server.rsmq))
    assert (counts.messages, counts.ready, counts.delayed, counts.in_flight) == (3, 1, 1, 1)
    shown = foreign_server.run(rsmq.read_message(foreign_server.rsmq, three["in-flight"]))
    assert shown is not None
    assert (shown.body, shown.size, shown.receives) == (b"held", 4, 1)
    assert abs((shown.first_received_ms or 0) - now_ms) < 10_000
    assert foreign_server.run(rsmq.read_message(foreign_server.rsmq, "0" * 32)) is None
    assert foreign_server.dump(*keys) == before


@pytest.mark.parametrize("state", ["ready", "delayed", "in-flight"])
def test_a_purge_by_state_takes_those_and_leaves_the_rest(
    foreign_server: ForeignServer, three: dict[str, str], state: Any
) -> None:
    seen = foreign_server.run(rsmq.peek(foreign_server.rsmq, 10, wanted=MessageFilter(state=state)))
    assert [message.id for message in seen] == [three[state]]
    assert foreign_server.run(rsmq.purge(foreign_server.rsmq, seen)) == ["done"]
    left = {message.id for message in foreign_server.run(rsmq.peek(foreign_server.rsmq, 10))}
    assert left == set(three.values()) - {three[state]}
    assert foreign_server.run(rsmq.queue_stats(foreign_server.rsmq)).attributes.sent == 3
    assert not [
        name
        for name in foreign_server.command("HKEYS", foreign_server.rsmq.hash)
        if name.startswith(three[state].encode())
    ]


def test_what_consumers_hold_is_purged_only_on_request(foreign_server: ForeignServer, three: dict[str, str]) -> None:
    free = foreign_server.run(rsmq.peek(foreign_server.rsmq, 10, wanted=MessageFilter()))
    assert foreign_server.run(rsmq.purge(foreign_server.rsmq, free)) == ["done", "done"]
    [held] = foreign_server.run(rsmq.peek(foreign_server.rsmq, 10, wanted=MessageFilter(include_in_flight=True)))
    assert held.id == three["in-flight"]
    assert foreign_server.run(rsmq.purge(foreign_server.rsmq, [held])) == ["done"]


def test_filters_go_by_body_age_receives_and_id(foreign_server: ForeignServer, three: dict[str, str]) -> None:
    def chosen(wanted: MessageFilter) -> int:
        return len(foreign_server.run(rsmq.peek(foreign_server.rsmq, 10, wanted=wanted)))

    assert chosen(MessageFilter(body=re.compile(rb"^(ready|held)$"), include_in_flight=True)) == 2
    assert chosen(MessageFilter(older_than_ms=HOUR_MS, include_in_flight=True)) == 0
    assert chosen(MessageFilter(older_than_ms=0, include_in_flight=True)) == 3
    assert chosen(MessageFilter(least_receives=1, include_in_flight=True)) == 1
    [found] = foreign_server.run(rsmq.messages_by_id(foreign_server.rsmq, [three["delayed"], "0" * 32])).messages
    assert (found.id, found.body) == (three["delayed"], b"delayed")


def test_a_message_that_was_received_after_it_was_seen_is_not_purged(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    sent = foreign_server.run(rsmq.send(foreign_server.rsmq, "x"))
    [seen] = foreign_server.run(rsmq.peek(foreign_server.rsmq, 1))
    foreign_server.run(rsmq.receive(foreign_server.rsmq, vt_ms=0))
    assert foreign_server.run(rsmq.purge(foreign_server.rsmq, [seen])) == ["changed"]
    assert foreign_server.run(rsmq.read_message(foreign_server.rsmq, sent)) is not None


def test_a_sweep_moves_what_was_received_too_often_with_all_that_belongs_to_it(
    foreign_server: ForeignServer,
) -> None:
    dead = RsmqKeys("dead", foreign_server.name)
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    foreign_server.run(rsmq.create_queue(dead))
    poison = foreign_server.run(rsmq.send(foreign_server.rsmq, b"\xff poison"))
    for _ in range(3):
        foreign_server.run(rsmq.receive(foreign_server.rsmq, vt_ms=0))
    fine = foreign_server.run(rsmq.send(foreign_server.rsmq, "fine"))
    before = foreign_server.run(rsmq.read_message(foreign_server.rsmq, poison))
    tired = foreign_server.run(rsmq.peek(foreign_server.rsmq, 9, wanted=MessageFilter(least_receives=3)))
    assert foreign_server.run(rsmq.move(foreign_server.rsmq, dead, tired)) == ["done"]
    assert foreign_server.run(rsmq.read_message(dead, poison)) == before
    assert foreign_server.run(rsmq.queue_stats(dead)).attributes.sent == 1
    assert [message.id for message in foreign_server.run(rsmq.peek(foreign_server.rsmq, 9))] == [fine]
    assert foreign_server.run(rsmq.move(dead, foreign_server.rsmq, tired)) == ["done"]
    assert foreign_server.run(rsmq.read_message(foreign_server.rsmq, poison)) == before


def test_moving_needs_another_queue_that_exists(foreign_server: ForeignServer, three: dict[str, str]) -> None:
    seen = foreign_server.run(rsmq.peek(foreign_server.rsmq, 9))
    with pytest.raises(ArgumentError, match="cannot be moved to itself"):
        foreign_server.run(rsmq.move(foreign_server.rsmq, foreign_server.rsmq, seen))
    with pytest.raises(rsmq.QueueNotFound):
        foreign_server.run(rsmq.move(foreign_server.rsmq, RsmqKeys("nobody", foreign_server.name), seen))
    assert foreign_server.run(rsmq.count_by_state(foreign_server.rsmq)).messages == 3


def test_what_is_too_old_expires(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    old = new_message_id((foreign_server.now_ms() - 2 * HOUR_MS) * 1000)
    foreign_server.run(rsmq.send_many(foreign_server.rsmq, [Draft("old", id=old), Draft("new")]))
    expired = foreign_server.run(rsmq.peek(foreign_server.rsmq, 9, wanted=MessageFilter(older_than_ms=HOUR_MS)))
    assert foreign_server.run(rsmq.purge(foreign_server.rsmq, expired)) == ["done"]
    assert [message.body for message in foreign_server.run(rsmq.peek(foreign_server.rsmq, 9))] == [b"new"]


def test_messages_are_released_and_held(foreign_server: ForeignServer, three: dict[str, str]) -> None:
    in_flight = foreign_server.run(rsmq.peek(foreign_server.rsmq, 9, wanted=MessageFilter(state="in-flight")))
    released = rsmq.reschedule(foreign_server.rsmq, in_flight, foreign_server.now_ms())
    assert foreign_server.run(released) == ["done"]
    assert foreign_server.run(rsmq.count_by_state(foreign_server.rsmq)).ready == 2
    until_ms = foreign_server.now_ms() + 2 * HOUR_MS
    every = foreign_server.run(rsmq.peek(foreign_server.rsmq, 9))
    assert foreign_server.run(rsmq.reschedule(foreign_server.rsmq, every, until_ms)) == ["done"] * 3
    assert {message.visible_at_ms for message in foreign_server.run(rsmq.peek(foreign_server.rsmq, 9))} == {until_ms}


def test_pages_meet_every_message_also_when_all_have_one_score(
    foreign_server: ForeignServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    sent = foreign_server.run(
        rsmq.send_many(foreign_server.rsmq, [Draft(str(n), delay_ms=HOUR_MS) for n in range(950)])
    )
    monkeypatch.setattr(message_queries, "COUNT_PAGE", 100)
    assert foreign_server.run(rsmq.count_by_state(foreign_server.rsmq)).delayed == 950
    assert {
        message.id for message in foreign_server.run(rsmq.peek(foreign_server.rsmq, 2000, wanted=MessageFilter()))
    } == set(sent)
    keep = frozenset(sent[::2])
    odd = MessageFilter(body=re.compile(rb"[13579]$"))
    seen = foreign_server.run(rsmq.peek(foreign_server.rsmq, 2000, wanted=odd))
    assert foreign_server.run(rsmq.purge(foreign_server.rsmq, seen)) == ["done"] * 475
    assert {message.id for message in foreign_server.run(rsmq.peek(foreign_server.rsmq, 2000))} == keep
    assert len(foreign_server.run(rsmq.messages_by_id(foreign_server.rsmq, sent[:500])).messages) == 250


def test_a_queue_goes_out_and_in_as_json_lines(foreign_server: ForeignServer, three: dict[str, str]) -> None:
    foreign_server.run(rsmq.send(foreign_server.rsmq, b"\x00\xff\xfe"))
    lines = [json.dumps(rsmq.to_row(message)) for message in foreign_server.run(rsmq.peek(foreign_server.rsmq, 99))]
    copy = RsmqKeys("copy", foreign_server.name)
    foreign_server.run(rsmq.create_queue(copy))
    read = [rsmq.parse_row(json.loads(line)) for line in lines]
    messages = [message for message in read if isinstance(message, Message)]
    assert foreign_server.run(rsmq.import_messages(copy, messages)) == 4
    assert foreign_server.run(rsmq.import_messages(copy, messages)) == 0
    assert foreign_server.run(rsmq.peek(copy, 99)) == foreign_server.run(rsmq.peek(foreign_server.rsmq, 99))
    assert rsmq.parse_row({"body": "x", "delay_ms": 5}) == Draft(b"x", 5)
    for row in ({}, {"body": 7}, {"body_b64": "?"}):
        with pytest.raises(ArgumentError):
            rsmq.parse_row(row)


def test_a_draft_with_an_id_is_sent_once(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    draft = Draft("x", id=new_message_id(foreign_server.now_ms() * 1000))
    for _ in range(2):
        foreign_server.run(rsmq.send_many(foreign_server.rsmq, [draft]))
    assert foreign_server.run(rsmq.queue_stats(foreign_server.rsmq)).messages == 1
    assert foreign_server.run(rsmq.queue_stats(foreign_server.rsmq)).attributes.sent == 1


def test_a_queue_dropped_in_the_middle_of_a_send_leaves_no_ghost(foreign_server: ForeignServer) -> None:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    dropping = rsmq.drop_queue(foreign_server.rsmq)
    with pytest.raises(rsmq.QueueNotFound):
        foreign_server.run(
            interrupt_before(rsmq.send(foreign_server.rsmq, "x"), "rsmq/send", lambda: foreign_server.run(dropping))
        )
    assert foreign_server.command("EXISTS", foreign_server.rsmq.messages, foreign_server.rsmq.hash) == 0


def test_names_that_npm_rsmq_refuses_can_be_managed_but_not_made(foreign_server: ForeignServer) -> None:
    odd = RsmqKeys("has space.é \udcff", foreign_server.name)
    with pytest.raises(rsmq.RsmqError, match="Invalid qname format"):
        foreign_server.run(rsmq.create_queue(odd))
    foreign_server.command("HSET", odd.hash, "vt", "30", "delay", "0", "maxsize", "65565")
    foreign_server.command("SADD", odd.queues, odd.queue)
    sent = foreign_server.run(rsmq.send(odd, "x"))
    received = foreign_server.run(rsmq.receive(odd))
    assert received is not None
    assert received.id == sent
    assert odd.queue in foreign_server.run(rsmq.list_queues(foreign_server.name))
    foreign_server.run(rsmq.drop_queue(odd))
    assert foreign_server.run(rsmq.list_queues(foreign_server.name)) == []


def test_a_full_hash_is_never_asked_for_all_its_fields(foreign_server: ForeignServer, three: dict[str, str]) -> None:
    before = _calls_of(foreign_server, "hgetall")
    for flow in (
        rsmq.queue_stats(foreign_server.rsmq),
        rsmq.peek(foreign_server.rsmq, 9),
        rsmq.count_by_state(foreign_server.rsmq),
        rsmq.read_message(foreign_server.rsmq, three["ready"]),
        rsmq.examine(foreign_server.rsmq),
        rsmq.receive(foreign_server.rsmq),
        rsmq.purge(foreign_server.rsmq, foreign_server.run(rsmq.peek(foreign_server.rsmq, 9))),
    ):
        foreign_server.run(flow)
    assert _calls_of(foreign_server, "hgetall") == before


def _calls_of(server: ForeignServer, command: str) -> int:
    found = re.search(rb"cmdstat_%b:calls=(\d+)" % command.encode(), server.command("INFO", "commandstats"))
    return int(found[1]) if found else 0


def test_round_trips(foreign_server: ForeignServer, three: dict[str, str]) -> None:
    def trips(flow: Any) -> int:
        foreign_server.run(rsmq.queue_stats(foreign_server.rsmq))
        before = foreign_server.link.round_trips
        foreign_server.run(flow)
        return foreign_server.link.round_trips - before

    for flow in (
        rsmq.peek(foreign_server.rsmq, 9),
        rsmq.read_message(foreign_server.rsmq, three["ready"]),
        rsmq.delete(foreign_server.rsmq, "x" * 32),
    ):
        trips_before = foreign_server.link.round_trips
        foreign_server.run(flow)
        assert (
            foreign_server.link.round_trips - trips_before <= 2
        )  # the second for a script the server had not seen yet
    assert trips(rsmq.peek(foreign_server.rsmq, 9)) == 1
    assert trips(rsmq.read_message(foreign_server.rsmq, three["ready"])) == 1
    assert trips(rsmq.queue_stats(foreign_server.rsmq)) == 2
    assert trips(rsmq.send_many(foreign_server.rsmq, [Draft("x")] * 500)) == 2
    assert trips(rsmq.receive_many(foreign_server.rsmq, 200)) == 2
    assert trips(rsmq.delete_many(foreign_server.rsmq, list(three.values()))) == 1


@pytest.mark.parametrize("spoiled", ["messages", "hash"])
def test_a_key_of_another_type_is_an_error_that_changes_nothing(
    foreign_server: ForeignServer, three: dict[str, str], spoiled: str
) -> None:
    [seen] = foreign_server.run(rsmq.peek(foreign_server.rsmq, 1))
    key = getattr(foreign_server.rsmq, spoiled)
    foreign_server.command("RENAME", key, f"{key}:aside")
    foreign_server.command("SET", key, "something else")
    names = (
        foreign_server.rsmq.messages,
        foreign_server.rsmq.hash,
        f"{key}:aside",
        foreign_server.rsmq.queues,
    )
    before = foreign_server.dump(*names)
    calls = [
        rsmq_calls.send(foreign_server.rsmq, "y" * 32, 5, b"x"),
        rsmq_calls.receive(foreign_server.rsmq, now_ms=foreign_server.now_ms(), until_ms=9),
        rsmq_calls.pop(foreign_server.rsmq, now_ms=foreign_server.now_ms()),
        rsmq_calls.delete(foreign_server.rsmq, [seen.id]),
        rsmq_calls.purge(foreign_server.rsmq, seen.version),
        rsmq_calls.forward_message(
            foreign_server.rsmq, foreign_server.ours, ImportedJob(seen.id, b"x"), receives="", now_ms=5
        ),
        rsmq_calls.park_message(foreign_server.rsmq, seen.id),
    ]
    for call in calls:
        with suppress(WrongType):
            foreign_server.run(command_batch(call))
        assert foreign_server.dump(*names) == before, call.script
    [finding] = foreign_server.run(rsmq.examine(foreign_server.rsmq))
    assert finding.problem is rsmq.RsmqProblem.WRONG_TYPE
    assert foreign_server.run(rsmq.repair(foreign_server.rsmq, [finding])) == 0
