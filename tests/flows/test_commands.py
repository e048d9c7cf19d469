"""The words that builders say, and the flows among them with canned replies: no server, round trips counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui.errors import ServerError
from chasqui.operate import consumers
from chasqui.server.commands import (
    Commands,
    FireResult,
    GroupInfo,
    LockState,
    PlannedFire,
    RawEntry,
    members_with_scores,
    parse_server_time,
)
from chasqui.server.features import Features
from chasqui.server.flow import Call
from chasqui.wire.keys import Keys
from tests import golden
from tests.support.flow_player import run_flow, run_flow_recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.server.flow import Arg

NATIVE = Commands(Features(idmp=True, ackdel=True, claim=True, kind="redis", version="8.6.3"))
STAND_INS = Commands(Features(idmp=False, ackdel=False, claim=False, kind="redis", version="7.0.15"))
MAIL = Keys("mail")
STREAM = "{chasqui:mail}:stream"


def on_the_wire(call: Call) -> list[str]:
    """A call's words in hex, as the vectors write them."""
    return [(word if isinstance(word, bytes) else str(word).encode()).hex() for word in call.args]


# The reference's own words


def test_adding_sends_what_the_reference_sends(record_property: Callable[[str, object], None]) -> None:
    def check(item: golden.Item) -> None:
        found = {name: item["hex"][name] for name in ("d", "n") if item["hex"][name] is not None}
        fields: list[Arg] = [word for name, value in found.items() for word in (name, bytes.fromhex(value))]
        keys, expect = Keys(item["context"]["queue"]), item["expect"]
        call = NATIVE.add_entry(keys, expect["idmp_producer"], expect["id"], fields, cap=expect["maxlen"])
        assert on_the_wire(call) == item["hex"]["argv"]

    golden.walk("stream_entry", check, record_property)


def test_adding_in_bulk_sends_what_the_reference_sends() -> None:
    bulks = [item for item in golden.items("command") if item["case"] == "add_bulk"]
    assert bulks
    for item in bulks:
        for job_id, argv in zip(item["context"]["ids"], item["hex"]["argvs"], strict=True):
            words = [bytes.fromhex(word) for word in argv]
            call = NATIVE.add_entry(Keys(item["context"]["queue"]), words[3].decode(), job_id, words[9:], cap=1_000_000)
            assert on_the_wire(call) == argv


def test_scheduling_sends_what_the_reference_sends_or_passes_it_the_same(
    record_property: Callable[[str, object], None],
) -> None:
    def check(item: golden.Item) -> None:
        argv, context = item["hex"].get("argv"), item["context"]
        if argv is None:
            return
        keys, member = Keys(context["queue"]), bytes.fromhex(item["hex"]["member"])
        if "marker_ttl_secs" not in context:
            assert on_the_wire(NATIVE.schedule(keys, member, context["score"])) == argv
            return
        expect = item["expect"]["envelope"]
        call = NATIVE.schedule_once(keys, expect["id"], member, context["score"], now_ms=expect["created_at_ms"])
        assert on_the_wire(call)[2:] == argv[2:]
        assert call.args[6] == context["marker_ttl_secs"]

    golden.walk("delayed_member", check, record_property)


def test_reading_new_entries_sends_what_the_reference_sends_but_claims_nothing() -> None:
    call = NATIVE.read_new(MAIL, "default", "c-1", block_ms=5000).call(64)
    message = f"XREADGROUP GROUP default c-1 COUNT 64 BLOCK 5000 STREAMS {STREAM} >"
    assert [str(word) for word in call.args] == message.split()
    assert (call.block_ms, call.keys) == (5000, (STREAM,))


def test_settling_sends_what_the_reference_sends() -> None:
    call = NATIVE.ack_and_delete(MAIL, "default", ["1-0", "2-0"])
    assert call == Call(("XACKDEL", STREAM, "default", "IDS", 2, "1-0", "2-0"), keys=(STREAM,))


@pytest.mark.parametrize(
    ("call", "script"),
    [
        (STAND_INS.add_entry(MAIL, "p", "job", ["d", b""]), "add_once"),
        (STAND_INS.ack_and_delete(MAIL, "default", ["1-0"]), "ack_delete"),
        (STAND_INS.read_ready(MAIL, "default", "c", claim_idle_ms=1).call(1), "read_ready_without_claim"),
    ],
)
def test_a_server_without_the_new_words_gets_a_script(call: Call, script: str) -> None:
    assert call.script == script


# Reading


ROWS = [[b"1-0", [b"d", b"x"], 1500, 2], [b"2-0", [b"d", b"y"], 0, 0]]


@pytest.mark.parametrize("reply", [[[STREAM.encode(), ROWS]], {STREAM.encode(): ROWS}], ids=["resp2", "resp3"])
def test_new_entries_are_taken_out_of_either_protocols_reply(reply: object) -> None:
    assert NATIVE.read_new(MAIL, "g", "c", block_ms=50).rows(reply) == ROWS


def test_a_dry_read_has_no_entries() -> None:
    assert NATIVE.read_new(MAIL, "g", "c", block_ms=50).rows(None) == []
    assert NATIVE.read_ready(MAIL, "g", "c", claim_idle_ms=1000).rows([]) == []


