"""Damaged RSMQ data as its clients leave it behind: shown, reported, repaired on request, and never a crash."""

from __future__ import annotations

from enum import StrEnum

import pytest

from chasqui.foreign import rsmq
from chasqui.foreign.rsmq import RsmqProblem
from chasqui.foreign.rsmq.keys import RsmqKeys
from tests.foreign.conftest import ForeignServer

ORPHAN = "orphan00000000000000000000000000"


@pytest.fixture
def keys(foreign_server: ForeignServer) -> RsmqKeys:
    foreign_server.run(rsmq.create_queue(foreign_server.rsmq))
    return foreign_server.rsmq


def problems(server: ForeignServer, keys: RsmqKeys) -> list[tuple[StrEnum, str]]:
    return [(finding.problem, finding.subject) for finding in server.run(rsmq.examine(keys))]


def assert_repaired(server: ForeignServer, keys: RsmqKeys, *expected: tuple[RsmqProblem, str]) -> None:
    """Check that these findings are reported and that one repair fixes all of them."""
    findings = server.run(rsmq.examine(keys))
    assert [(finding.problem, finding.subject) for finding in findings] == list(expected)
    assert all(finding.advice for finding in findings)
    assert server.run(rsmq.repair(keys, findings, only=frozenset())) == 0
    assert server.run(rsmq.repair(keys, findings)) == len(expected)
    assert problems(server, keys) == []


