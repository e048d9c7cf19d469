"""Damaged RSMQ data as its clients leave it behind: shown, told, put right when asked, and never a crash."""

from __future__ import annotations

import pytest

from chasqui.foreign import rsmq
from chasqui.foreign.rsmq import Ailment, Filter
from chasqui.wire.rsmq_keys import RsmqKeys
from tests.foreign.conftest import Desk

ORPHAN = "orphan00000000000000000000000000"


@pytest.fixture
def keys(desk: Desk) -> RsmqKeys:
    desk.run(rsmq.create(desk.rsmq))
    return desk.rsmq


def ailments(desk: Desk, keys: RsmqKeys) -> list[tuple[Ailment, str]]:
    return [(finding.ailment, finding.subject) for finding in desk.run(rsmq.examine(keys))]


def healed(desk: Desk, keys: RsmqKeys, *expected: tuple[Ailment, str]) -> None:
    """What is wrong is told, put right, and not wrong any more; a second repair finds nothing to do."""
    findings = desk.run(rsmq.examine(keys))
    assert [(finding.ailment, finding.subject) for finding in findings] == list(expected)
    assert all(finding.advice for finding in findings)
    assert desk.run(rsmq.repair(keys, findings, only=frozenset())) == 0
    assert desk.run(rsmq.repair(keys, findings)) == len(expected)
    assert ailments(desk, keys) == []


def test_a_sound_queue_has_no_findings(desk: Desk, keys: RsmqKeys) -> None:
    for body in ("a", "b"):
        desk.run(rsmq.send(keys, body))
    desk.run(rsmq.receive(keys))
    assert ailments(desk, keys) == []


def test_a_member_without_a_body_is_shown_received_and_removed(desk: Desk, keys: RsmqKeys) -> None:
    desk.say("ZADD", keys.messages, 1_700_000_000_123, ORPHAN)
    [seen] = desk.run(rsmq.peek(keys, 9))
    assert (seen.id, seen.body, seen.size) == (ORPHAN, None, None)
    received = desk.run(rsmq.receive(keys, vt_ms=0))
    assert received is not None
    assert (received.body, received.receives) == (None, 1)
    assert rsmq.to_row(seen)["body"] is None
    healed(desk, keys, (Ailment.NO_BODY, ORPHAN))


def test_fields_of_deleted_messages_are_found_and_removed(desk: Desk, keys: RsmqKeys) -> None:
    sent = desk.run(rsmq.send(keys, "x"))
    desk.run(rsmq.receive(keys))
    desk.say("ZREM", keys.messages, sent)
    desk.run(rsmq.send(keys, "stays"))
    findings = desk.run(rsmq.examine(keys))
    assert {finding.subject for finding in findings} == {sent, f"{sent}:rc", f"{sent}:fr"}
    assert {finding.ailment for finding in findings} == {Ailment.STRAY_FIELD}
    assert desk.run(rsmq.repair(keys, findings)) == 3
    assert ailments(desk, keys) == []
    assert desk.run(rsmq.stats(keys)).messages == 1


def test_a_field_whose_message_came_back_is_left_alone(desk: Desk, keys: RsmqKeys) -> None:
    sent = desk.run(rsmq.send(keys, "x"))
    score = desk.say("ZSCORE", keys.messages, sent)
    desk.say("ZREM", keys.messages, sent)
    findings = desk.run(rsmq.examine(keys))
    desk.say("ZADD", keys.messages, score, sent)
    assert desk.run(rsmq.repair(keys, findings)) == 0
    shown = desk.run(rsmq.show(keys, sent))
    assert shown is not None
    assert shown.body == b"x"


def test_a_count_without_a_first_receive_is_read_and_mended(desk: Desk, keys: RsmqKeys) -> None:
    sent = desk.run(rsmq.send(keys, "x"))
    desk.say("HSET", keys.hash, f"{sent}:rc", 3)
    received = desk.run(rsmq.receive(keys, vt_ms=0))
    assert received is not None
    assert (received.receives, received.first_received_ms) == (4, None)
    healed(desk, keys, (Ailment.NO_FIRST_RECEIVE, sent))


def test_a_count_that_is_no_number_does_not_stop_the_queue(desk: Desk, keys: RsmqKeys) -> None:
    sent = desk.run(rsmq.send(keys, "x"))
    desk.say("HSET", keys.hash, f"{sent}:rc", "many", "totalrecv", "lots", "totalsent", "more")
    received = desk.run(rsmq.receive(keys, vt_ms=60_000))
    assert received is not None
    assert (received.body, received.receives) == (b"x", None)
    desk.run(rsmq.send(keys, "y"))
    assert desk.run(rsmq.counts(keys)).in_flight == 1
    assert desk.run(rsmq.stats(keys)).attributes.received == 0
    findings = desk.run(rsmq.examine(keys))
    assert {finding.ailment for finding in findings} == {Ailment.NOT_A_NUMBER, Ailment.BAD_COUNT}
    assert desk.run(rsmq.repair(keys, findings)) == 3
    assert {finding.ailment for finding in desk.run(rsmq.examine(keys))} <= {Ailment.NO_FIRST_RECEIVE}


