"""The scheduler on every kind of server: each due spec fires as its policy demands, and no bad one stops a good one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from chasqui import cron
from chasqui.defaults import SchedulerOptions as SchedulerOptions
from chasqui.schedule import fire_times, firing, scheduler
from chasqui.schedule.scheduler import Scheduler, TickResult
from chasqui.server.flow import Flow
from chasqui.server.link import AsyncLink
from chasqui.wire import envelope, repeat_spec
from chasqui.wire.job_id import created_ms
from chasqui.wire.payload import Payload, from_data
from chasqui.wire.repeat_spec import Cron, Every, FireAll, FireOnce, MissedFires, Pattern, RepeatSpec, Skip
from chasqui.wire.retry_override import RetryOverride
from tests import golden
from tests.support.clocks import SkewedClock, eventually
from tests.support.processes.leaders import leader_harness, leader_process, running_leader
from tests.support.queue_harness import QueueHarness
from tests.support.servers.server import Server, start_server

MINUTE, HOUR = 60_000, 3_600_000
INLINE = Payload("inline", b"\x93\x01\x02\x03")


def spec(key: str, pattern: Pattern, missed: MissedFires = Skip(), **more: Any) -> RepeatSpec:  # noqa: B008
    made = RepeatSpec(key, "mail", pattern, from_data({"a": 1}), missed_fires=missed)
    return replace(made, **more)


def store(b: QueueHarness, made: RepeatSpec, due_ms: int) -> None:
    b.run_calls(b.commands.upsert_repeat(b.keys, made.key, repeat_spec.encode(made), next_ms=due_ms))


def store_raw(b: QueueHarness, key: str, data: bytes, due_ms: int) -> None:
    b.run_calls(b.commands.upsert_repeat(b.keys, key, data, next_ms=due_ms))


def jobs(b: QueueHarness) -> list[envelope.Envelope]:
    return [envelope.decode(fields[1]) for _, fields in b.command("XRANGE", b.keys.stream, "-", "+")]


def next_ms(b: QueueHarness, key: str) -> int | None:
    score = b.command("ZSCORE", b.keys.repeat, key)
    return None if score is None else int(float(score))


async def tick(b: QueueHarness, link: AsyncLink, **options: Any) -> TickResult:
    return await Scheduler(link, b.keys, **options).tick()


# What a fire is


async def test_a_due_spec_becomes_a_job_and_is_due_again_an_interval_later(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() - 100
        store(b, spec("s", Every(HOUR)), due_ms)
        store(b, spec("later", Every(HOUR)), due_ms + HOUR)
        ticked = await tick(b, link)
        assert (ticked.fired, ticked.missed, ticked.removed, ticked.bad, ticked.has_more) == (1, 0, 0, (), False)
        [(_, fields)] = b.command("XRANGE", b.keys.stream, "-", "+")
        made = envelope.decode(fields[1])
        assert fields[2:] == [b"n", b"mail"]
        assert (made.payload.raw, made.attempt, made.retry) == (b"\x81\xa1a\x01", 0, None)
        assert created_ms(made.id) == made.created_at_ms
        assert abs(made.created_at_ms - b.now_ms()) < 10_000
        assert next_ms(b, "s") == due_ms + HOUR
        assert b.command("HGET", b.keys.repeat_spec("s"), "fired") == b"1"
        assert b.command("EXISTS", b.keys.events) == 0


async def test_payloads_are_passed_on_byte_for_byte_and_newer_specs_keep_their_retries(
    server: Server, queue: str
) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() - 100
        store(b, spec("inline", Every(HOUR), payload=INLINE), due_ms)
        store(b, spec("retry", Every(HOUR), retry=RetryOverride(7, None)), due_ms + 1)
        assert (await tick(b, link)).fired == 2
        inline, retried = jobs(b)
        assert inline.payload == INLINE
        assert retried.retry == RetryOverride(7, None)


def _vector_policy(asked: dict[str, Any] | None) -> MissedFires:
    if not asked:
        return Skip()
    return FireAll(asked["max_catchup"]) if asked["kind"] == "fire-all" else FireOnce()


async def test_captured_ticks_play_out_the_same_when_they_happen_now(
    server: Server, queue: str, record_property: Any
) -> None:
    found = golden.items("fire")
    assert found
    async with leader_harness(server, queue) as (b, link):
        for item in found:
            assert any([await _plays_out(b, link, item) for _ in range(3)]), f"{item['id']}: no quiet moment"
    record_property("vectors fire", len(found))


async def _plays_out(b: QueueHarness, link: AsyncLink, item: golden.Item) -> bool:
    """Moved to the present; false when the next time came meanwhile, so that there is nothing to compare."""
    asked, expect, case = item["context"], item["expect"], item["id"]
    shift = b.now_ms() - asked["now_ms"]
    ends_ms = int(bytes.fromhex(item["hex"]["argv"][12]))
    captured = repeat_spec.decode(bytes.fromhex(item["hex"]["spec"]))
    moved = replace(captured, end_before_ms=ends_ms + shift if ends_ms else None, start_after_ms=None)
    assert moved.missed_fires == _vector_policy(asked["policy"])
    b.command("DEL", b.keys.stream, b.keys.repeat, b.keys.repeat_spec(moved.key))
    store(b, moved, asked["score"] + shift)
    earlier = (moved.limit or 0) - expect["stream_len_after"] if expect["spec_removed"] else 0
    b.command("HSET", b.keys.repeat_spec(moved.key), "fired", max(0, earlier))
    ticked = await tick(b, link)
    if b.now_ms() - shift >= expect["next_fire_ms_arg"]:
        return False
    assert (ticked.fired, ticked.removed) == (expect["stream_len_after"], expect["spec_removed"]), case
    assert [made.payload.raw for made in jobs(b)] == [captured.payload.raw] * ticked.fired, case
    expected = None if expect["spec_removed"] else expect["next_fire_ms_arg"] + shift
    assert next_ms(b, moved.key) == expected, case
    return True


# Missed fires


@pytest.mark.parametrize(("policy", "fired"), [(Skip(), 0), (FireOnce(), 1), (FireAll(3), 3), (FireAll(1000), 61)])
@pytest.mark.parametrize("pattern", [Every(1000), Cron("* * * * * *")], ids=["every", "cron"])
async def test_after_an_outage_each_policy_fires_exactly_what_it_promises(
    server: Server, queue: str, policy: MissedFires, fired: int, pattern: Pattern
) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() - 60_500
        store(b, spec("s", pattern, policy), due_ms)
        ticked = await tick(b, link)
        assert (ticked.fired, ticked.missed) == (fired, 61 - fired)
        assert len(jobs(b)) == fired
        assert next_ms(b, "s") == due_ms + 61_000


async def test_none_is_made_up_for_that_lies_after_the_end(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() - 10 * MINUTE
        store(b, spec("s", Every(MINUTE), FireAll(100), end_before_ms=due_ms + 2 * MINUTE), due_ms)
        ticked = await tick(b, link)
        assert (ticked.fired, ticked.removed, next_ms(b, "s")) == (3, 1, None)


async def test_a_limit_counts_over_all_ticks_and_ends_the_spec(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() - 5500
        store(b, spec("s", Every(1000), FireAll(2), limit=3), due_ms)
        first = await tick(b, link)
        assert (first.fired, first.removed) == (2, 0)
        store(b, spec("s", Every(1000), FireAll(100), limit=3), due_ms)
        second = await tick(b, link)
        assert (second.fired, second.removed) == (1, 1)
        assert b.command("EXISTS", b.keys.repeat_spec("s"), b.keys.repeat) == 0


async def test_a_spec_whose_next_fire_is_past_its_end_is_removed(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() - 100
        store(b, spec("ends", Every(HOUR), end_before_ms=due_ms + HOUR - 1), due_ms)
        store(b, spec("just not", Every(HOUR), end_before_ms=due_ms + HOUR), due_ms)
        ticked = await tick(b, link)
        assert (ticked.fired, ticked.removed) == (2, 1)
        assert (next_ms(b, "ends"), next_ms(b, "just not")) == (None, due_ms + HOUR)


async def test_a_start_in_the_future_moves_the_next_fire_behind_it(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        now = b.now_ms()
        store(b, spec("s", Every(MINUTE), start_after_ms=now + HOUR), now - 100)
        await tick(b, link)
        assert next_ms(b, "s") == now + HOUR + MINUTE


async def test_a_long_catch_up_goes_in_volleys_and_is_exact_all_the_same(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() - 25_003
        store(b, spec("many", Every(10), FireAll(2400)), due_ms)
        store(b, spec("limited", Every(10), FireAll(2400), limit=1500, job_name="other"), due_ms)
        ticked = await tick(b, link)
        assert (ticked.fired, ticked.removed, ticked.stale) == (3900, 1, 0)
        assert ticked.missed >= 2 * 100
        names = [fields[3] for _, fields in b.command("XRANGE", b.keys.stream, "-", "+")]
        assert (names.count(b"mail"), names.count(b"other")) == (2400, 1500)
        assert len({made.id for made in jobs(b)}) == 3900
        assert b.command("HGET", b.keys.repeat_spec("many"), "fired") == b"2400"
        assert (next_ms(b, "many") or 0) > due_ms + 25_003


async def test_a_catch_up_of_large_jobs_is_no_large_message(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        large = from_data("x" * 1_500_000)
        store(b, spec("large", Every(1000), FireAll(100), payload=large), b.now_ms() - 6500)
        assert (await tick(b, link)).fired == 7
        assert b.command("XLEN", b.keys.stream) == 7
        before = link.round_trips
        store(b, spec("large", Every(1000), FireAll(100), payload=large), b.now_ms() - 6500)
        await tick(b, link)
        assert link.round_trips - before >= 4 + 3
        b.command("DEL", b.keys.stream)


async def test_of_a_catch_up_cut_off_in_the_middle_the_rest_comes_later(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, _):
        now = b.now_ms()
        due_ms = now - 25_003
        store(b, spec("many", Every(10), FireAll(10_000)), due_ms)
        [found] = b.run(b.commands.due_specs(b.keys, now, 10))
        order = firing.plan_spec(found, now, 1000)
        assert isinstance(order, firing.SpecFirePlan)
        interrupted = firing.fire_specs(b.commands, b.keys, [order], now)
        b.run(_first_trip_of(interrupted))
        assert b.command("XLEN", b.keys.stream) == firing.MAX_CHUNK_JOBS
        assert next_ms(b, "many") == due_ms + 10 * firing.MAX_CHUNK_JOBS
        [again] = b.run(b.commands.due_specs(b.keys, now, 10))
        rest = firing.plan_spec(again, now, 1000)
        assert isinstance(rest, firing.SpecFirePlan)
        b.run(firing.fire_specs(b.commands, b.keys, [rest], now))
        b.run(firing.fire_specs(b.commands, b.keys, [order], now))
        assert b.command("XLEN", b.keys.stream) == len(order.fires.fire_at_ms)


def _first_trip_of(flow: Flow[Any]) -> Flow[None]:
    yield next(flow)
    flow.close()


# Bad specs


def bad_specs(b: QueueHarness, due_ms: int) -> int:
    """One of each kind that cannot be fired; answers how many."""
    store_raw(b, "garbage", b"\xc1", due_ms)
    store_raw(b, "from the future", b"\x9b" + b"\xc0" * 11, due_ms)
    store(b, spec("no cron", Cron("every full moon")), due_ms)
    store(b, spec("no zone", Cron("@daily", "Mars/Olympus")), due_ms)
    store(b, spec("no interval", Every(0)), due_ms)
    b.command("ZADD", b.keys.repeat, due_ms, "without a hash")
    b.command("ZADD", b.keys.repeat, due_ms, b"not \xff text")
    store(b, spec("no time", Cron("@daily")), due_ms)
    b.command("ZADD", b.keys.repeat, "-inf", "no time")
    store(b, spec("counter", Every(HOUR)), due_ms)
    b.command("HSET", b.keys.repeat_spec("counter"), "fired", "many")
    b.command("ZADD", b.keys.repeat, due_ms, "a list")
    b.command("RPUSH", b.keys.repeat_spec("a list"), "no hash")
    return 10


async def test_bad_specs_stay_are_noted_and_hold_no_other_up(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        now = b.now_ms()
        many = bad_specs(b, now - 5000)
        before = b.command("ZRANGE", b.keys.repeat, 0, -1)
        store(b, spec("good", Every(HOUR)), now - 100)
        ticked = await tick(b, link)
        assert (ticked.fired, len(ticked.bad)) == (1, many)
        assert all(bad.reason for bad in ticked.bad)
        assert b.command("ZRANGE", b.keys.repeat, 0, many - 1) == before
        assert {bad.key for bad in ticked.bad} == {key.decode(errors="backslashreplace") for key in before}


async def test_pages_full_of_bad_specs_do_not_starve_a_good_one(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        now = b.now_ms()
        many = bad_specs(b, now - 5000)
        store(b, spec("good", Every(HOUR)), now - 100)
        led = Scheduler(link, b.keys, options=SchedulerOptions(batch=2))
        ticks = [await led.tick()]
        while ticks[-1].has_more and len(ticks) < 50:
            ticks.append(await led.tick())
        assert sum(one.fired for one in ticks) == 1
        assert len(led.bad_specs) == many
        assert len(ticks) == many // 2 + 1


async def test_the_state_names_bad_specs_until_they_are_fixed(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        store_raw(b, "broken", b"\xc1", b.now_ms() - 5000)
        led = Scheduler(link, b.keys)
        async with running_leader(led):
            await eventually(lambda: led.state.notes)
            assert led.state.role == "leader"
            assert led.state.notes[0].startswith("spec 'broken' cannot be fired:")
            store(b, spec("broken", Every(HOUR)), b.now_ms() - 100)
            await eventually(lambda: led.state.notes == ())
            assert led.state.counts["fired"] == 1


async def test_a_long_list_of_bad_specs_is_summed_up(any_server: Server, queue: str) -> None:
    async with leader_harness(any_server, queue) as (b, link):
        for number in range(scheduler.MAX_NOTED_SPECS + 5):
            store_raw(b, f"bad {number}", b"\xc1", 1)
        led = Scheduler(link, b.keys)
        async with running_leader(led):
            await eventually(lambda: led.state.notes)
            assert led.state.notes[scheduler.MAX_NOTED_SPECS :] == ("5 more specs cannot be fired",)


# Who fires, and when


async def test_two_schedulers_at_once_fire_everything_once(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        for number in range(50):
            store(b, spec(f"s{number}", Every(HOUR)), b.now_ms() - 1000)
        two = [Scheduler(link, b.keys) for _ in range(2)]
        ticks = await asyncio.gather(*(one.tick() for one in two))
        assert sum(one.fired for one in ticks) == 50 == len(jobs(b))


async def test_what_is_due_is_the_server_s_opinion(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        store(b, spec("due", Every(HOUR)), b.now_ms() - 100)
        store(b, spec("not due", Every(HOUR)), b.now_ms() + 30_000)
        for wrong_by_ms in (-HOUR, HOUR):
            await tick(b, link, clock=SkewedClock(wrong_by_ms))
        assert len(jobs(b)) == 1
        assert abs(jobs(b)[0].created_at_ms - b.now_ms()) < 10_000


@pytest.mark.parametrize("interval_ms", [100, 300, 1000])
async def test_an_interval_no_longer_than_a_tick_fires_on_time_all_the_same(
    server: Server, queue: str, interval_ms: int
) -> None:
    async with leader_harness(server, queue) as (b, link):
        begun = b.now_ms()
        store(b, spec("s", Every(interval_ms)), begun + interval_ms)
        async with running_leader(Scheduler(link, b.keys)):
            await eventually(lambda: b.now_ms() > begun + 3050)
        expected = 3000 // interval_ms
        assert expected * 0.6 <= len(jobs(b)) <= expected + 1


async def test_an_interval_shorter_than_a_tenth_of_a_tick_fires_once_per_tenth(any_server: Server, queue: str) -> None:
    async with leader_harness(any_server, queue) as (b, link):
        begun = b.now_ms()
        store(b, spec("s", Every(5)), begun)
        async with running_leader(Scheduler(link, b.keys)):
            await eventually(lambda: b.now_ms() > begun + 2000)
        assert 2 <= len(jobs(b)) <= 25


async def test_a_spec_fires_when_it_is_due_and_not_a_tick_later(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        due_ms = b.now_ms() + 400
        store(b, spec("s", Every(HOUR)), due_ms)
        async with running_leader(Scheduler(link, b.keys)):
            await eventually(lambda: jobs(b))
        [(entry_id, _)] = b.command("XRANGE", b.keys.stream, "-", "+")
        assert due_ms <= int(entry_id.split(b"-")[0]) < due_ms + 300


async def test_a_catch_up_that_takes_long_leaves_the_event_loop_free_and_others_first(
    any_server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_times, "MAX_STEPS", 20_000)
    monkeypatch.setattr(
        cron.CronSchedule, "skip_within_day", lambda _, from_ms, __: (0, from_ms)
    )  # each step is walked
    async with leader_harness(any_server, queue) as (b, link):
        now = b.now_ms()
        store(b, spec("long", Cron("* * * * * *")), now - 30 * HOUR)
        store(b, spec("good", Every(HOUR)), now - 100)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await SkewedClock(0).sleep(0.001)
                turns += 1

        beside = asyncio.ensure_future(others())
        ticked = await tick(b, link)
        beside.cancel()
        assert (ticked.fired, ticked.missed) == (1, 20_001)
        assert turns > 3


async def test_planning_that_takes_too_long_is_cut_short_and_goes_on_next_tick(
    any_server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAX_PLANNING_S", 0.0)
    async with leader_harness(any_server, queue) as (b, link):
        for number in range(5):
            store(b, spec(f"s{number}", Every(HOUR)), b.now_ms() - 1000)
        store_raw(b, "bad", b"\xc1", 1)
        led = Scheduler(link, b.keys)
        ticks = [await led.tick()]
        while ticks[-1].has_more and len(ticks) < 50:
            ticks.append(await led.tick())
        assert [one.fired for one in ticks] == [1, 1, 1, 1, 1, 0]
        assert [bad.key for bad in led.bad_specs] == ["bad"]


# Trouble


@pytest.mark.parametrize("key", ["stream", "repeat"])
async def test_a_key_of_the_wrong_type_pauses_the_schedule_and_heals(server: Server, queue: str, key: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        wrong = getattr(b.keys, key)
        b.command("SET", wrong, "not what you think")
        made = spec("s", Every(HOUR), FireOnce())
        if key != "repeat":
            store(b, made, b.now_ms() - 100)
        led = Scheduler(link, b.keys)
        async with running_leader(led):
            await eventually(lambda: led.state.role == "failing")
            assert "WRONGTYPE" in (led.state.last_error or "")
            b.command("DEL", wrong)
            if key == "repeat":
                store(b, made, b.now_ms() - 100)
            assert await eventually(lambda: b.command("XLEN", b.keys.stream) == 1) < 5
            await eventually(lambda: led.state.role == "leader")
        assert len(jobs(b)) == 1


async def test_a_delayed_set_of_the_wrong_type_does_not_keep_due_specs_from_firing(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        b.command("SET", b.keys.delayed, "not what you think")
        store(b, spec("s", Every(HOUR), FireOnce()), b.now_ms() - 100)
        assert (await Scheduler(link, b.keys).tick()).fired == 1
        assert len(jobs(b)) == 1


async def test_a_read_only_server_and_one_without_memory_stop_nothing_for_good(server: Server, queue: str) -> None:
    with start_server(server.kind) as own:
        async with leader_harness(own, queue) as (b, link):
            led = Scheduler(link, b.keys)
            async with running_leader(led):
                await eventually(lambda: led.state.role == "leader")
                b.command("REPLICAOF", "127.0.0.1", "1")
                await eventually(lambda: led.state.role == "failing")
                b.command("REPLICAOF", "NO", "ONE")
                assert await eventually(lambda: led.state.role == "leader") < 5
                store(b, spec("s", Every(HOUR), FireOnce()), b.now_ms() - 100)
                await eventually(lambda: len(jobs(b)) == 1)
                store(b, spec("t", Every(HOUR), FireOnce()), b.now_ms() + 300)
                b.command("CONFIG", "SET", "maxmemory", "1")
                await eventually(lambda: led.state.role == "failing")
                assert len(jobs(b)) == 1
                b.command("CONFIG", "SET", "maxmemory", "0")
                assert await eventually(lambda: len(jobs(b)) == 2) < 5
                await eventually(lambda: led.state.role == "leader")


async def test_schedulers_killed_one_after_the_other_neither_lose_nor_double_a_fire(
    any_server: Server, queue: str
) -> None:
    async with leader_harness(any_server, queue) as (b, _):
        begun = b.now_ms()
        store(b, spec("s", Every(200), FireAll(1000)), begun + 200)
        for so_many in (3, 6):
            with leader_process("scheduler", any_server, queue):
                await eventually(lambda: len(jobs(b)) >= so_many)  # noqa: B023 - awaited here
            b.command("DEL", b.keys.scheduler_lock)  # killed now; its lock would expire in five seconds
        due = next_ms(b, "s") or 0
        assert len(jobs(b)) == (due - begun) // 200 - 1
        assert b.command("HGET", b.keys.repeat_spec("s"), "fired") == b"%d" % len(jobs(b))
