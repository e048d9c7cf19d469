"""Dead letters without a server: how they are paged through, chosen and revived."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui.operate import dead_letters
from chasqui.operate.dead_letters import DeadLetter, ReplayResult
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.wire import dead_letter_entry, envelope
from chasqui.wire.dead_letter_entry import DeadLetterEntry
from chasqui.wire.envelope import Envelope, Payload
from chasqui.wire.keys import Keys
from tests.support.flow_player import run_flow, run_flow_recording

KEYS = Keys("mail")
COMMANDS = Commands(Features(True, True, True, "redis", "8.6.3"))
Row = tuple[bytes, list[bytes]]


def letter(number: int, d: bytes | None = None, name: str = "", reason: str = "unrecoverable") -> Row:
    content = envelope.encode(Envelope(f"id-{number}", Payload("bin", b"\x01"), 1, 4)) if d is None else d
    return b"%d-0" % number, dead_letter_entry.encode(DeadLetterEntry(content, "9-9", reason, name=name))


def letters(first: int, last: int) -> list[Row]:
    return [letter(number) for number in range(first, last + 1)]


def test_peeking_takes_a_round_trip_per_hundred_letters() -> None:
    found, batches = run_flow_recording(
        dead_letters.list_dead_letters(COMMANDS, KEYS, 150), [[letters(1, 100)], [letters(101, 150)]]
    )
    assert [job.dead_id for job in found] == [f"{number}-0" for number in range(1, 151)]
    assert [call.args for [call] in batches] == [
        ("XRANGE", KEYS.dlq, "-", "+", "COUNT", 100),
        ("XRANGE", KEYS.dlq, "(100-0", "+", "COUNT", 50),
    ]


def test_nothing_is_asked_for_nothing() -> None:
    assert run_flow(dead_letters.list_dead_letters(COMMANDS, KEYS, 0), []) == ([], 0)
    assert run_flow(dead_letters.replay_oldest(COMMANDS, KEYS, 0), []) == (ReplayResult(), 0)


def test_replaying_is_two_round_trips_and_resets_attempts() -> None:
    rows = [letter(1, name="mail"), letter(2)]
    done, [_, [call]] = run_flow_recording(
        dead_letters.replay_oldest(COMMANDS, KEYS, 10, cap=7), [[rows], [[b"5-0", b"5-1"]]]
    )
    assert done == ReplayResult(moved=2)
    assert (call.script, call.args[5]) == ("replay_dead", 7)
    dead_ids, bodies, names = call.args[6::3], call.args[7::3], call.args[8::3]
    assert dead_ids == ("1-0", "2-0")
    assert names == (b"mail", b"")
    assert [envelope.decode(_bytes(d)).attempt for d in bodies] == [0, 0]


def test_what_cannot_be_read_stays_without_using_up_the_limit() -> None:
    rows = [letter(1, d=b"\xc1"), letter(2, d=b""), letter(3), letter(4, d=b"\xc1"), letter(5)]
    done, [_, [call]] = run_flow_recording(dead_letters.replay_oldest(COMMANDS, KEYS, 1), [[rows], [[b"5-0"]]])
    assert call.args[6::3] == ("3-0",)
    assert done == ReplayResult(moved=1, unreadable=2)


def test_pages_are_turned_until_the_limit_is_reached() -> None:
    garbage = [letter(number, d=b"\xc1") for number in range(1, 101)]
    done, batches = run_flow_recording(
        dead_letters.replay_oldest(COMMANDS, KEYS, 2), [[garbage], [letters(101, 150)], [[b"5-0", b"5-1"]]]
    )
    assert done == ReplayResult(moved=2, unreadable=100)
    assert batches[1][0].args[2] == "(100-0"


def test_letters_that_others_took_are_made_up_for() -> None:
    done, batches = run_flow_recording(
        dead_letters.replay_oldest(COMMANDS, KEYS, 2),
        [[letters(1, 100)], [[b"gone", b"5-0"]], [letters(3, 102)], [[b"5-1"]]],
    )
    assert done == ReplayResult(moved=2)
    assert batches[2][0].args[2] == "(2-0"
    assert batches[3][0].args[6] == "3-0"


def test_a_full_stream_ends_it() -> None:
    done, rounds = run_flow(
        dead_letters.replay_oldest(COMMANDS, KEYS, 500, cap=1),
        [[letters(1, 100)], [[b"5-0", *[b"full"] * 99]]],
    )
    assert (done, rounds) == (ReplayResult(moved=1, is_stream_full=True), 2)


def test_only_what_is_wanted_is_replayed() -> None:
    rows = [letter(1, reason="malformed"), letter(2), letter(3, reason="malformed")]

    def unrecoverable(letter: DeadLetter) -> bool:
        return letter.field(b"reason") == b"unrecoverable"

    flow = dead_letters.replay_oldest(COMMANDS, KEYS, 10, matches=unrecoverable)
    done, [_, [call]] = run_flow_recording(flow, [[rows], [[b"5-0"]]])
    assert done == ReplayResult(moved=1)
    assert call.args[6::3] == ("2-0",)


@pytest.mark.parametrize("payload", [b"\x93\x01\x02\x03", b"\xa5hello", b"\x81\x01\x02", b"\xc4\x01\x01"])
def test_a_payload_keeps_its_form(payload: bytes) -> None:
    d = b"\x95\xa1x" + payload + b"\x01\x07\xc0"
    _, [_, [call]] = run_flow_recording(dead_letters.replay_oldest(COMMANDS, KEYS, 1), [[[letter(1, d=d)]], [[b"5-0"]]])
    assert call.args[7] == b"\x94\xa1x" + payload + b"\x01\x00"


def test_a_page_is_one_round_trip_from_either_end() -> None:
    found, [[call]] = run_flow_recording(
        dead_letters.dead_letter_page(COMMANDS, KEYS, 7, first="5-0"), [[letters(5, 6)]]
    )
    assert [one.dead_id for one in found] == ["5-0", "6-0"]
    assert call.args == ("XRANGE", KEYS.dlq, "5-0", "+", "COUNT", 7)
    _, [[call]] = run_flow_recording(dead_letters.dead_letter_page(COMMANDS, KEYS, 7, last="(9-0", newest=True), [[[]]])
    assert call.args == ("XREVRANGE", KEYS.dlq, "(9-0", "-", "COUNT", 7)


def test_letters_are_fetched_deleted_and_replayed_by_id_in_a_round_trip_each() -> None:
    found, rounds = run_flow(dead_letters.dead_letters_by_id(COMMANDS, KEYS, ["1-0", "2-0"]), [[[letter(1)], []]])
    assert rounds == 1
    assert found[0] is not None
    assert found[0].dead_id == "1-0"
    assert found[1] is None
    fresh = dead_letters.replay_envelope(found[0])
    assert fresh is not None
    assert envelope.decode(fresh).attempt == 0
    moved = run_flow(dead_letters.replay_dead_letters(COMMANDS, KEYS, [(found[0], fresh)], cap=5), [[[b"7-0"]]])
    assert moved == (["7-0"], 1)
    assert run_flow(dead_letters.delete_dead_letters(COMMANDS, KEYS, ["1-0", "2-0"]), [[1, 0]]) == (
        [True, False],
        1,
    )
    for flow in (
        dead_letters.dead_letters_by_id(COMMANDS, KEYS, []),
        dead_letters.delete_dead_letters(COMMANDS, KEYS, []),
        dead_letters.check_imports(COMMANDS, KEYS, []),
    ):
        assert run_flow(flow, []) == ([], 0)
    assert run_flow(dead_letters.replay_dead_letters(COMMANDS, KEYS, []), []) == ([], 0)


def test_an_edited_letter_keeps_the_bytes_that_were_not_touched() -> None:
    payload = b"\x82\xa1a\xcf\x00\x00\x00\x00\x00\x00\x00\x05\xa1b\xc4\x01\xff"
    d = envelope.encode(Envelope("x", Payload("bin", payload), 1, 4))
    dead_id, fields = letter(1, d=d)
    one = DeadLetter(dead_id.decode(), fields)
    changed = envelope.decode(dead_letters.envelope_with_data(one, {"a": 5, "b": b"\xfe"}))
    assert changed == envelope.decode(d)._replace(payload=Payload("bin", payload[:-1] + b"\xfe"))
    assert dead_letters.envelope_with_data(one, {"a": 5, "b": b"\xff"}) == d


def test_a_rewritten_letter_keeps_its_other_fields() -> None:
    one = DeadLetter("1-0", [b"n", b"mail", b"d", b"x", b"odd", b"y", b"d", b"second"])
    new_id, [[call]] = run_flow_recording(dead_letters.replace_envelope(COMMANDS, KEYS, one, b"new"), [[b"9-0"]])
    assert new_id == "9-0"
    assert call.args[4:] == ("1-0", b"n", b"mail", b"d", b"new", b"odd", b"y", b"d", b"second")
    assert run_flow(dead_letters.replace_envelope(COMMANDS, KEYS, DeadLetter("1-0", []), b"new"), [[None]]) == (
        None,
        1,
    )


def test_dead_letters_differ_by_every_byte() -> None:
    one = DeadLetter("1-0", [b"d", b"ab"])
    others = [
        DeadLetter("1-1", [b"d", b"ab"]),
        DeadLetter("1-0", [b"da", b"b"]),
        DeadLetter("1-0", [b"d", b"ac"]),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 4
    assert one.digest == DeadLetter("1-0", (b"d", b"ab")).digest


def _bytes(word: Any) -> bytes:
    assert isinstance(word, bytes)
    return word
