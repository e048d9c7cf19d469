"""The commands that move jobs to the dead letters, replay and delete them, on every kind of server (native and not)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui.errors import ArgumentError
from chasqui.server.commands import (
    MAX_FIELDS,
    ReplayItem,
)
from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from chasqui.server.flow import Arg
    from tests.live.conftest import Everywhere


def test_a_job_moves_to_the_dead_letters_once_and_only_by_its_owner(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        fields: list[Arg] = [
            "d",
            b"x",
            "n",
            "mail",
            "source_id",
            entry_id,
            "reason",
            "unrecoverable",
            "detail",
            "no",
        ]
        move = b.commands.move_to_dlq
        return [
            b.run_calls(move(b.keys, GROUP, "bob", entry_id, fields, cap=100)),
            b.run_calls(move(b.keys, GROUP, "ada", entry_id, fields, cap=100)),
            b.run_calls(move(b.keys, GROUP, "ada", entry_id, fields)),
        ]

    outcome = on_every_server(story)
    assert outcome.result == [None, "id", None]
    letter = ["d", "x", "n", "mail", "source_id", "id", "reason", "unrecoverable", "detail", "no"]
    assert outcome.left == {
        "dlq": {"entries": [letter]},
        "stream": {"entries": [], "groups": {GROUP: {"consumers": ["ada"], "pending": []}}},
    }


def test_the_largest_dead_letter_fits_and_a_larger_one_is_refused_before_it_is_sent(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        [entry_id] = b.deliver(b"x")
        fields: list[Arg] = ["f", b"v"] * MAX_FIELDS
        with pytest.raises(ArgumentError, match="at most 1000 fields, not 1001"):
            b.commands.move_to_dlq(b.keys, GROUP, "ada", entry_id, [*fields, "f", b"v"])
        return b.run_calls(b.commands.move_to_dlq(b.keys, GROUP, "ada", entry_id, fields)) is not None

    assert on_every_server(story).result is True


def test_replaying_reports_each_dead_letter_and_stops_at_the_cap_without_trimming(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        b.add(b"unread")
        dead = [b.command("XADD", b.keys.dlq, "*", "d", data) for data in (b"1", b"2", b"3")]
        letters = [
            ReplayItem(dead[0], b"one", "mail"),
            ReplayItem(b"1-1", b"gone"),
            ReplayItem(dead[1], b"two"),
            ReplayItem(dead[2], b"3"),
        ]
        first = b.run_calls(b.commands.replay_dead(b.keys, letters, cap=3))
        return [first, b.run_calls(b.commands.replay_dead(b.keys, letters))]

    outcome = on_every_server(story)
    assert outcome.result == [["id", "gone", "id", "full"], ["gone", "gone", "gone", "id"]]
    assert outcome.left == {
        "dlq": {"entries": []},
        "stream": {
            "entries": [["d", "unread"], ["d", "one", "n", "mail"], ["d", "two"], ["d", "3"]],
        },
    }


def test_deleted_letters_are_gone(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        dead = [b.command("XADD", b.keys.dlq, "*", "d", data) for data in (b"1", b"2")]
        return b.run_calls(b.commands.delete_dead(b.keys, [dead[0], b"1-1"]))

    outcome = on_every_server(story)
    assert outcome.result == 1
    assert outcome.left == {"dlq": {"entries": [["d", "2"]]}}