def test_the_ghost_of_a_dropped_queue_is_found_and_adopted(desk: Desk) -> None:
    keys = desk.rsmq
    desk.say("ZADD", keys.messages, 1_700_000_000_123, ORPHAN)
    desk.say("HSET", keys.hash, ORPHAN, "Hello", "totalsent", 1)
    with pytest.raises(rsmq.QueueNotFound):
        desk.run(rsmq.stats(keys))
    assert [message.body for message in desk.run(rsmq.peek(keys, 9))] == [b"Hello"]
    healed(desk, keys, (Ailment.GHOST, "orders"))
    received = desk.run(rsmq.receive(keys))
    assert received is not None
    assert received.body == b"Hello"
    assert desk.run(rsmq.names(desk.name)) == ["orders"]


def test_a_ghost_that_pyrsmq_wrote_keeps_what_it_has(desk: Desk) -> None:
    desk.say("HSET", desk.rsmq.hash, "vt", 25, "modified", 1_700_000_000)
    healed(desk, desk.rsmq, (Ailment.GHOST, "orders"))
    assert desk.run(rsmq.stats(desk.rsmq)).attributes.vt_s == 25


def test_a_queue_that_nobody_lists_is_listed(desk: Desk, keys: RsmqKeys) -> None:
    desk.say("SREM", keys.queues, "orders")
    healed(desk, keys, (Ailment.UNLISTED, "orders"))
    assert desk.run(rsmq.names(desk.name)) == ["orders"]


def test_a_name_without_a_queue_is_taken_off_the_list(desk: Desk) -> None:
    desk.say("SADD", desk.rsmq.queues, "orders")
    healed(desk, desk.rsmq, (Ailment.PHANTOM, "orders"))
    assert desk.run(rsmq.names(desk.name)) == []


def test_fractions_and_milliseconds_of_other_clients_are_read_and_mended(desk: Desk, keys: RsmqKeys) -> None:
    desk.say("HSET", keys.hash, "vt", "25.5")
    assert desk.run(rsmq.stats(keys)).attributes.vt_s == 25.5
    healed(desk, keys, (Ailment.FRACTION, "vt"))
    assert desk.say("HGET", keys.hash, "vt") == b"25"
    rust = RsmqKeys("rust", desk.name)
    desk.say(
        "HSET", rust.hash, "vt", 30000, "delay", 5000, "maxsize", 65536, "created", 1, "modified", 1,
        "totalrecv", 0, "totalsent", 0,
    )  # fmt: skip
    desk.say("SADD", rust.queues, "rust")
    healed(desk, rust, (Ailment.MILLISECONDS_VT, "vt"), (Ailment.MILLISECONDS_VT, "delay"))
    assert desk.run(rsmq.stats(rust)).attributes.vt_s == 30
    assert desk.run(rsmq.stats(rust)).attributes.delay_s == 5


def test_scores_in_microseconds_are_told_and_mended(desk: Desk, keys: RsmqKeys) -> None:
    sent = desk.run(rsmq.send(keys, "x"))
    desk.say("ZADD", keys.messages, 1_700_000_000_123_456, sent)
    assert desk.run(rsmq.counts(keys)).delayed == 1
    healed(desk, keys, (Ailment.MICROSECONDS, sent))
    assert desk.say("ZSCORE", keys.messages, sent) == b"1700000000123"


@pytest.mark.parametrize("score", ["-inf", "+inf", "1.5", "-7", "9e300"])
def test_scores_of_any_kind_are_looked_at(desk: Desk, keys: RsmqKeys, score: str) -> None:
    sent = desk.run(rsmq.send(keys, "x"))
    desk.say("ZADD", keys.messages, score, sent)
    [seen] = desk.run(rsmq.peek(keys, 9))
    assert seen.state(desk.now_ms()) in {"ready", "delayed"}
    assert isinstance(seen.visible_at_ms, int)
    desk.run(rsmq.examine(keys))
    assert desk.run(rsmq.purge(keys, Filter(held=True))).done == 1


def test_bodies_and_ids_that_are_no_text_are_kept_byte_by_byte(desk: Desk, keys: RsmqKeys) -> None:
    odd = b"\xff\x00id"
    desk.say("ZADD", keys.messages, 5, odd)
    desk.say("HSET", keys.hash, odd, b"\xfe\x00")
    [seen] = desk.run(rsmq.peek(keys, 9))
    assert (seen.body, seen.id.encode("utf-8", "surrogateescape")) == (b"\xfe\x00", odd)
    assert ailments(desk, keys) == []
    assert desk.run(rsmq.delete(keys, seen.id))
    assert desk.say("EXISTS", keys.messages) == 0
