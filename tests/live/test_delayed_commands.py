"""The commands that delay and promote jobs, on every kind of server, with and without its native commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui.server.commands import (
    DelayFromNow,
    PromoteResult,
    RawEntry,
)
from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from chasqui.server.commands import DueTime
    from tests.live.conftest import Everywhere
from tests.support.queue_harness import ENVELOPE, ENVELOPE_TEXT, as_text, delayed_member


def test_a_job_is_scheduled_once_per_id_and_can_be_found_and_cancelled(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        schedule = b.commands.schedule_once(b.keys, "job", delayed_member(b"mail"), now + 60_999, now_ms=now)
        scheduled = [0 <= b.run_calls(schedule) - now < 5000, b.run_calls(schedule)]
        before = b.dump()
        member = b.command("GET", b.keys.delayed_index("job"))
        assert (member, b.command("ZSCORE", b.keys.delayed, member)) == (
            delayed_member(b"mail"),
            b"%d" % (now + 60_999),
        )
        cancelled = [b.run_calls(b.commands.cancel_delayed(b.keys, "job")) for _ in range(2)]
        return [scheduled, before, cancelled, b.command("EXISTS", b.keys.delayed_index("job"), b.keys.delayed)]

    outcome = on_every_server(story)
    scheduled, before, cancelled, found = outcome.result
    assert (scheduled, cancelled, found) == ([True, 0], [1, 0], 0)
    assert before == {
        "delayed": {as_text(delayed_member(b"mail")): "now+60s"},
        "didx:job": {"value": as_text(delayed_member(b"mail")), "expires_in_s": 3660},
        "dlid:job": {"value": "1", "expires_in_s": 3660},
    }
    assert outcome.left == {}


def test_delays_are_counted_by_the_server(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        jobs: list[tuple[DueTime, bytes]] = [
            (DelayFromNow(60_000), delayed_member(b"a")),
            (1_000, delayed_member(b"b")),
        ]
        call = b.commands.schedule_batch(b.keys, "p", "first", jobs)
        time_ms = b.run_calls(call)
        assert 0 <= b.now_ms() - time_ms < 5000
        b.command("ZREM", b.keys.delayed, delayed_member(b"b"))
        assert b.run_calls(call) == time_ms, "what left the set meanwhile is not scheduled again"
        once = b.commands.delay_once(b.keys, "job", delayed_member(b"c"), 60_999)
        return [0 <= b.run_calls(once) - time_ms < 5000, b.run_calls(once)]

    outcome = on_every_server(story)
    assert outcome.result == [True, 0]
    assert outcome.left == {
        "delayed": {as_text(delayed_member(b"a")): "now+60s", as_text(delayed_member(b"c")): "now+60s"},
        "didx:job": {"value": as_text(delayed_member(b"c")), "expires_in_s": 3660},
        "dlid:job": {"value": "1", "expires_in_s": 3660},
    }


def test_a_cancel_that_comes_too_late_keeps_the_marker(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        b.run_calls(b.commands.schedule_once(b.keys, "job", delayed_member(b""), now - 1, now_ms=now))
        promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=10)))
        late = b.run_calls(b.commands.cancel_delayed(b.keys, "job"))
        b.run_calls(b.commands.delete_indexes(b.keys, ["job"]))
        return [promoted.count, late]

    outcome = on_every_server(story)
    assert outcome.result == [1, 0]
    assert set(outcome.left) == {"stream", "dlid:job"}


def test_promoting_moves_what_is_due_in_order_and_reports_how_late_the_rest_is(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        now = b.now_ms()
        for name, distance in ((b"late", -50_000), (b"", -40_000), (b"later", -30_000), (b"not due", 90_000)):
            b.run_calls(b.commands.schedule(b.keys, delayed_member(name), now + distance))
        runs = [PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=2, cap=1000))) for _ in range(3)]
        assert 30_000 <= runs[0].lag_ms < 60_000
        return [[run.count, run.depth, run.lag_ms > 0, run.quarantined, list(run.envelopes)] for run in runs]

    outcome = on_every_server(story)
    assert outcome.result == [
        [2, 2, True, 0, [ENVELOPE_TEXT, ENVELOPE_TEXT]],
        [1, 1, False, 0, [ENVELOPE_TEXT]],
        [0, 1, False, 0, []],
    ]
    assert outcome.left == {
        "stream": {
            "entries": [["d", ENVELOPE_TEXT, "n", "late"], ["d", ENVELOPE_TEXT], ["d", ENVELOPE_TEXT, "n", "later"]],
        },
        "delayed": {as_text(delayed_member(b"not due")): "now+90s"},
    }


LONG = "ж".encode() * 74

GARBAGE = [
    b"",
    b"abc",
    b"\xf4\x01\x00\x00jfcws",
    b"\x02\x00\x00\x00nm",
    b"\x04\x00\x00\x00mail\xc1",
    b"\xff\xff\xff\xff",
]


@pytest.mark.parametrize(
    ("stored", "name", "envelope"),
    [
        (b"\x04\x00\x00\x00mail" + ENVELOPE, "mail", ENVELOPE),
        (b"\x00\x01\x00\x00" + b"n" * 256 + ENVELOPE, "n" * 256, ENVELOPE),
        (b"\x2c\x01\x00\x00" + "ж".encode() * 150 + ENVELOPE, "ж" * 150, ENVELOPE),
        (b"\x04mail" + ENVELOPE, "mail", ENVELOPE),
        (b"\x00" + ENVELOPE, "", ENVELOPE),
        (b"\x94" + LONG + ENVELOPE, LONG.decode(), ENVELOPE),
        (ENVELOPE, "", ENVELOPE),
        (
            b"\x94\xa4long\xc5\x00\xc8" + b"\x81" * 200 + b"\x01\x00",
            "",
            b"\x94\xa4long\xc5\x00\xc8" + b"\x81" * 200 + b"\x01\x00",
        ),
        (b"\xdc\x00\x04" + ENVELOPE[1:], "", b"\xdc\x00\x04" + ENVELOPE[1:]),
        (b"\x00\x00\x00\x00\x94broken", "", b"\x94broken"),
    ],
    ids=[
        "u32le",
        "u32le-256",
        "u32le-beyond-the-cap",
        "u8",
        "u8-empty",
        "u8-148",
        "bare",
        "bare-150-deep",
        "bare-array16",
        "unreadable",
    ],
)
def test_promoting_reads_all_three_forms_of_a_member(
    on_every_server: Everywhere, stored: bytes, name: str, envelope: bytes
) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.schedule(b.keys, stored, 1))
        return PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=10))).count

    outcome = on_every_server(story)
    assert outcome.result == 1
    fields = ["d", as_text(envelope), *(["n", name] if name else [])]
    assert outcome.left == {"stream": {"entries": [fields]}}


def test_promoting_quarantines_garbage_with_all_its_bytes_and_goes_on(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for score, garbage in enumerate(GARBAGE):
            b.run_calls(b.commands.schedule(b.keys, garbage, score))
        b.command("ZADD", b.keys.delayed, "-inf", "endless", "+inf", "never")
        b.run_calls(b.commands.schedule(b.keys, delayed_member(b"good"), 1000))
        promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=100)))
        letters = RawEntry.list_from_reply(b.run_calls(b.commands.oldest_entries(b.keys.dlq, 100)))
        quarantined = {(entry.fields[1], entry.fields[9]) for entry in letters}
        assert quarantined == {(b"endless", b"-inf"), *((data, b"%d" % score) for score, data in enumerate(GARBAGE))}
        assert {tuple(entry.fields[::2]) for entry in letters} == {
            (b"d", b"source_id", b"reason", b"detail", b"due_ms")
        }
        assert {entry.fields[5] for entry in letters} == {b"malformed"}
        return [promoted.count, promoted.depth, promoted.lag_ms, promoted.quarantined]

    outcome = on_every_server(story)
    assert outcome.result == [1, 1, 0, len(GARBAGE) + 1]
    assert outcome.left["stream"]["entries"] == [["d", ENVELOPE_TEXT, "n", "good"]]


def test_garbage_that_cannot_be_quarantined_stays_and_blocks_no_job(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("SET", b.keys.dlq, "no stream")
        b.run_calls(b.commands.schedule(b.keys, b"abc", 1))
        b.run_calls(b.commands.schedule(b.keys, delayed_member(b"good"), 2))
        promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=100)))
        return [promoted.count, promoted.depth, promoted.lag_ms > 0, promoted.quarantined]

    outcome = on_every_server(story)
    assert outcome.result == [1, 1, True, 0]
    assert outcome.left["delayed"] == {"abc": 1.0}


def test_a_failed_job_is_parked_by_the_servers_clock_and_only_by_its_owner(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        park = b.commands.schedule_retry
        stranger = b.run_calls(park(b.keys, GROUP, "bob", entry_id, delayed_member(b"mail"), delay_ms=100_000))
        before = b.now_ms()
        due = b.run_calls(park(b.keys, GROUP, "ada", entry_id, delayed_member(b"mail"), delay_ms=100_000))
        assert before + 100_000 <= due <= b.now_ms() + 100_000
        assert due == int(b.command("ZSCORE", b.keys.delayed, delayed_member(b"mail")))
        return [stranger, b.run_calls(park(b.keys, GROUP, "ada", entry_id, delayed_member(b"mail"), delay_ms=1))]

    outcome = on_every_server(story)
    assert outcome.result == [None, None]
    assert outcome.left == {
        "stream": {"entries": [], "groups": {GROUP: {"consumers": ["ada"], "pending": []}}},
        "delayed": {as_text(delayed_member(b"mail")): "now+100s"},
    }
