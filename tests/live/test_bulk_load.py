"""Bulk loads on real servers: each job once, however often it is sent; never above the bound, never too fast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chasqui.errors import ArgumentError, AuthRefused
from chasqui.produce import bulk_load
from chasqui.produce.bulk_load import BulkLoad, LoadChunk
from chasqui.server.commands import Commands
from chasqui.server.link import Link
from chasqui.sync_queue import SyncQueue
from chasqui.wire import msgpack_codec
from tests.live.conftest import Everywhere
from tests.support.queue_harness import QueueHarness
from tests.support.servers.server import Server, start_server


def run_of(*job_ids: str, due: int | None = None, name: bytes = b"mail", chunk: str = "0:0") -> LoadChunk:
    made = bulk_load.make_envelopes(job_ids, [msgpack_codec.pack({"to": job}) for job in job_ids], 1_794_741_208_048)
    return LoadChunk(job_ids, [due] * len(job_ids), made, [name] * len(job_ids), chunk)


def send(b: QueueHarness, load: BulkLoad, *runs: LoadChunk) -> list[int]:
    return [results.added for results in b.run(bulk_load.send_chunks(b.commands, b.keys, load, runs))]


@pytest.mark.parametrize("idempotence", ["rows", "chunks"])
def test_sending_again_adds_nothing(on_every_server: Everywhere, idempotence: Any) -> None:
    load = BulkLoad("run", 0, idempotence)

    def story(b: QueueHarness) -> list[Any]:
        first = send(b, load, run_of("a", "b"), run_of("c", chunk="0:1"))
        again = send(b, load, run_of("a", "b"), run_of("c", chunk="0:1"))
        other = send(b, replace(load, run_id="another"), run_of("a", "b"))
        return [first, again, other, b.command("XLEN", b.keys.stream)]

    assert on_every_server(story).result == [[2, 1], [0, 0], [2], 5]


def test_a_row_that_comes_twice_in_one_run_is_one_job(on_every_server: Everywhere) -> None:
    assert on_every_server(lambda b: send(b, BulkLoad("run", 0), run_of("a", "a", "b"))).result == [2]


def test_a_chunk_with_other_rows_is_refused_instead_of_lost_or_doubled(harnesses: list[QueueHarness]) -> None:
    load = BulkLoad("run", 0, "chunks")
    send(harnesses[0], load, run_of("a", "b"))
    with pytest.raises(ArgumentError, match="chunk 0:0 holds other rows"):
        send(harnesses[0], load, run_of("b", "a"))


def test_what_is_not_due_yet_is_delayed_and_stays_one_after_it_left(on_every_server: Everywhere) -> None:
    def story(b: QueueHarness) -> list[Any]:
        later = run_of("a", due=b.now_ms() + 60_000)
        send(b, BulkLoad("run", 0), later, run_of("b", due=b.now_ms() - 1))
        b.command("DEL", b.keys.delayed)  # as if it had been promoted and run
        send(b, BulkLoad("run", 0), later)
        return [b.command("XLEN", b.keys.stream), b.command("ZCARD", b.keys.delayed)]

    assert on_every_server(story).result == [1, 0]


def test_a_full_queue_is_reported_and_nothing_of_the_chunk_is_written(on_every_server: Everywhere) -> None:
    load = BulkLoad("run", 0, max_stream_len=3)

    def story(b: QueueHarness) -> list[Any]:
        results = b.run(bulk_load.send_chunks(b.commands, b.keys, load, [run_of("a", "b"), run_of("c", "d")]))
        b.command("XTRIM", b.keys.stream, "MAXLEN", 0)
        return [[one.done for one in results], send(b, load, run_of("a", "b"), run_of("c", "d"))]

    assert on_every_server(story).result == [[True, False], [0, 2]]


def test_a_rate_holds_for_all_tasks_together(harnesses: list[QueueHarness]) -> None:
    load = BulkLoad("run", 0, rate=10)
    for b in harnesses:
        results = b.run(bulk_load.send_chunks(b.commands, b.keys, load, [run_of("a", "b"), run_of("c", "d")]))
        assert [one.done for one in results] == [True, False]
        assert 0 < results[1].wait_ms <= 200


def test_a_load_remembers_when_it_was_begun(harnesses: list[QueueHarness]) -> None:
    for b in harnesses:
        first = b.run(bulk_load.start_load(b.commands, b.keys, "run", "rows", ttl_s=60))
        again = b.run(bulk_load.start_load(b.commands, b.keys, "run", "rows", ttl_s=60))
        assert first.since_ms == first.now_ms == again.since_ms <= again.now_ms


@pytest.mark.parametrize("idempotence", ["rows", "chunks"])
def test_what_is_known_of_a_load_lives_as_long_as_it_is_tried_also_while_it_waits(
    harnesses: list[QueueHarness], idempotence: Any
) -> None:
    load = BulkLoad("run", 0, idempotence, ttl_s=1000, max_stream_len=2)
    for b in harnesses:
        notes = (b.keys.load_start("run"), b.keys.load_ledger(idempotence, "run"))
        b.run(bulk_load.start_load(b.commands, b.keys, "run", idempotence, ttl_s=10))
        for run, added in ((run_of("a", "b"), 2), (run_of("a", "b"), 0), (run_of("c", "d", chunk="0:1"), 0)):
            assert send(b, load, run) == [added]
            assert all(b.command("TTL", note) > 10 for note in notes)
            for note in notes:
                b.command("EXPIRE", note, 10)


def test_without_the_right_to_delay_a_job_none_of_its_run_is_written(server: Server, queue: str) -> None:
    with start_server(server.kind, tcp=True) as guarded, Link.open(guarded.url) as link:
        b = QueueHarness("boss", link, Commands(link.features()), queue)
        b.command("ACL", "SETUSER", "loader", "on", ">pw", "~*", "+@all", "-zadd")
        mixed = replace(run_of("a", "b"), dues=[None, b.now_ms() + 60_000])
        with Link.open(guarded.url.replace("//", "//loader:pw@")) as loader, pytest.raises(AuthRefused):
            loader.run(bulk_load.send_chunks(b.commands, b.keys, BulkLoad("run", 0), [mixed]))
        assert b.command("XLEN", b.keys.stream) == 0
        assert send(b, BulkLoad("run", 0), mixed) == [2]


def test_native_ids_wait_for_room_run_by_run(harnesses: list[QueueHarness]) -> None:
    native = [b for b in harnesses if b.commands.features.idmp]
    assert native or not harnesses
    for b in native:
        load = BulkLoad("run", 0, "idmp", max_stream_len=3)
        results = b.run(
            bulk_load.send_chunks(b.commands, b.keys, load, [run_of("a", "b"), run_of("c", "d"), run_of("e")])
        )
        assert [(one.added, one.done) for one in results] == [(2, True), (0, False), (1, True)]
        assert [one.done for one in b.run(bulk_load.send_chunks(b.commands, b.keys, load, [run_of("f")]))] == [False]
        assert b.command("XLEN", b.keys.stream) == 3


def test_jobs_are_byte_for_byte_those_of_a_producer(harnesses: list[QueueHarness]) -> None:
    """The producer's own envelopes and members, made again by a load from the same ids, data and times."""
    b = harnesses[0]
    with SyncQueue(b.queue, link=b.link) as queue:
        jobs = [queue.add("mail", {"to": "ada", "n": n}) for n in range(3)]
        late = queue.add("", {"to": "bob"}, delay_ms=60_000)
    produced = [fields for _, fields in b.command("XRANGE", b.keys.stream, "-", "+")]
    [member] = b.command("ZRANGE", b.keys.delayed, 0, -1)
    made = bulk_load.make_envelopes(
        [job.id for job in jobs],
        [msgpack_codec.pack({"to": "ada", "n": n}) for n in range(3)],
        [job.created_at_ms for job in jobs],
    )
    loaded = LoadChunk([job.id for job in jobs], [None] * 3, made, [b"mail"] * 3)
    [late_d] = bulk_load.make_envelopes([late.id], [msgpack_codec.pack({"to": "bob"})], late.created_at_ms)
    b.command("DEL", b.keys.stream, b.keys.delayed)
    send(b, BulkLoad("run", 0), loaded, LoadChunk([late.id], [b.now_ms() + 60_000], [late_d], [b""]))
    assert [fields for _, fields in b.command("XRANGE", b.keys.stream, "-", "+")] == produced
    assert b.command("ZRANGE", b.keys.delayed, 0, -1) == [member]
