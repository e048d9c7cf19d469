"""What an operator can do with an RSMQ queue, on every server: look without receiving, and change what is meant only."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest

from chasqui.errors import ArgumentError, WrongType
from chasqui.foreign import rsmq
from chasqui.foreign.rsmq import Draft, Filter, Message, survey, tending
from chasqui.server.commands import rsmq_calls
from chasqui.server.commands.arrivals import Parcel
from chasqui.wire.rsmq_keys import RsmqKeys, mint, sent_us
from tests.foreign.conftest import Desk, interrupted
from tests.links import batch

HOUR_MS = 3_600_000


@pytest.fixture
def three(desk: Desk) -> dict[str, str]:
    """A queue with a message of each state."""
    desk.run(rsmq.create(desk.rsmq))
    held = desk.run(rsmq.send(desk.rsmq, "held"))
    assert desk.run(rsmq.receive(desk.rsmq, vt_ms=HOUR_MS))
    ready = desk.run(rsmq.send(desk.rsmq, "ready"))
    delayed = desk.run(rsmq.send(desk.rsmq, "delayed", delay_ms=HOUR_MS + 5))
    return {"in-flight": held, "ready": ready, "delayed": delayed}


def test_an_id_tells_when_it_was_made() -> None:
    assert sent_us(mint(1_700_000_001_000_007)) == 1_700_000_001_000_007
    assert len(mint(1_700_000_001_000_007)) == 32
    assert sent_us("böse" * 8) is None


def test_looking_changes_nothing_and_tells_the_state_of_each(desk: Desk, three: dict[str, str]) -> None:
    keys = (desk.rsmq.messages, desk.rsmq.hash)
    before = desk.dump(*keys)
    now_ms = desk.now_ms()
    found = desk.run(rsmq.peek(desk.rsmq, 10))
    assert {message.state(now_ms): message.id for message in found} == three
    assert [message.body for message in found] == [b"ready", b"held", b"delayed"]
    assert [message.receives for message in found] == [None, 1, None]
    counts = desk.run(rsmq.counts(desk.rsmq))
    assert (counts.messages, counts.ready, counts.delayed, counts.in_flight) == (3, 1, 1, 1)
    shown = desk.run(rsmq.show(desk.rsmq, three["in-flight"]))
    assert shown is not None
    assert (shown.body, shown.size, shown.receives) == (b"held", 4, 1)
    assert abs((shown.first_received_ms or 0) - now_ms) < 10_000
    assert desk.run(rsmq.show(desk.rsmq, "0" * 32)) is None
    assert desk.dump(*keys) == before


@pytest.mark.parametrize("state", ["ready", "delayed", "in-flight"])
def test_a_purge_by_state_takes_those_and_leaves_the_rest(
    desk: Desk, three: dict[str, str], state: Any
) -> None:
    dry = desk.run(rsmq.purge(desk.rsmq, Filter(state=state), dry_run=True))
    assert (dry.chosen, dry.done) == (1, 0)
    assert desk.run(rsmq.purge(desk.rsmq, Filter(state=state))).done == 1
    left = {message.id for message in desk.run(rsmq.peek(desk.rsmq, 10))}
    assert left == set(three.values()) - {three[state]}
    assert desk.run(rsmq.stats(desk.rsmq)).attributes.sent == 3
    assert not [name for name in desk.say("HKEYS", desk.rsmq.hash) if name.startswith(three[state].encode())]


def test_what_consumers_hold_is_purged_only_when_that_is_said(desk: Desk, three: dict[str, str]) -> None:
    assert desk.run(rsmq.purge(desk.rsmq, Filter())).done == 2
    assert [message.id for message in desk.run(rsmq.peek(desk.rsmq, 10))] == [three["in-flight"]]
    assert desk.run(rsmq.purge(desk.rsmq, Filter(held=True))).done == 1


def test_filters_go_by_body_age_receives_and_id(desk: Desk, three: dict[str, str]) -> None:
    def chosen(wanted: Filter) -> int:
        return desk.run(rsmq.purge(desk.rsmq, wanted, dry_run=True)).chosen

    assert chosen(Filter(body=re.compile(rb"^(ready|held)$"), held=True)) == 2
    assert chosen(Filter(older_than_ms=HOUR_MS, held=True)) == 0
    assert chosen(Filter(older_than_ms=0, held=True)) == 3
    assert chosen(Filter(least_receives=1, held=True)) == 1
    assert chosen(Filter(ids=frozenset([three["delayed"]]))) == 1


def test_a_message_that_was_received_after_it_was_seen_is_not_purged(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq))
    sent = desk.run(rsmq.send(desk.rsmq, "x"))
    [seen] = desk.run(rsmq.peek(desk.rsmq, 1))
    desk.run(rsmq.receive(desk.rsmq, vt_ms=0))
    [told] = desk.run(batch(rsmq_calls.purge(desk.rsmq, seen.seen)))
    assert told == [0]
    assert desk.run(rsmq.show(desk.rsmq, sent)) is not None


def test_a_sweep_moves_what_was_received_too_often_with_all_that_belongs_to_it(desk: Desk) -> None:
    dead = RsmqKeys("dead", desk.name)
    desk.run(rsmq.create(desk.rsmq))
    desk.run(rsmq.create(dead))
    poison = desk.run(rsmq.send(desk.rsmq, b"\xff poison"))
    for _ in range(3):
        desk.run(rsmq.receive(desk.rsmq, vt_ms=0))
    fine = desk.run(rsmq.send(desk.rsmq, "fine"))
    before = desk.run(rsmq.show(desk.rsmq, poison))
    assert desk.run(rsmq.sweep(desk.rsmq, dead, 3)).done == 1
    assert desk.run(rsmq.show(dead, poison)) == before
    assert desk.run(rsmq.stats(dead)).attributes.sent == 1
    assert [message.id for message in desk.run(rsmq.peek(desk.rsmq, 9))] == [fine]
    assert desk.run(rsmq.move(dead, desk.rsmq, Filter())).done == 1
    assert desk.run(rsmq.show(desk.rsmq, poison)) == before


def test_moving_needs_another_queue_that_exists(desk: Desk, three: dict[str, str]) -> None:
    with pytest.raises(ArgumentError, match="cannot be moved to itself"):
        desk.run(rsmq.move(desk.rsmq, desk.rsmq, Filter()))
    with pytest.raises(rsmq.QueueNotFound):
        desk.run(rsmq.move(desk.rsmq, RsmqKeys("nobody", desk.name), Filter()))
    assert desk.run(rsmq.counts(desk.rsmq)).messages == 3


def test_what_is_too_old_expires(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq))
    old = mint((desk.now_ms() - 2 * HOUR_MS) * 1000)
    desk.run(rsmq.send_many(desk.rsmq, [Draft("old", id=old), Draft("new")]))
    assert desk.run(rsmq.expire(desk.rsmq, HOUR_MS)).done == 1
    assert [message.body for message in desk.run(rsmq.peek(desk.rsmq, 9))] == [b"new"]


def test_messages_are_released_and_held(desk: Desk, three: dict[str, str]) -> None:
    assert desk.run(rsmq.release(desk.rsmq)).done == 1
    assert desk.run(rsmq.counts(desk.rsmq)).ready == 2
    until_ms = desk.now_ms() + 2 * HOUR_MS
    held = desk.run(rsmq.hold(desk.rsmq, Filter(held=True), until_ms))
    assert (held.done, held.changed) == (3, 0)
    assert {message.visible_at_ms for message in desk.run(rsmq.peek(desk.rsmq, 9))} == {until_ms}


def test_pages_meet_every_message_also_when_all_have_one_score(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run(rsmq.create(desk.rsmq))
    sent = desk.run(rsmq.send_many(desk.rsmq, [Draft(str(n), delay_ms=HOUR_MS) for n in range(950)]))
    monkeypatch.setattr(survey, "COUNTED", 100)
    assert desk.run(rsmq.counts(desk.rsmq)).delayed == 950
    assert {message.id for message in desk.run(rsmq.peek(desk.rsmq, 2000, wanted=Filter()))} == set(sent)
    keep = frozenset(sent[::2])
    odd = Filter(body=re.compile(rb"[13579]$"))
    told: list[tending.Tended] = []
    assert desk.run(rsmq.purge(desk.rsmq, odd, progress=told.append)).done == 475
    assert len(told) > 3
    assert {message.id for message in desk.run(rsmq.peek(desk.rsmq, 2000))} == keep
    assert desk.run(rsmq.purge(desk.rsmq, Filter(ids=frozenset(sent[:500])))).done == 250


def test_a_queue_goes_out_and_in_as_json_lines(desk: Desk, three: dict[str, str]) -> None:
    desk.run(rsmq.send(desk.rsmq, b"\x00\xff\xfe"))
    lines = [json.dumps(rsmq.to_row(message)) for message in desk.run(rsmq.peek(desk.rsmq, 99))]
    copy = RsmqKeys("copy", desk.name)
    desk.run(rsmq.create(copy))
    read = [rsmq.of_row(json.loads(line)) for line in lines]
    messages = [message for message in read if isinstance(message, Message)]
    assert desk.run(rsmq.restore(copy, messages)) == 4
    assert desk.run(rsmq.restore(copy, messages)) == 0
    assert desk.run(rsmq.peek(copy, 99)) == desk.run(rsmq.peek(desk.rsmq, 99))
    assert rsmq.of_row({"body": "x", "delay_ms": 5}) == Draft(b"x", 5)
    for row in ({}, {"body": 7}, {"body_b64": "?"}):
        with pytest.raises(ArgumentError):
            rsmq.of_row(row)


def test_a_draft_with_an_id_is_sent_once(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq))
    draft = Draft("x", id=mint(desk.now_ms() * 1000))
    for _ in range(2):
        desk.run(rsmq.send_many(desk.rsmq, [draft]))
    assert desk.run(rsmq.stats(desk.rsmq)).messages == 1
    assert desk.run(rsmq.stats(desk.rsmq)).attributes.sent == 1


def test_a_queue_dropped_in_the_middle_of_a_send_leaves_no_ghost(desk: Desk) -> None:
    desk.run(rsmq.create(desk.rsmq))
    dropping = rsmq.drop(desk.rsmq)
    with pytest.raises(rsmq.QueueNotFound):
        desk.run(interrupted(rsmq.send(desk.rsmq, "x"), "rsmq/send", lambda: desk.run(dropping)))
    assert desk.say("EXISTS", desk.rsmq.messages, desk.rsmq.hash) == 0


def test_names_that_npm_rsmq_refuses_can_be_managed_but_not_made(desk: Desk) -> None:
    odd = RsmqKeys("has space.é \udcff", desk.name)
    with pytest.raises(rsmq.RsmqError, match="Invalid qname format"):
        desk.run(rsmq.create(odd))
    desk.say("HSET", odd.hash, "vt", "30", "delay", "0", "maxsize", "65565")
    desk.say("SADD", odd.queues, odd.queue)
    sent = desk.run(rsmq.send(odd, "x"))
    received = desk.run(rsmq.receive(odd))
    assert received is not None
    assert received.id == sent
    assert odd.queue in desk.run(rsmq.names(desk.name))
    desk.run(rsmq.drop(odd))
    assert desk.run(rsmq.names(desk.name)) == []


def test_a_full_hash_is_never_asked_for_all_its_fields(desk: Desk, three: dict[str, str]) -> None:
    before = _calls_of(desk, "hgetall")
    for flow in (
        rsmq.stats(desk.rsmq),
        rsmq.peek(desk.rsmq, 9),
        rsmq.counts(desk.rsmq),
        rsmq.show(desk.rsmq, three["ready"]),
        rsmq.examine(desk.rsmq),
        rsmq.receive(desk.rsmq),
        rsmq.purge(desk.rsmq, Filter(held=True)),
    ):
        desk.run(flow)
    assert _calls_of(desk, "hgetall") == before


def _calls_of(desk: Desk, command: str) -> int:
    found = re.search(rb"cmdstat_%b:calls=(\d+)" % command.encode(), desk.say("INFO", "commandstats"))
    return int(found[1]) if found else 0


def test_round_trips(desk: Desk, three: dict[str, str]) -> None:
    def trips(flow: Any) -> int:
        desk.run(rsmq.stats(desk.rsmq))
        before = desk.link.round_trips
        desk.run(flow)
        return desk.link.round_trips - before

    for flow in (
        rsmq.peek(desk.rsmq, 9),
        rsmq.show(desk.rsmq, three["ready"]),
        rsmq.delete(desk.rsmq, "x" * 32),
    ):
        trips_before = desk.link.round_trips
        desk.run(flow)
        assert (
            desk.link.round_trips - trips_before <= 2
        )  # the second for a script the server had not seen yet
    assert trips(rsmq.peek(desk.rsmq, 9)) == 1
    assert trips(rsmq.show(desk.rsmq, three["ready"])) == 1
    assert trips(rsmq.stats(desk.rsmq)) == 2
    assert trips(rsmq.send_many(desk.rsmq, [Draft("x")] * 500)) == 2
    assert trips(rsmq.receive_many(desk.rsmq, 200)) == 2
    assert trips(rsmq.delete_many(desk.rsmq, list(three.values()))) == 1


@pytest.mark.parametrize("spoiled", ["messages", "hash"])
def test_a_key_of_another_type_is_an_error_that_changes_nothing(
    desk: Desk, three: dict[str, str], spoiled: str
) -> None:
    [seen] = desk.run(rsmq.peek(desk.rsmq, 1))
    key = getattr(desk.rsmq, spoiled)
    desk.say("RENAME", key, f"{key}:aside")
    desk.say("SET", key, "something else")
    names = (desk.rsmq.messages, desk.rsmq.hash, f"{key}:aside", desk.rsmq.queues)
    before = desk.dump(*names)
    calls = [
        rsmq_calls.send(desk.rsmq, "y" * 32, 5, b"x"),
        rsmq_calls.receive(desk.rsmq, now_ms=desk.now_ms(), until_ms=9),
        rsmq_calls.pop(desk.rsmq, now_ms=desk.now_ms()),
        rsmq_calls.delete(desk.rsmq, [seen.id]),
        rsmq_calls.purge(desk.rsmq, seen.seen),
        rsmq_calls.forward(desk.rsmq, desk.ours, Parcel(seen.id, b"x"), receives="", now_ms=5),
        rsmq_calls.park(desk.rsmq, seen.id),
    ]
    for call in calls:
        with suppress(WrongType):
            desk.run(batch(call))
        assert desk.dump(*names) == before, call.script
    [finding] = desk.run(rsmq.examine(desk.rsmq))
    assert finding.ailment is rsmq.Ailment.WRONG_TYPE
    assert desk.run(rsmq.repair(desk.rsmq, [finding])) == 0
