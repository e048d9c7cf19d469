"""The promoter on every kind of server: what is due gets moved, whatever else goes wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chasqui.defaults import PromoterOptions as PromoterOptions
from chasqui.schedule.promoter import Promoter
from chasqui.wire import delayed_member, envelope, event_entry
from chasqui.wire.job_id import new_job_id
from chasqui.wire.payload import from_data
from tests.support.clocks import SkewedClock, eventually
from tests.support.processes.leaders import leader_harness, running_leader
from tests.support.queue_harness import QueueHarness
from tests.support.servers.server import Server, start_server

GARBAGE = [b"", b"abc", b"\xff\xff\x00\x00no such length", b"\x00\x00\x00\x00\xc1 no envelope", b"plain text"]


def job(number: int, name: str = "") -> tuple[str, bytes]:
    """An id and the member of a job that carries this number."""
    job_id = new_job_id(number)
    made = envelope.encode(envelope.Envelope(job_id, from_data(number), number))
    return job_id, delayed_member.encode(made, name)


def delay(b: QueueHarness, member: bytes, ms: int = -1000) -> None:
    b.run_calls(b.commands.schedule(b.keys, member, b.now_ms() + ms))


def numbers(b: QueueHarness) -> list[Any]:
    """What the jobs in the stream carry."""
    entries = b.command("XRANGE", b.keys.stream, "-", "+")
    return [envelope.decode(fields[1]).payload.data() for _, fields in entries]


def events(b: QueueHarness) -> list[event_entry.Event]:
    return [event_entry.decode(fields) for _, fields in b.command("XRANGE", b.keys.events, "-", "+")]


async def test_a_tick_moves_what_is_due_sends_events_and_leaves_the_rest(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        (first, one), (second, two), (_, three) = job(1, "mail"), job(2), job(3)
        delay(b, one, -2000)
        delay(b, two, -1000)
        delay(b, three, 60_000)
        promoted = await Promoter(link, b.keys, clock=SkewedClock(0)).tick()
        assert (promoted.count, promoted.depth, promoted.quarantined) == (2, 1, 0)
        assert numbers(b) == [1, 2]
        assert b.command("XRANGE", b.keys.stream, "-", "+")[0][1][2:] == [b"n", b"mail"]
        assert [(event.kind, event.job_id, event.name, event.extra) for event in events(b)] == [
            ("waiting", first, "", ()),
            ("waiting", second, "", ()),
        ]
        assert all(abs((event.ts or 0) - b.now_ms()) < 10_000 for event in events(b))


async def test_a_tick_costs_one_round_trip_and_one_more_when_it_moved_something(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        promoter = Promoter(link, b.keys)
        await promoter.tick()
        delay(b, job(0)[1])
        await promoter.tick()  # the scripts are loaded now
        before = link.round_trips
        await promoter.tick()
        assert link.round_trips == before + 1
        for number in range(50):
            delay(b, job(number)[1])
        await promoter.tick()
        assert link.round_trips == before + 3


async def test_a_promoted_job_can_no_longer_be_cancelled_and_its_id_stays_used(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        made = envelope.encode(envelope.Envelope("order-7", from_data(7), 7))
        now = b.now_ms()
        member = delayed_member.encode(made)
        assert b.run_calls(b.commands.schedule_once(b.keys, "order-7", member, now - 1, now_ms=now)) > 0
        await Promoter(link, b.keys).tick()
        assert b.run_calls(b.commands.cancel_delayed(b.keys, "order-7")) == 0
        assert b.command("EXISTS", b.keys.delayed_index("order-7")) == 0
        assert b.command("EXISTS", b.keys.delayed_marker("order-7")) == 1


async def test_without_events_none_is_sent(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        delay(b, job(1)[1])
        await Promoter(link, b.keys, events=False).tick()
        assert (numbers(b), b.command("EXISTS", b.keys.events)) == ([1], 0)


async def test_two_promoters_at_once_move_each_job_once(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        for number in range(300):
            delay(b, job(number)[1])
        promoters = [Promoter(link, b.keys, options=PromoterOptions(batch=20)) for _ in range(2)]
        while b.command("ZCARD", b.keys.delayed):
            await asyncio.gather(*(promoter.tick() for promoter in promoters))
        assert sorted(numbers(b)) == list(range(300))
        assert sum(promoter.state.counts["promoted"] for promoter in promoters) == 300


async def test_more_than_a_batch_is_moved_without_a_pause(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        for number in range(600):
            delay(b, job(number)[1])
        promoter = Promoter(link, b.keys, options=PromoterOptions(poll_ms=60_000))
        async with running_leader(promoter):
            await eventually(lambda: b.command("XLEN", b.keys.stream) == 600)
        assert sorted(numbers(b)) == list(range(600))


@pytest.mark.parametrize("wrong_by_ms", [-60_000, 60_000])
async def test_a_running_promoter_moves_a_job_when_its_time_comes_whatever_its_own_clock_shows(
    server: Server, queue: str, wrong_by_ms: int
) -> None:
    async with leader_harness(server, queue) as (b, link):
        promoter = Promoter(link, b.keys, clock=SkewedClock(wrong_by_ms))
        async with running_leader(promoter):
            await eventually(lambda: promoter.state.role == "leader")
            due_ms = b.now_ms() + 300
            b.run_calls(b.commands.schedule(b.keys, job(1)[1], due_ms))
            await eventually(lambda: b.command("XLEN", b.keys.stream) == 1)
            [(entry_id, _)] = b.command("XRANGE", b.keys.stream, "-", "+")
            assert due_ms <= int(entry_id.split(b"-")[0]) < due_ms + 1000


async def test_garbage_is_quarantined_whole_and_holds_no_job_up(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        for number, junk in enumerate(GARBAGE):
            delay(b, junk, -9000 + number)
        b.command("ZADD", b.keys.delayed, "-inf", "without a time")
        b.command("ZADD", b.keys.delayed, "+inf", "never due")
        delay(b, job(1)[1])
        promoter = Promoter(link, b.keys)
        async with running_leader(promoter):
            await eventually(lambda: numbers(b) == [1])
        assert promoter.state.counts == {"promoted": 1, "quarantined": len(GARBAGE) + 1}
        letters = [dict(zip(row[::2], row[1::2], strict=True)) for _, row in b.command("XRANGE", b.keys.dlq, "-", "+")]
        assert {letter[b"d"] for letter in letters} == {*GARBAGE, b"without a time"}
        assert {letter[b"reason"] for letter in letters} == {b"malformed"}
        assert b.command("ZRANGE", b.keys.delayed, 0, -1) == [b"never due"]


@pytest.mark.parametrize("key", ["delayed", "stream"])
async def test_a_key_of_the_wrong_type_pauses_promotion_and_loses_nothing(server: Server, queue: str, key: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        wrong = getattr(b.keys, key)
        b.command("SET", wrong, "not what you think")
        if key == "stream":
            delay(b, job(1)[1])
        promoter = Promoter(link, b.keys)
        async with running_leader(promoter):
            await eventually(lambda: promoter.state.role == "failing")
            assert "WRONGTYPE" in (promoter.state.last_error or "")
            b.command("DEL", wrong)
            if key == "delayed":
                delay(b, job(1)[1])
            assert await eventually(lambda: b.command("XLEN", b.keys.stream) == 1) < 5
            await eventually(lambda: promoter.state.role == "leader")
        assert numbers(b) == [1]


async def test_an_events_key_of_the_wrong_type_costs_the_events_only(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        b.command("SET", b.keys.events, "not a stream")
        delay(b, job(1)[1])
        promoter = Promoter(link, b.keys)
        async with running_leader(promoter):
            await eventually(lambda: b.command("XLEN", b.keys.stream) == 1)
            assert "failures" not in promoter.state.counts


async def test_garbage_that_cannot_be_moved_is_noted_and_does_not_starve_the_jobs_behind_it(
    server: Server, queue: str
) -> None:
    async with leader_harness(server, queue) as (b, link):
        b.command("SET", b.keys.dlq, "no dead letters today")
        for number in range(40):
            delay(b, b"junk %d" % number, -9000)
        delay(b, job(1)[1])
        promoter = Promoter(link, b.keys, options=PromoterOptions(batch=8, poll_ms=20))
        async with running_leader(promoter):
            await eventually(lambda: b.command("XLEN", b.keys.stream) == 1)
            [note] = promoter.state.notes
            assert "holds members that are no jobs" in note
            assert b.command("ZCARD", b.keys.delayed) == 40
            b.command("DEL", b.keys.dlq)
            await eventually(lambda: b.command("ZCARD", b.keys.delayed) == 0)
            await eventually(lambda: promoter.state.notes == ())
        assert b.command("XLEN", b.keys.dlq) == 40


async def test_a_read_only_server_and_one_without_memory_stop_nothing_for_good(server: Server, queue: str) -> None:
    with start_server(server.kind) as own:
        async with leader_harness(own, queue) as (b, link):
            promoter = Promoter(link, b.keys)
            async with running_leader(promoter):
                await eventually(lambda: promoter.state.role == "leader")
                b.command("REPLICAOF", "127.0.0.1", "1")
                await eventually(lambda: promoter.state.role == "failing")
                b.command("REPLICAOF", "NO", "ONE")
                delay(b, job(1)[1])
                assert await eventually(lambda: numbers(b) == [1]) < 5
                delay(b, job(2)[1], 300)
                b.command("CONFIG", "SET", "maxmemory", "1")
                await eventually(lambda: b.command("ZCOUNT", b.keys.delayed, "-inf", b.now_ms()) == 0)
                await eventually(lambda: promoter.state.counts["promoted"] == 2)
                b.command("CONFIG", "SET", "maxmemory", "0")
                delay(b, job(3)[1])
                assert await eventually(lambda: numbers(b) == [1, 2, 3]) < 5


async def test_a_server_that_comes_back_is_led_again(server: Server, queue: str) -> None:
    with start_server(server.kind) as own:
        async with leader_harness(own, queue) as (b, link):
            promoter = Promoter(link, b.keys)
            async with running_leader(promoter):
                await eventually(lambda: promoter.state.role == "leader")
                own.kill()
                await eventually(lambda: promoter.state.role == "failing")
                own.start()
                assert await eventually(lambda: promoter.state.role == "leader") < 5
                delay(b, job(1)[1], 50)
                await eventually(lambda: numbers(b) == [1])
