"""The error a job died of, found among the events: in few round trips, and the last one counts."""

from __future__ import annotations

import pytest

from chasqui.inspect import error_search
from chasqui.inspect.error_search import FoundErrors
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.server.flow import Reply
from chasqui.wire import event_entry
from chasqui.wire.event_entry import Event
from chasqui.wire.keys import Keys
from tests.support.flow_player import run_flow, run_flow_recording

KEYS = Keys("mail")
COMMANDS = Commands(Features(True, True, True, "redis", "8.6.3"))
Row = tuple[bytes, list[bytes]]


def event(number: int, kind: str, job_id: str, reason: str | None = None) -> Row:
    return b"%d-0" % number, event_entry.encode(Event(kind, job_id, 1, reason=reason))


def test_nothing_is_asked_for_no_queue() -> None:
    assert run_flow(error_search.find_errors(COMMANDS, KEYS, {}), []) == (FoundErrors({}), 0)


def test_a_few_jobs_take_two_round_trips_and_the_last_failure_counts() -> None:
    before: Reply = [9, b"7-0", [b"8-0", b"10-0"]]
    after: Reply = [3, None, [b"12-0"]]
    none: Reply = [3, None, []]
    rows = {
        b"8-0": event(8, "failed", "a", "first"),
        b"10-0": event(10, "failed", "a", "second"),
        b"12-0": event(12, "dlq", "a", "retries_exhausted"),
    }
    flow = error_search.find_errors(COMMANDS, KEYS, {"a": 11, "b": 30})
    batch = next(flow)
    assert [call.script for call in batch] == ["find_entries"] * 4
    asked = flow.send([before, after, none, none])
    replies = [[rows[str(call.args[2]).encode()]] for call in asked]
    with pytest.raises(StopIteration) as end:
        flow.send(replies)
    assert end.value.value == FoundErrors({"a": "second"})


def test_many_jobs_are_looked_for_in_one_pass_over_the_events() -> None:
    many = {f"job-{number}": number for number in range(error_search.MAX_SINGLE_SEARCHES + 1)}
    page = [
        event(3, "failed", "job-1", "late"),
        event(2, "completed", "job-2"),
        event(1, "failed", "job-1", "early"),
    ]
    found, batches = run_flow_recording(error_search.find_errors(COMMANDS, KEYS, many), [[page]])
    assert found == FoundErrors({"job-1": "late"}, scanned=3)
    assert [call.args[:2] for [call] in batches] == [("XREVRANGE", KEYS.events)]


def test_the_look_through_all_events_is_bounded() -> None:
    pages = [
        [[event(n, "failed", str(n), "x") for n in range(2000, 0, -1)]],
        [[event(1, "failed", "z", "y")]],
    ]
    found, rounds = run_flow(error_search.find_recent_errors(COMMANDS, KEYS, 2001), pages)
    assert (found.scanned, rounds) == (2001, 2)
