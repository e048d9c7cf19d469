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
from chasqui_cli.commands.dlq.replay import REPLAY_SCHEMA
from tests.support.cli.in_process import InProcessCli
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.dead_letters import (
    GARBAGE,
    RETRY,
    DeadLetterSeeder,
    dead_letter_fields,
    seed_every_kind,
)
from tests.support.servers.server import Server

CLOCK = SystemClock()
PEEK_KEYS = "dlq_id source_id reason detail error name id attempt created_at_ms data retry payload_bytes undecodable"


def one_server(function: Callable[..., Any]) -> Any:
    """For what does not depend on the kind of server."""
    return pytest.mark.parametrize("server", ["valkey-9.1"], indirect=True)(function)


def test_a_dry_run_lists_the_same_ids_that_are_then_replayed_while_others_die(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    before = dead_letter_seeder.dead_letters()
    dry = cli("dlq", "replay", dead_letter_seeder.queue, "--dry-run", "-o", "name")
    assert dry.code == 0
    assert dead_letter_seeder.dead_letters() == before
    assert dead_letter_seeder.jobs() == []
    assert cli.operations() == []
    assert "dry run" in dry.err
    dead_letter_seeder.add_dead_letter("later")
    done = cli("dlq", "replay", dead_letter_seeder.queue, "--yes", "--limit", "5", "-o", "json")
    assert done.code == 0
    assert all(list(one) == list(REPLAY_SCHEMA) for one in done.json)
    assert [one["dlq_id"] for one in done.json] == dry.out.split()
    assert dead_letter_seeder.job_ids() == ["told", "untold", "secret", "inner", "late"]
    [garbage, _] = dead_letter_seeder.dead_ids()
    assert garbage == ids["garbage"]


def test_a_replayed_job_starts_again_and_is_otherwise_unchanged(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    odd = Payload("inline", b"\x82\xa1a\xcf\x00\x00\x00\x00\x00\x00\x00\x05\x01\xc4\x01\xff")
    dead_letter_seeder.add_dead_letter("odd", d=envelope.encode(Envelope("odd", odd, 77, 9, RETRY), exact_payload=True))
    assert cli("dlq", "replay", dead_letter_seeder.queue, "odd", "--yes").code == 0
    [job] = dead_letter_seeder.jobs()
    assert (job.id, job.payload, job.created_at_ms, job.attempt, job.retry) == ("odd", odd, 77, 0, RETRY)


def test_undecodable_letters_are_reported_stay_and_use_up_no_limit(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    garbage = [dead_letter_seeder.add_dead_letter("", d=GARBAGE) for _ in range(5)]
    dead_letter_seeder.add_dead_letter("good")
    ended = cli("dlq", "replay", dead_letter_seeder.queue, "--limit", "1", "--yes", "-o", "name")
    assert ended.code == 0
    assert dead_letter_seeder.job_ids() == ["good"]
    assert dead_letter_seeder.dead_ids() == garbage
    assert f"passed over 5 undecodable dead letters, which stay: {garbage[0]}" in ended.err


def test_ids_may_be_those_of_letters_or_of_jobs(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    ids = seed_every_kind(dead_letter_seeder)
    ended = cli(
        "dlq",
        "replay",
        dead_letter_seeder.queue,
        ids["told"],
        "late",
        "nobody",
        ids["garbage"],
        "--yes",
        "-o",
        "json",
    )
    assert {one["dlq_id"]: one["outcome"] for one in ended.json} == {
        ids["told"]: "replayed",
        ids["late"]: "replayed",
        ids["garbage"]: "undecodable",
        "nobody": "not found",
    }
    assert ended.code == 3
    assert sorted(dead_letter_seeder.job_ids()) == ["late", "told"]


@one_server
def test_an_id_that_is_not_there_is_not_found(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed_every_kind(dead_letter_seeder)
    assert_error(cli("dlq", "replay", dead_letter_seeder.queue, "nobody", "1-1", "--yes"), 4, "nobody")
    ended = cli("dlq", "replay", dead_letter_seeder.queue, "told", "--reason", "x", "--yes")
    assert_error(ended, 2, "ids or filters")


def test_a_replay_beyond_the_cap_is_refused_with_the_numbers(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed_every_kind(dead_letter_seeder)
    for number in range(7):
        dead_letter_seeder.command("XADD", dead_letter_seeder.keys.stream, "*", "d", str(number))
    before = dead_letter_seeder.dead_letters()
    for more in (("--yes",), ("--dry-run",)):
        ended = cli("dlq", "replay", dead_letter_seeder.queue, "--cap", "11", *more)
        assert ended.code == 5
        assert "the stream holds 7 jobs; 5 more would exceed its cap of 11" in ended.err
        assert "--cap N" in ended.err
    assert dead_letter_seeder.dead_letters() == before
    assert cli("dlq", "replay", dead_letter_seeder.queue, "--cap", "12", "--yes").code == 0


@one_server
def test_without_consent_nothing_happens(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed_every_kind(dead_letter_seeder)
    before = dead_letter_seeder.dead_letters()
    for words in (("replay",), ("purge",)):
        ended = cli("dlq", *words, dead_letter_seeder.queue)
        assert (ended.code, ended.out) == (5, "")
        assert "add --yes" in ended.err
    assert cli("dlq", "replay", dead_letter_seeder.queue, "--name", "nothing", "--yes").code == 0
    assert dead_letter_seeder.dead_letters() == before
    assert cli.operations() == []


@one_server
def test_a_rate_is_held(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}") for number in range(300))
    ended = cli(
        "dlq",
        "replay",
        dead_letter_seeder.queue,
        "--limit",
        "300",
        "--rps",
        "200",
        "--yes",
        "-q",
        "-o",
        "name",
    )
    assert len(ended.out.split()) == 300
    rows = dead_letter_seeder.command("XRANGE", dead_letter_seeder.keys.stream, "-", "+")
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


def test_a_canary_that_completes_lets_the_others_follow(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}") for number in range(20))
    with working(cli.url, dead_letter_seeder.queue, lambda job: None):
        ended = cli("dlq", "replay", dead_letter_seeder.queue, "--canary", "3", "--yes", "-o", "json")
    assert ended.code == 0, ended.err
    assert [one["outcome"] for one in ended.json] == ["completed"] * 3 + ["replayed"] * 17
    assert dead_letter_seeder.dead_ids() == []


def test_a_canary_that_fails_holds_the_others_back_and_prints_why(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    ids = dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}") for number in range(20))

    def fail(job: Any) -> None:
        if job.id == "job-1":
            raise UnrecoverableError("still no such host")

    with working(cli.url, dead_letter_seeder.queue, fail):
        ended = cli("dlq", "replay", dead_letter_seeder.queue, "--canary", "3", "--yes", "-o", "json")
    assert ended.code == 3
    assert "error: canary job job-1: still no such host" in ended.err
    outcomes = [one["outcome"] for one in ended.json]
    assert outcomes[1] == "failed"
    assert outcomes[3:] == ["held back"] * 17
    assert dead_letter_seeder.dead_ids()[:17] == ids[3:]
    [op] = cli.operations()
    assert cli("log", op, "-o", "json").json["kept"] == 3


@one_server
def test_a_canary_without_an_outcome_ends_in_time(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}") for number in range(3))
    words = ("--canary", "1", "--canary-timeout", "300ms", "--yes", "-o", "json")
    ended = cli("dlq", "replay", dead_letter_seeder.queue, *words)
    assert ended.code == 3
    assert [one["outcome"] for one in ended.json] == ["no word", "held back", "held back"]
    assert "nothing was heard of it in time" in ended.err


@one_server
def test_a_reply_that_is_lost_is_reported_and_the_rest_is_replayed_by_running_it_again(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, server: Server
) -> None:
    from tests.support.faults.proxy import proxy_to

    dead_letter_seeder.add_dead_letters(dead_letter_fields(f"job-{number}", {"n": number}) for number in range(1200))
    before = sorted(fields for _, fields in dead_letter_seeder.dead_letters())
    words = ("dlq", "replay", dead_letter_seeder.queue, "--limit", "5000", "--yes", "-o", "name")
    cli("dlq", "replay", dead_letter_seeder.queue, "job-0", "--yes")  # so that the server knows the script
    with proxy_to(server.socket) as proxy:

        def lose_the_second_batch() -> bool:
            return 501 < int(dead_letter_seeder.command("XLEN", dead_letter_seeder.keys.stream)) < 1200

        proxy.mischief = lose_the_second_batch
        ended = cli(*words, "-u", proxy.url)
    assert ended.code == 1
    assert "chasqui undo" in ended.err, "what was done so far can be taken back"
    assert cli(*words).code == 0
    assert sorted(dead_letter_seeder.job_ids()) == sorted(f"job-{number}" for number in range(1200))
    assert dead_letter_seeder.dead_letters() == []
    for op in cli.operations():
        assert cli("undo", op, "--yes", "--here", "-q").code == 0
    assert sorted(fields for _, fields in dead_letter_seeder.dead_letters()) == before
    assert dead_letter_seeder.jobs() == []
