"""Results without a server."""

from __future__ import annotations

import pytest

from chasqui.errors import WireError
from chasqui.inspect import results
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.wire.keys import Keys
from tests.support.flow_player import run_flow, run_flow_recording

KEYS = Keys("mail")
COMMANDS = Commands(Features(True, True, True, "redis", "8.6.3"))


def test_any_number_of_results_is_one_round_trip() -> None:
    ids = [f"id-{number}" for number in range(700)]
    replies = [[b"\x05"] * 500, [None] * 199 + [b"\xa2hi"]]
    found, [batch] = run_flow_recording(results.read_results(COMMANDS, KEYS, ids), [replies])
    assert found == [5] * 500 + [None] * 199 + ["hi"]
    assert [len(call.keys) for call in batch] == [500, 200]


def test_no_results_are_asked_for_no_jobs() -> None:
    assert run_flow(results.read_results(COMMANDS, KEYS, []), []) == ([], 0)


def test_a_large_result_is_read_and_a_broken_one_keeps_its_bytes() -> None:
    large = b"\xc6" + (2_000_000).to_bytes(4, "big") + b"x" * 2_000_000
    assert run_flow(results.read_results(COMMANDS, KEYS, ["a"]), [[[large]]])[0] == [b"x" * 2_000_000]
    with pytest.raises(WireError) as broken:
        run_flow(results.read_results(COMMANDS, KEYS, ["a"]), [[[b"\xc1"]]])
    assert broken.value.data == b"\xc1"
