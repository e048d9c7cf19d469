"""Repeatable jobs without a server: stored by the server's time, listed whatever they hold."""

from __future__ import annotations

import pytest

from chasqui.errors import ArgumentError, ConfigError
from chasqui.schedule import repeatable
from chasqui.schedule.repeatable import ListedSpec, UpsertedSpec
from chasqui.server.commands import Commands
from chasqui.server.features import Features
from chasqui.wire import repeat_spec
from chasqui.wire.keys import Keys
from chasqui.wire.msgpack_codec import Undecodable
from chasqui.wire.payload import from_data
from chasqui.wire.repeat_spec import Cron, Every, FireAll, RepeatSpec
from tests.support.flow_player import run_flow, run_flow_recording

KEYS = Keys("mail")
COMMANDS = Commands(Features(True, True, True, "redis", "8.6.3"))
NOW = 1_794_796_970_454
CLOCK = [str(NOW // 1000).encode(), b"454000"]


def test_a_spec_is_stored_under_a_key_made_of_its_name_and_pattern_and_dated_by_the_server() -> None:
    spec = RepeatSpec("", "tick", Every(60_000), from_data({"a": 1}))
    stored, [_, [call]] = run_flow_recording(repeatable.upsert_spec(COMMANDS, KEYS, spec), [[CLOCK], [1]])
    assert stored == UpsertedSpec("tick::every:60000", NOW + 60_000, created=True)
    assert call.script == "upsert_repeat"
    assert call.args[4] == KEYS.repeat_spec("tick::every:60000")
    data = call.args[-1]
    assert isinstance(data, bytes)
    assert repeat_spec.decode(data).key == "tick::every:60000"


def test_a_spec_with_a_key_keeps_it_and_replacing_is_reported() -> None:
    spec = RepeatSpec("nightly", "tick", Cron("0 3 * * *", "Europe/Berlin"), from_data(None))
    stored, rounds = run_flow(repeatable.upsert_spec(COMMANDS, KEYS, spec), [[CLOCK], [0]])
    assert (stored.key, stored.created, rounds) == ("nightly", False, 2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (RepeatSpec("", "n", Every(0), from_data(1)), "pattern.interval_ms must be > 0"),
        (
            RepeatSpec("", "n", Every(1), from_data(1), missed_fires=FireAll(0)),
            "missed_fires.max_catchup must be a positive integer",
        ),
        (RepeatSpec("", "n", Cron("x"), from_data(1)), 'invalid cron expression "x"'),
        (RepeatSpec("", "n", Cron("* * * * *", "Mars/One"), from_data(1)), 'unsupported timezone "Mars/One"'),
    ],
)
def test_a_spec_no_scheduler_could_use_is_refused_before_anything_is_asked(spec: RepeatSpec, message: str) -> None:
    with pytest.raises((ArgumentError, ConfigError), match=message):
        next(repeatable.upsert_spec(COMMANDS, KEYS, spec))


def test_a_spec_that_would_never_fire_is_refused() -> None:
    spec = RepeatSpec("", "n", Every(1000), from_data(1), end_before_ms=NOW + 999)
    flow = repeatable.upsert_spec(COMMANDS, KEYS, spec)
    next(flow)
    with pytest.raises(ConfigError, match="end_before_ms is before the first fire"):
        flow.send([CLOCK])


def test_listing_shows_also_what_cannot_be_read() -> None:
    good = RepeatSpec("a", "tick", Every(5), from_data(1))
    rows = [b"a", b"100", b"b", b"200", b"\xff", b"300"]
    stored = [[repeat_spec.encode(good), b"7"], [b"\xc1", None], [None, None]]
    found, rounds = run_flow(repeatable.list_specs(COMMANDS, KEYS, 100), [[rows], stored])
    assert rounds == 2
    assert found == [
        ListedSpec("a", 100, 7, good),
        ListedSpec("b", 200, 0, Undecodable(b"\xc1", "not msgpack: byte 0xc1")),
        ListedSpec("\\xff", 300, 0, Undecodable(b"", "only its place in the schedule is left")),
    ]


def test_removing_returns_whether_there_was_one() -> None:
    assert run_flow(repeatable.remove_spec(COMMANDS, KEYS, "a"), [[1]]) == (True, 1)
    assert run_flow(repeatable.remove_spec(COMMANDS, KEYS, "a"), [[0]]) == (False, 1)
