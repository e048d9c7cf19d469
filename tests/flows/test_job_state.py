"""Job states with canned replies: how few round trips it takes when the id or an event shows where to search."""

from __future__ import annotations

from typing import Any

from chasqui.inspect.job_state import DeadState, DelayedState, DoneState, UnknownState, WaitingState
from chasqui.inspect.job_state_search import find_job_state
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.wire import dead_letter_entry, delayed_member, envelope, event_entry, stream_entry
from chasqui.wire.dead_letter_entry import DeadLetterEntry
from chasqui.wire.event_entry import Event
from chasqui.wire.job_id import new_job_id
from chasqui.wire.keys import Keys
from chasqui.wire.payload import Payload
from tests.support.flow_player import run_flow, run_flow_recording

COMMANDS = Commands(Features(idmp=True, ackdel=True, claim=True, kind="redis", version="8.6"))
KEYS = Keys("mail")
NOW = 1_794_796_970_454
JOB = envelope.Envelope(new_job_id(NOW), Payload("bin", b"\x01"), NOW)
ENTRY_ID = f"{NOW}-0".encode()
NOTHING: list[Any] = []


def glance(
    *,
    stream: int = 0,
    delayed: int = 0,
    dlq: int = 0,
    events: int = 0,
    result: int = 0,
    index: bytes | None = None,
) -> list[Any]:
    """The first round: the queue, and the keys with the id in their names."""

    def reach(length: int) -> list[Any]:
        return [length, ENTRY_ID, ENTRY_ID, length] if length else []

    types = [b"none"] * 7
    zset = [delayed, 0, b"1"] if delayed else []
    look = [NOW + 500, types, reach(stream), [], reach(dlq), zset, [], reach(events), [], []]
    return [look, result, 60_000 if result else -2, index, 0, None]


def found(*entry_ids: bytes, looked: int = 1) -> list[Any]:
    return [[looked, None, list(entry_ids)]]


def event(kind: str, **fields: Any) -> list[Any]:
    return [[[ENTRY_ID, event_entry.encode(Event(kind, JOB.id, 1, **fields))]]]


def test_a_queue_without_anything_is_one_round_trip() -> None:
    report, rounds = run_flow(find_job_state(COMMANDS, KEYS, JOB.id), [glance()])
    assert (report.primary, rounds) == (UnknownState(None, was_scheduled=False, last=None), 1)


def test_a_waiting_job_is_found_around_the_time_in_its_id() -> None:
    row = [[[ENTRY_ID, stream_entry.encode(envelope.encode(JOB), "mail")]]]
    replies = [glance(stream=9), found(ENTRY_ID), row, [[4, None, NOTHING]]]
    report, batches = run_flow_recording(find_job_state(COMMANDS, KEYS, JOB.id), replies)
    assert report.primary == WaitingState(ENTRY_ID.decode(), JOB, "mail", 500, 4, has_group=False)
    assert len(batches) == 4
    assert {str(NOW - 50), str(NOW + 2000)} <= set(batches[1][0].args)


def test_a_delayed_job_with_an_index_takes_two_round_trips_when_there_are_no_events() -> None:
    member = delayed_member.encode(envelope.encode(JOB), "mail")
    report, rounds = run_flow(
        find_job_state(COMMANDS, KEYS, JOB.id), [glance(delayed=5, index=member), [b"9000000000000"]]
    )
    assert (report.primary, rounds) == (DelayedState(9_000_000_000_000, 0, JOB, "mail"), 2)


def test_a_finished_job_is_not_looked_for_elsewhere() -> None:
    replies = [
        glance(stream=9, delayed=9, dlq=9, events=9, result=4),
        found(),
        found(ENTRY_ID),
        event("completed"),
    ]
    report, rounds = run_flow(find_job_state(COMMANDS, KEYS, JOB.id), replies)
    assert isinstance(report.primary, DoneState)
    assert rounds == 4


def test_a_dead_job_is_looked_for_around_the_time_it_died() -> None:
    letter = DeadLetterEntry(envelope.encode(JOB), "1-0", "unrecoverable", None, "mail")
    replies = [
        glance(dlq=9, events=9),
        found(ENTRY_ID),
        event("dlq", reason="unrecoverable"),
        found(ENTRY_ID),
        [[[ENTRY_ID, dead_letter_entry.encode(letter)]]],
    ]
    report, batches = run_flow_recording(find_job_state(COMMANDS, KEYS, JOB.id), replies)
    assert isinstance(report.primary, DeadState)
    assert (report.primary.letter.reason, report.primary.error) == ("unrecoverable", None)
    assert {str(NOW - 1050), str(NOW + 1000)} <= set(batches[3][0].args)