@pytest.mark.parametrize("commands", [NATIVE, STAND_INS], ids=["native", "stand-in"])
def test_what_is_ready_is_one_script_that_waits_for_nothing(commands: Commands) -> None:
    read = commands.read_ready(MAIL, "g", "c", claim_idle_ms=1000)
    call = read.call(9)
    assert (call.args[-4:], call.block_ms) == (("g", "c", 9, 1000), None)
    assert read.rows(ROWS) == ROWS


# Other flows and values


def test_a_group_that_exists_is_no_error_and_any_other_refusal_is() -> None:
    assert run_flow(NATIVE.ensure_group(MAIL, "g"), [[b"OK"]]) == (True, 1)
    busy = ServerError("BUSYGROUP Consumer Group name already exists", code="BUSYGROUP")
    assert run_flow(NATIVE.ensure_group(MAIL, "g"), [[busy]]) == (False, 1)
    with pytest.raises(ServerError, match="full"):
        run_flow(NATIVE.ensure_group(MAIL, "g"), [[ServerError("full", code="OOM")]])


def test_ghosts_are_looked_for_page_by_page_each_after_the_last_and_no_further_than_allowed() -> None:
    row = consumers.PendingEntry(b"7-1", b"c", 5, 1)
    pages = [[[2, b"7-1", [row]]], [[1, b"9-0", []]], [[0, b"", []]], [[0, b"", []]]]
    value, batches = run_flow_recording(consumers.find_ghosts(NATIVE, MAIL, ["g", "h"], 9), pages)
    assert value == consumers.GhostEntries([("g", row)], scanned=3, complete=True)
    assert [batch[0].args[-2] for batch in batches] == ["-", "(7-1", "(9-0", "-"]
    value, batches = run_flow_recording(consumers.find_ghosts(NATIVE, MAIL, ["g", "h"], 2), pages[:1])
    assert (value.scanned, value.complete, batches[0][0].args[-1]) == (2, False, 2)


def test_ghosts_are_dropped_by_their_ids_and_in_no_more_round_trips_than_groups() -> None:
    one, other = consumers.PendingEntry(b"7-1", b"c", 5, 1), consumers.PendingEntry(b"8-1", b"c", 5, 1)
    value, batches = run_flow_recording(
        consumers.remove_ghosts(NATIVE, MAIL, [("g", one), ("h", one), ("g", other)]),
        [[[b"8-1"]], [[b"7-1"]]],
    )
    assert value == [False, True, True]
    assert [list(batch[0].args[-2:]) for batch in batches] == [[b"7-1", b"8-1"], ["h", b"7-1"]]


def test_an_empty_schedule_needs_one_round_trip_and_a_page_of_specs_two() -> None:
    assert run_flow(NATIVE.specs_page(MAIL, 0, 10), [[[]]]) == ([], 1)
    specs, rounds = run_flow(NATIVE.specs_page(MAIL, 0, 10), [[[b"a", b"5", b"b", b"6"]], [[b"s", b"1"], [None, None]]])
    assert [(spec.key, spec.next_ms, spec.data, spec.fired) for spec in specs] == [
        (b"a", 5, b"s", b"1"),
        (b"b", 6, None, None),
    ]
    assert rounds == 2


def test_every_key_a_call_names_is_among_its_keys() -> None:
    call = NATIVE.fire_repeat(MAIL, "tick", [PlannedFire(1, b"d", "n")], due_ms=1, next_ms=None)
    assert call.keys == (MAIL.stream, MAIL.delayed, MAIL.repeat, MAIL.repeat_spec("tick"))
    assert NATIVE.stored_results(MAIL, ["1", "2"]).keys == (MAIL.result("1"), MAIL.result("2"))


def test_replies_read_the_same_in_either_protocol() -> None:
    assert members_with_scores([b"m", b"1794797012371", b"n", b"-inf"]) == [
        (b"m", 1794797012371),
        (b"n", -(2**53)),
    ]
    assert members_with_scores([[b"m", 1794797012371.0]]) == [(b"m", 1794797012371)]
    row = [b"name", b"g", b"consumers", 1, b"pending", 2, b"last-delivered-id", b"3-0", b"lag", None]
    in_resp3 = dict(zip(row[::2], row[1::2], strict=True))
    assert (
        GroupInfo.list_from_reply([row])
        == GroupInfo.list_from_reply([in_resp3])
        == [GroupInfo(b"g", 1, 2, b"3-0", None)]
    )


def test_obscure_replies_become_values() -> None:
    assert FireResult.from_reply(None) == FireResult(0, removed=False, stale=True)
    assert FireResult.from_reply([3, 1]) == FireResult(3, removed=True)
    assert LockState.from_reply([0, b"ada", -1]) == LockState(mine=False, holder=b"ada", ttl_ms=None)
    assert RawEntry.list_from_reply([[b"1-0", [b"d", b"x"]]]) == [RawEntry(b"1-0", [b"d", b"x"])]
    assert parse_server_time([b"1794797012", b"371999"]) == 1794797012371
