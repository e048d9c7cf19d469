"""The commands that fire schedules and take locks, on every kind of server, with and without its native commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui.errors import ServerError
from chasqui.server.commands import (
    FireResult,
    LockState,
    PlannedFire,
    members_with_scores,
)
from tests.support.queue_harness import QueueHarness

if TYPE_CHECKING:
    from tests.live.conftest import Everywhere
from tests.support.queue_harness import ENVELOPE, ENVELOPE_TEXT, as_text, delayed_member


def test_replacing_a_spec_keeps_its_counter_and_removing_it_forgets_everything(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        upsert, remove = b.commands.upsert_repeat, b.commands.remove_repeat
        created = b.run_calls(upsert(b.keys, "tick", b"spec 1", next_ms=1000))
        b.command("HSET", b.keys.repeat_spec("tick"), "fired", 7)
        replaced = b.run_calls(upsert(b.keys, "tick", b"spec 2", next_ms=2000))
        held = b.dump()
        return [
            created,
            replaced,
            held,
            b.run_calls(remove(b.keys, "tick")),
            b.run_calls(remove(b.keys, "tick")),
        ]

    outcome = on_every_server(story)
    created, replaced, held, *removed = outcome.result
    assert (created, replaced, removed) == (1, 0, [1, 0])
    assert held == {"repeat": {"tick": 2000.0}, "repeat:spec:tick": {"spec": "spec 2", "fired": "7"}}
    assert outcome.left == {}


def test_of_two_schedulers_only_one_fires(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        fire = b.commands.fire_repeat(b.keys, "tick", [PlannedFire(1000, b"job", "mail")], due_ms=1000, next_ms=2000)
        both = [FireResult.from_reply(b.run_calls(fire)), FireResult.from_reply(b.run_calls(fire))]
        return [[fired.count, fired.removed, fired.stale] for fired in both]

    outcome = on_every_server(story)
    assert outcome.result == [[1, False, False], [0, False, True]]
    assert outcome.left == {
        "repeat": {"tick": 2000.0},
        "repeat:spec:tick": {"spec": "spec", "fired": "1"},
        "stream": {"entries": [["d", "job", "n", "mail"]]},
    }


def test_a_fire_for_later_waits_among_the_delayed_jobs(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        later = b.now_ms() + 200_000
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        fires = [PlannedFire(later, ENVELOPE, "mail"), PlannedFire(1000, ENVELOPE)]
        b.run_calls(b.commands.fire_repeat(b.keys, "tick", fires, due_ms=1000, next_ms=later))
        return None

    outcome = on_every_server(story)
    assert outcome.left["delayed"] == {as_text(delayed_member(b"mail")): "now+200s"}
    assert outcome.left["stream"] == {"entries": [["d", ENVELOPE_TEXT]]}
    assert outcome.left["repeat:spec:tick"]["fired"] == "2"


@pytest.mark.parametrize(
    ("limit", "end_before_ms", "next_ms", "expected"),
    [
        (2, None, 5000, [2, True, False]),
        (9, None, 5000, [3, False, False]),
        (None, 4999, 5000, [3, True, False]),
        (None, 5000, 5000, [3, False, False]),
        (None, None, None, [3, True, False]),
    ],
)
def test_a_spec_goes_at_its_limit_or_end_or_without_a_next_time(
    on_every_server: Everywhere,
    limit: int | None,
    end_before_ms: int | None,
    next_ms: int | None,
    expected: list[Any],
) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        fires = [PlannedFire(number, b"job") for number in (1000, 2000, 3000)]
        call = b.commands.fire_repeat(
            b.keys, "tick", fires, due_ms=1000, next_ms=next_ms, limit=limit, end_before_ms=end_before_ms
        )
        fired = FireResult.from_reply(b.run_calls(call))
        return [fired.count, fired.removed, fired.stale]

    outcome = on_every_server(story)
    assert outcome.result == expected
    assert ("repeat" in outcome.left, "repeat:spec:tick" in outcome.left) == (not expected[1], not expected[1])
    assert len(outcome.left["stream"]["entries"]) == expected[0]


def test_a_counter_that_is_no_number_stops_the_fire_before_it_is_written(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000))
        b.command("HSET", b.keys.repeat_spec("tick"), "fired", "many")
        with pytest.raises(ServerError, match="not a whole number"):
            b.run_calls(b.commands.fire_repeat(b.keys, "tick", [PlannedFire(1, b"job")], due_ms=1000, next_ms=2000))
        return "refused"

    assert set(on_every_server(story).left) == {"repeat", "repeat:spec:tick"}


def test_due_specs_are_read_from_any_place_on_and_the_next_one_is_separate(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        for number in range(1, 5):
            b.run_calls(b.commands.upsert_repeat(b.keys, f"s{number}", b"spec", next_ms=number * 1000))
        due = b.run(b.commands.due_specs(b.keys, 3000, 10, offset=1))
        following = members_with_scores(b.run_calls(b.commands.next_spec(b.keys, 3000)))
        return [
            [spec.key for spec in due],
            following,
            members_with_scores(b.run_calls(b.commands.next_spec(b.keys, 4000))),
        ]

    assert on_every_server(story).result == [["s2", "s3"], [["s4", 4000]], []]


def test_a_spec_under_a_key_of_another_type_spoils_no_other(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "good", b"spec", next_ms=2000))
        b.command("ZADD", b.keys.repeat, 1000, "odd")
        b.command("SET", b.keys.repeat_spec("odd"), "a string")
        odd, good = b.run(b.commands.specs_page(b.keys, 0, 10))
        assert "WRONGTYPE" in (odd.read_error or "")
        return [[odd.key, odd.next_ms, odd.data, odd.fired], [good.key, good.data, good.read_error]]

    assert on_every_server(story).result == [["odd", 1000, None, None], ["good", "spec", None]]


def test_specs_are_listed_by_next_fire_with_what_is_missing_or_odd(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.upsert_repeat(b.keys, "second", b"spec 2", next_ms=2000))
        b.run_calls(b.commands.upsert_repeat(b.keys, "first", b"spec 1", next_ms=1000))
        b.command("HSET", b.keys.repeat_spec("first"), "fired", 3)
        b.command("ZADD", b.keys.repeat, 3000.5, b"\xff no text", "inf", "never")
        every = b.run(b.commands.specs_page(b.keys, 0, 10))
        assert every[-1].next_ms > 10**15
        due = b.run(b.commands.due_specs(b.keys, 2000, 10))
        one = b.run(b.commands.specs_page(b.keys, 1, 1))
        listed = [[spec.key, spec.next_ms, spec.data, spec.fired] for spec in every[:-1]]
        return [
            listed,
            [spec.key for spec in due],
            [spec.key for spec in one],
            b.command("ZCARD", b.keys.repeat),
        ]

    assert on_every_server(story).result == [
        [
            ["first", 1000, "spec 1", "3"],
            ["second", 2000, "spec 2", None],
            ["\\xff no text", 3000, None, None],
        ],
        ["first", "second"],
        ["second"],
        4,
    ]


def test_a_lock_is_taken_when_free_renewed_when_ours_and_reported_when_anothers(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        lock, take = b.keys.promoter_lock, b.commands.acquire_lock
        locks = [LockState.from_reply(b.run_calls(take(lock, holder, ttl_s=5))) for holder in ("ada", "ada", "bob")]
        assert all(taken.ttl_ms is not None and 3000 < taken.ttl_ms <= 5000 for taken in locks)
        dropped = [b.run_calls(b.commands.release_lock(lock, holder)) for holder in ("bob", "ada", "ada")]
        return [[[taken.mine, taken.holder] for taken in locks], dropped]

    outcome = on_every_server(story)
    assert outcome.result == [[[True, "ada"], [True, "ada"], [False, "ada"]], [0, 1, 0]]
    assert outcome.left == {}


def test_a_stuck_lock_is_recognised_and_freed_by_its_holders_name(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        lock = b.keys.scheduler_lock
        b.command("SET", lock, "stranger")
        taken = LockState.from_reply(b.run_calls(b.commands.acquire_lock(lock, "ada", ttl_s=5)))
        seen = [b.run_calls(b.commands.lock_holder(lock)), b.run_calls(b.commands.expires_in(lock))]
        freed = b.run_calls(b.commands.release_lock(lock, taken.holder))
        return [
            taken.mine,
            taken.ttl_ms,
            seen,
            freed,
            LockState.from_reply(b.run_calls(b.commands.acquire_lock(lock, "ada", ttl_s=5))).mine,
        ]

    outcome = on_every_server(story)
    assert outcome.result == [False, None, ["stranger", -1], 1, True]
    assert outcome.left == {"scheduler:lock": {"value": "ada", "expires_in_s": 5}}
