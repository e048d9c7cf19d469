"""`chasqui dlq replay` on real servers: exactly what was shown, at a pace, after a canary."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chasqui.clock import SystemClock
from chasqui.errors import UnrecoverableError
from chasqui.wire import envelope
from chasqui.wire.envelope import Envelope, Payload
from chasqui.worker import Worker
from chasqui_cli.commands.dlq.replaying import REPLAYED
from tests.cli.seed_dead import GARBAGE, RETRY, Yard, letter, seed
from tests.cli.shell import assert_complains
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside
from tests.cli.yard import yard as yard
from tests.servers import Server

CLOCK = SystemClock()
PEEK_KEYS = (
    "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"
)


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_a_dry_run_tells_the_same_ids_that_are_then_replayed_while_others_die(
    inside: Inside, yard: Yard
) -> None:
    ids = seed(yard)
    before = yard.dead()
    dry = inside("dlq", "replay", yard.queue, "--dry-run", "-o", "name")
    assert dry.code == 0
    assert yard.dead() == before
    assert yard.jobs() == []
    assert inside.operations() == []
    assert "dry run" in dry.err
    yard.bury("later")
    done = inside("dlq", "replay", yard.queue, "--yes", "--limit", "5", "-o", "json")
    assert done.code == 0
    assert all(list(one) == list(REPLAYED) for one in done.json)
    assert [one["dlq_id"] for one in done.json] == dry.out.split()
    assert yard.job_ids() == ["told", "untold", "secret", "inner", "late"]
    [garbage, _] = yard.dead_ids()
    assert garbage == ids["garbage"]


def test_a_replayed_job_starts_anew_and_is_otherwise_what_it_was(inside: Inside, yard: Yard) -> None:
    odd = Payload("inline", b"\x82\xa1a\xcf\x00\x00\x00\x00\x00\x00\x00\x05\x01\xc4\x01\xff")
    yard.bury("odd", d=envelope.encode(Envelope("odd", odd, 77, 9, RETRY), exact_payload=True))
    assert inside("dlq", "replay", yard.queue, "odd", "--yes").code == 0
    [job] = yard.jobs()
    assert (job.id, job.payload, job.created_at_ms, job.attempt, job.retry) == ("odd", odd, 77, 0, RETRY)


def test_undecodable_letters_are_reported_stay_and_use_up_no_limit(inside: Inside, yard: Yard) -> None:
    garbage = [yard.bury("", d=GARBAGE) for _ in range(5)]
    yard.bury("good")
    ended = inside("dlq", "replay", yard.queue, "--limit", "1", "--yes", "-o", "name")
    assert ended.code == 0
    assert yard.job_ids() == ["good"]
    assert yard.dead_ids() == garbage
    assert f"passed over 5 undecodable dead letters, which stay: {garbage[0]}" in ended.err


def test_ids_may_be_those_of_letters_or_of_jobs(inside: Inside, yard: Yard) -> None:
    ids = seed(yard)
    ended = inside(
        "dlq", "replay", yard.queue, ids["told"], "late", "nobody", ids["garbage"], "--yes", "-o", "json"
    )
    assert {one["dlq_id"]: one["outcome"] for one in ended.json} == {
        ids["told"]: "replayed",
        ids["late"]: "replayed",
        ids["garbage"]: "undecodable",
        "nobody": "not found",
    }
    assert ended.code == 3
    assert sorted(yard.job_ids()) == ["late", "told"]


@one_server
def test_an_id_that_is_not_there_is_not_found(inside: Inside, yard: Yard) -> None:
    seed(yard)
    assert_complains(inside("dlq", "replay", yard.queue, "nobody", "1-1", "--yes"), 4, "nobody")
    ended = inside("dlq", "replay", yard.queue, "told", "--reason", "x", "--yes")
    assert_complains(ended, 2, "ids or filters")


def test_a_replay_beyond_the_cap_is_refused_with_the_numbers(inside: Inside, yard: Yard) -> None:
    seed(yard)
    for number in range(7):
        yard.say("XADD", yard.keys.stream, "*", "d", str(number))
    before = yard.dead()
    for more in (("--yes",), ("--dry-run",)):
        ended = inside("dlq", "replay", yard.queue, "--cap", "11", *more)
        assert ended.code == 5
        assert "the stream holds 7 jobs; 5 more would exceed its cap of 11" in ended.err
        assert "--cap N" in ended.err
    assert yard.dead() == before
    assert inside("dlq", "replay", yard.queue, "--cap", "12", "--yes").code == 0


@one_server
def test_without_consent_nothing_happens(inside: Inside, yard: Yard) -> None:
    seed(yard)
    before = yard.dead()
    for words in (("replay",), ("purge",)):
        ended = inside("dlq", *words, yard.queue)
        assert (ended.code, ended.out) == (5, "")
        assert "add --yes" in ended.err
    assert inside("dlq", "replay", yard.queue, "--name", "nothing", "--yes").code == 0
    assert yard.dead() == before
    assert inside.operations() == []


@one_server
def test_a_rate_is_held(inside: Inside, yard: Yard) -> None:
    yard.bury_many(letter(f"job-{number}") for number in range(300))
    ended = inside("dlq", "replay", yard.queue, "--limit", "300", "--rps", "200", "--yes", "-q", "-o", "name")
    assert len(ended.out.split()) == 300
    rows = yard.say("XRANGE", yard.keys.stream, "-", "+")
    times = [int(row[0].split(b"-")[0]) for row in rows]
    took_s = (times[-1] - times[0]) / 1000
    # Never faster; how much slower is this machine's business, and `make scale` measures it.
    assert took_s >= 1.5 * 0.95


@contextmanager
def working(url: str, queue: str, handler: Callable[[Any], Any]) -> Iterator[None]:
    """A worker in a thread, for as long as the block lasts."""
    loop = asyncio.new_event_loop()
    worker = Worker(queue, handler, redis_url=url, concurrency=4, read_block_ms=100, max_attempts=3)
    thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run()))
    thread.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(worker.close(), loop)
        thread.join(20)
        loop.close()


def test_a_canary_that_completes_lets_the_others_follow(inside: Inside, yard: Yard) -> None:
    yard.bury_many(letter(f"job-{number}") for number in range(20))
    with working(inside.url, yard.queue, lambda job: None):
        ended = inside("dlq", "replay", yard.queue, "--canary", "3", "--yes", "-o", "json")
    assert ended.code == 0, ended.err
    assert [one["outcome"] for one in ended.json] == ["completed"] * 3 + ["replayed"] * 17
    assert yard.dead_ids() == []


def test_a_canary_that_fails_holds_the_others_back_and_tells_why(inside: Inside, yard: Yard) -> None:
    ids = yard.bury_many(letter(f"job-{number}") for number in range(20))

    def fail(job: Any) -> None:
        if job.id == "job-1":
            raise UnrecoverableError("still no such host")

    with working(inside.url, yard.queue, fail):
        ended = inside("dlq", "replay", yard.queue, "--canary", "3", "--yes", "-o", "json")
    assert ended.code == 3
    assert "error: canary job job-1: still no such host" in ended.err
    outcomes = [one["outcome"] for one in ended.json]
    assert outcomes[1] == "failed"
    assert outcomes[3:] == ["held back"] * 17
    assert yard.dead_ids()[:17] == ids[3:]
    [op] = inside.operations()
    assert inside("log", op, "-o", "json").json["kept"] == 3


@one_server
def test_a_canary_of_which_nothing_is_heard_ends_in_time(inside: Inside, yard: Yard) -> None:
    yard.bury_many(letter(f"job-{number}") for number in range(3))
    words = ("--canary", "1", "--canary-timeout", "300ms", "--yes", "-o", "json")
    ended = inside("dlq", "replay", yard.queue, *words)
    assert ended.code == 3
    assert [one["outcome"] for one in ended.json] == ["no word", "held back", "held back"]
    assert "nothing was heard of it in time" in ended.err


@one_server
def test_a_reply_that_is_lost_is_told_and_the_rest_is_replayed_by_running_it_again(
    inside: Inside, yard: Yard, server: Server
) -> None:
    from tests.proxy import proxied

    yard.bury_many(letter(f"job-{number}", {"n": number}) for number in range(1200))
    before = sorted(fields for _, fields in yard.dead())
    words = ("dlq", "replay", yard.queue, "--limit", "5000", "--yes", "-o", "name")
    inside("dlq", "replay", yard.queue, "job-0", "--yes")  # so that the server knows the script
    with proxied(server.socket) as proxy:

        def lose_the_second_batch() -> bool:
            return 501 < int(yard.say("XLEN", yard.keys.stream)) < 1200

        proxy.mischief = lose_the_second_batch
        ended = inside(*words, "-u", proxy.url)
    assert ended.code == 1
    assert "chasqui undo" in ended.err, "what was done so far can be taken back"
    assert inside(*words).code == 0
    assert sorted(yard.job_ids()) == sorted(f"job-{number}" for number in range(1200))
    assert yard.dead() == []
    for op in inside.operations():
        assert inside("undo", op, "--yes", "--here", "-q").code == 0
    assert sorted(fields for _, fields in yard.dead()) == before
    assert yard.jobs() == []
