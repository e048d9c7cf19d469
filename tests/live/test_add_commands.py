"""The commands that add jobs, on every kind of server, with and without its native commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.queue_harness import QueueHarness

if TYPE_CHECKING:
    from tests.live.conftest import Everywhere
from tests.support.queue_harness import delayed_member


def test_adding_an_id_again_answers_the_first_entry(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        add = b.commands.add_entry
        first = b.run_calls(add(b.keys, "p-1", "job-1", ["d", b"one", "n", "mail"], cap=1000))
        assert b.run_calls(add(b.keys, "p-1", "job-1", ["d", b"other bytes"], cap=1000)) == first
        another_producer = b.run_calls(add(b.keys, "p-2", "job-1", ["d", b"two"]))
        another_job = b.run_calls(add(b.keys, "p-1", "job-2", ["d", b"three"]))
        assert first < another_producer < another_job
        return [first, another_producer, another_job]

    outcome = on_every_server(story)
    assert outcome.result == ["id", "id", "id"]
    assert outcome.left == {
        "stream": {"entries": [["d", "one", "n", "mail"], ["d", "two"], ["d", "three"]]},
    }


def test_an_id_stays_known_after_its_job_is_done_but_not_after_its_stream_is_gone(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        add = b.commands.add_entry(b.keys, "p", "job", ["d", b"x"])
        first = b.run_calls(add)
        b.command("XDEL", b.keys.stream, first)
        again = b.run_calls(add)
        b.command("DEL", b.keys.stream)
        return [first == again, b.run_calls(add) is not None]

    outcome = on_every_server(story)
    assert outcome.result == [True, True]
    assert outcome.left == {"stream": {"entries": [["d", "x"]]}}


def test_only_the_stand_in_marks_an_added_id_and_for_as_long_as_a_native_server_knows_it(
    harnesses: list[QueueHarness],
) -> None:
    for b in harnesses:
        b.run_calls(b.commands.add_entry(b.keys, "p", "job", ["d", b"x"]))
        if b.commands.features.idmp:
            assert b.marks() == []
            continue
        [mark] = b.marks()
        assert mark.decode() == b.keys.added_marker("p", "job")
        assert 95_000 < b.command("PTTL", mark) <= 100_000


def test_adding_anyway_asks_nothing(on_every_server: Everywhere) -> None:
    outcome = on_every_server(
        lambda b: [b.run_calls(b.commands.add_unchecked(b.keys, ["d", b"x"], cap=9)) for _ in range(2)]
    )
    assert outcome.result == ["id", "id"]
    assert outcome.left == {"stream": {"entries": [["d", "x"], ["d", "x"]]}}


def test_a_cap_lets_the_server_trim_and_no_cap_does_not(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        for number in range(300):
            b.run_calls(b.commands.add_entry(b.keys, "p", f"capped-{number}", ["d", b"x"], cap=100))
        capped = b.run_calls(b.commands.stream_length(b.keys.stream))
        b.command("DEL", b.keys.stream)
        for number in range(300):
            b.run_calls(b.commands.add_entry(b.keys, "p", f"free-{number}", ["d", b"x"]))
        free = b.run_calls(b.commands.stream_length(b.keys.stream))
        b.command("DEL", b.keys.stream)
        return [100 <= capped < 300, free]

    assert on_every_server(story).result == [True, 300]


def test_a_unique_add_distinguishes_created_from_duplicate_and_shares_its_ids_with_delayed_jobs(
    on_every_server: Everywhere,
) -> None:
    def story(b: QueueHarness) -> Any:
        now, unique = b.now_ms(), b.commands.add_unique
        return [
            b.run_calls(unique(b.keys, "job", ["d", b"x"], ttl_s=3600)),
            b.run_calls(unique(b.keys, "job", ["d", b"x"], ttl_s=3600)),
            b.run_calls(b.commands.schedule_once(b.keys, "job", delayed_member(b""), now + 9000, now_ms=now)),
        ]

    outcome = on_every_server(story)
    assert outcome.result == ["id", None, 0]
    assert outcome.left == {
        "dlid:job": {"value": "1", "expires_in_s": 3600},
        "stream": {"entries": [["d", "x"]]},
    }


def test_a_run_of_jobs_is_added_in_order_once_per_batch(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        add = b.commands.add_batch(b.keys, "p", "first", [b"one", b"mail", b"two", b"", b"three", b"mail"])
        first = b.run_calls(add)
        [(oldest, _), *_] = b.command("XRANGE", b.keys.stream, "-", "+")
        assert first == oldest == b.run_calls(add)
        [mark] = b.marks()
        assert mark.decode() == b.keys.added_marker("p", "first")
        assert 95_000 < b.command("PTTL", mark) <= 100_000
        return b.run_calls(b.commands.add_batch(b.keys, "p", "second", [b"four", b""]))

    outcome = on_every_server(story)
    assert outcome.result == "id"
    assert outcome.left == {
        "stream": {"entries": [["d", "one", "n", "mail"], ["d", "two"], ["d", "three", "n", "mail"], ["d", "four"]]}
    }


def test_a_run_whose_jobs_share_a_name_sends_it_once(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> Any:
        b.run_calls(b.commands.add_batch(b.keys, "p", "first", [b"one", b"two"], name=b"mail"))
        return b.run_calls(b.commands.add_batch(b.keys, "p", "second", [b"three", b"four"], name=b""))

    entries = [["d", "one", "n", "mail"], ["d", "two", "n", "mail"], ["d", "three"], ["d", "four"]]
    assert on_every_server(story).left == {"stream": {"entries": entries}}