def test_a_sound_queue_has_no_findings(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    for body in ("a", "b"):
        foreign_server.run(rsmq.send(keys, body))
    foreign_server.run(rsmq.receive(keys))
    assert problems(foreign_server, keys) == []


def test_a_member_without_a_body_is_shown_received_and_removed(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    foreign_server.command("ZADD", keys.messages, 1_700_000_000_123, ORPHAN)
    [seen] = foreign_server.run(rsmq.peek(keys, 9))
    assert (seen.id, seen.body, seen.size) == (ORPHAN, None, None)
    received = foreign_server.run(rsmq.receive(keys, vt_ms=0))
    assert received is not None
    assert (received.body, received.receives) == (None, 1)
    assert rsmq.to_row(seen)["body"] is None
    assert_repaired(foreign_server, keys, (RsmqProblem.NO_BODY, ORPHAN))


def test_fields_of_deleted_messages_are_found_and_removed(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    sent = foreign_server.run(rsmq.send(keys, "x"))
    foreign_server.run(rsmq.receive(keys))
    foreign_server.command("ZREM", keys.messages, sent)
    foreign_server.run(rsmq.send(keys, "stays"))
    findings = foreign_server.run(rsmq.examine(keys))
    assert {finding.subject for finding in findings} == {sent, f"{sent}:rc", f"{sent}:fr"}
    assert {finding.problem for finding in findings} == {RsmqProblem.STRAY_FIELD}
    assert foreign_server.run(rsmq.repair(keys, findings)) == 3
    assert problems(foreign_server, keys) == []
    assert foreign_server.run(rsmq.queue_stats(keys)).messages == 1


def test_a_field_whose_message_came_back_is_left_alone(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    sent = foreign_server.run(rsmq.send(keys, "x"))
    score = foreign_server.command("ZSCORE", keys.messages, sent)
    foreign_server.command("ZREM", keys.messages, sent)
    findings = foreign_server.run(rsmq.examine(keys))
    foreign_server.command("ZADD", keys.messages, score, sent)
    assert foreign_server.run(rsmq.repair(keys, findings)) == 0
    shown = foreign_server.run(rsmq.read_message(keys, sent))
    assert shown is not None
    assert shown.body == b"x"


def test_a_count_without_a_first_receive_is_read_and_repaired(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    sent = foreign_server.run(rsmq.send(keys, "x"))
    foreign_server.command("HSET", keys.hash, f"{sent}:rc", 3)
    received = foreign_server.run(rsmq.receive(keys, vt_ms=0))
    assert received is not None
    assert (received.receives, received.first_received_ms) == (4, None)
    assert_repaired(foreign_server, keys, (RsmqProblem.NO_FIRST_RECEIVE, sent))


def test_a_count_that_is_no_number_does_not_stop_the_queue(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    sent = foreign_server.run(rsmq.send(keys, "x"))
    foreign_server.command("HSET", keys.hash, f"{sent}:rc", "many", "totalrecv", "lots", "totalsent", "more")
    received = foreign_server.run(rsmq.receive(keys, vt_ms=60_000))
    assert received is not None
    assert (received.body, received.receives) == (b"x", None)
    foreign_server.run(rsmq.send(keys, "y"))
    assert foreign_server.run(rsmq.count_by_state(keys)).in_flight == 1
    assert foreign_server.run(rsmq.queue_stats(keys)).attributes.received == 0
    findings = foreign_server.run(rsmq.examine(keys))
    assert {finding.problem for finding in findings} == {RsmqProblem.NOT_A_NUMBER, RsmqProblem.BAD_COUNT}
    assert foreign_server.run(rsmq.repair(keys, findings)) == 3
    assert {finding.problem for finding in foreign_server.run(rsmq.examine(keys))} <= {RsmqProblem.NO_FIRST_RECEIVE}


def test_the_ghost_of_a_dropped_queue_is_found_and_adopted(foreign_server: ForeignServer) -> None:
    keys = foreign_server.rsmq
    foreign_server.command("ZADD", keys.messages, 1_700_000_000_123, ORPHAN)
    foreign_server.command("HSET", keys.hash, ORPHAN, "Hello", "totalsent", 1)
    with pytest.raises(rsmq.QueueNotFound):
        foreign_server.run(rsmq.queue_stats(keys))
    assert [message.body for message in foreign_server.run(rsmq.peek(keys, 9))] == [b"Hello"]
    assert_repaired(foreign_server, keys, (RsmqProblem.GHOST, "orders"))
    received = foreign_server.run(rsmq.receive(keys))
    assert received is not None
    assert received.body == b"Hello"
    assert foreign_server.run(rsmq.list_queues(foreign_server.name)) == ["orders"]


def test_a_ghost_that_pyrsmq_wrote_keeps_what_it_has(foreign_server: ForeignServer) -> None:
    foreign_server.command("HSET", foreign_server.rsmq.hash, "vt", 25, "modified", 1_700_000_000)
    assert_repaired(foreign_server, foreign_server.rsmq, (RsmqProblem.GHOST, "orders"))
    assert foreign_server.run(rsmq.queue_stats(foreign_server.rsmq)).attributes.vt_s == 25


def test_an_unlisted_queue_is_listed_by_the_repair(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    foreign_server.command("SREM", keys.queues, "orders")
    assert_repaired(foreign_server, keys, (RsmqProblem.UNLISTED, "orders"))
    assert foreign_server.run(rsmq.list_queues(foreign_server.name)) == ["orders"]


def test_a_name_without_a_queue_is_taken_off_the_list(foreign_server: ForeignServer) -> None:
    foreign_server.command("SADD", foreign_server.rsmq.queues, "orders")
    assert_repaired(foreign_server, foreign_server.rsmq, (RsmqProblem.PHANTOM, "orders"))
    assert foreign_server.run(rsmq.list_queues(foreign_server.name)) == []


def test_fractions_and_milliseconds_of_other_clients_are_read_and_repaired(
    foreign_server: ForeignServer, keys: RsmqKeys
) -> None:
    foreign_server.command("HSET", keys.hash, "vt", "25.5")
    assert foreign_server.run(rsmq.queue_stats(keys)).attributes.vt_s == 25.5
    assert_repaired(foreign_server, keys, (RsmqProblem.FRACTION, "vt"))
    assert foreign_server.command("HGET", keys.hash, "vt") == b"25"
    rust = RsmqKeys("rust", foreign_server.name)
    foreign_server.command(
        "HSET", rust.hash, "vt", 30000, "delay", 5000, "maxsize", 65536, "created", 1, "modified", 1,
        "totalrecv", 0, "totalsent", 0,
    )  # fmt: skip
    foreign_server.command("SADD", rust.queues, "rust")
    assert_repaired(foreign_server, rust, (RsmqProblem.MILLISECONDS_VT, "vt"), (RsmqProblem.MILLISECONDS_VT, "delay"))
    assert foreign_server.run(rsmq.queue_stats(rust)).attributes.vt_s == 30
    assert foreign_server.run(rsmq.queue_stats(rust)).attributes.delay_s == 5


def test_scores_in_microseconds_are_reported_and_repaired(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    sent = foreign_server.run(rsmq.send(keys, "x"))
    foreign_server.command("ZADD", keys.messages, 1_700_000_000_123_456, sent)
    assert foreign_server.run(rsmq.count_by_state(keys)).delayed == 1
    assert_repaired(foreign_server, keys, (RsmqProblem.MICROSECONDS, sent))
    assert foreign_server.command("ZSCORE", keys.messages, sent) == b"1700000000123"


@pytest.mark.parametrize("score", ["-inf", "+inf", "1.5", "-7", "9e300"])
def test_scores_of_any_kind_are_looked_at(foreign_server: ForeignServer, keys: RsmqKeys, score: str) -> None:
    sent = foreign_server.run(rsmq.send(keys, "x"))
    foreign_server.command("ZADD", keys.messages, score, sent)
    [seen] = foreign_server.run(rsmq.peek(keys, 9))
    assert seen.state(foreign_server.now_ms()) in {"ready", "delayed"}
    assert isinstance(seen.visible_at_ms, int)
    foreign_server.run(rsmq.examine(keys))
    assert foreign_server.run(rsmq.purge(keys, [seen])) == ["done"]


def test_bodies_and_ids_that_are_not_text_are_preserved(foreign_server: ForeignServer, keys: RsmqKeys) -> None:
    odd = b"\xff\x00id"
    foreign_server.command("ZADD", keys.messages, 5, odd)
    foreign_server.command("HSET", keys.hash, odd, b"\xfe\x00")
    [seen] = foreign_server.run(rsmq.peek(keys, 9))
    assert (seen.body, seen.id.encode("utf-8", "surrogateescape")) == (b"\xfe\x00", odd)
    assert problems(foreign_server, keys) == []
    assert foreign_server.run(rsmq.delete(keys, seen.id))
    assert foreign_server.command("EXISTS", keys.messages) == 0
