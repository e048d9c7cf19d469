"""The commands that make groups and read entries, on every kind of server, with and without its native commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui.errors import NoGroup, WrongType
from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from tests.live.conftest import Everywhere
from tests.support.queue_harness import read_ready


def test_a_group_is_made_from_the_first_entry_and_only_once(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.add(b"waiting since before")
        made = [b.run(b.commands.ensure_group(b.keys, GROUP)) for _ in range(2)]
        return [made, read_ready(b, "ada")]

    assert on_every_server(story).result == [[True, False], [["waiting since before", False, 0]]]


def test_a_group_cannot_be_made_on_something_else(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.command("SET", b.keys.stream, "no stream")
        with pytest.raises(WrongType):
            b.run(b.commands.ensure_group(b.keys, GROUP))
        return "refused"

    assert on_every_server(story).left == {"stream": "no stream"}


def test_reading_gives_abandoned_entries_with_their_history_and_then_new_ones(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        abandoned, _ = b.deliver(b"abandoned", b"kept")
        b.make_idle(abandoned, 70_000)
        b.add(b"new")
        first = read_ready(b, "bob")
        b.make_idle(abandoned, 80_000)
        return [first, read_ready(b, "cyd"), read_ready(b, "cyd")]

    outcome = on_every_server(story)
    assert outcome.result == [
        [["abandoned", True, 1], ["new", False, 0]],
        [["abandoned", True, 1]],
        [],
    ]
    assert outcome.left["stream"]["groups"] == {
        GROUP: {
            "consumers": ["ada", "bob", "cyd"],
            "pending": [[1, "cyd", 1], [2, "ada", 1], [3, "bob", 1]],
        }
    }


def test_reading_never_gives_more_than_asked_for(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for entry_id in b.deliver(b"1", b"2", b"3"):
            b.make_idle(entry_id, 70_000)
        b.add(b"4", b"5")
        return [[row[0] for row in read_ready(b, "bob", count=2)] for _ in range(4)]

    assert on_every_server(story).result == [["1", "2"], ["3", "4"], ["5"], []]


def test_reading_passes_over_deleted_entries_however_many_and_leaves_their_rows(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        ids = b.deliver(*(b"%d" % number for number in range(150)))
        b.command("XCLAIM", b.keys.stream, GROUP, "ada", 0, *ids, "IDLE", 70_000, "JUSTID")
        b.command("XDEL", b.keys.stream, *ids[:149])
        return [
            read_ready(b, "bob", count=5),
            len(b.run_calls(b.commands.drop_dangling_pending(b.keys, GROUP, ids))),
        ]

    outcome = on_every_server(story)
    assert outcome.result == [[["149", True, 1]], 149]
    assert outcome.left["stream"]["groups"][GROUP]["pending"] == [[1, "bob", 1]]


def test_what_was_handed_back_unstarted_counts_from_its_next_reading_on(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        [unstarted] = b.deliver(b"unstarted")
        b.run_calls(b.commands.release(b.keys, GROUP, "ada", {unstarted: 0}))
        first = read_ready(b, "bob")
        b.make_idle(unstarted, 70_000)
        return [first, read_ready(b, "cyd"), b.pending(unstarted)[3]]

    assert on_every_server(story).result == [[["unstarted", True, 0]], [["unstarted", True, 1]], 1]


def test_a_dry_reading_makes_the_consumer_known(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run(b.commands.ensure_group(b.keys, GROUP))
        return read_ready(b, "ada")

    outcome = on_every_server(story)
    assert outcome.result == []
    assert outcome.left["stream"]["groups"] == {GROUP: {"consumers": ["ada"], "pending": []}}


def test_reading_without_a_group_is_an_error(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.add(b"x")
        with pytest.raises(NoGroup):
            read_ready(b, "ada")
        return "refused"

    on_every_server(story)
