"""The leader's lock, on every kind of server: one leads, the others wait, and no lock is stolen."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

import pytest

from chasqui.errors import Conflict, WrongType
from chasqui.schedule.promoter import Promoter
from chasqui.schedule.scheduler import Scheduler
from chasqui.server.commands import PromoteResult
from chasqui.server.link import AsyncLink
from chasqui.supervision import leader_lock
from chasqui.wire.keys import Keys
from tests.support.clocks import eventually
from tests.support.processes.leaders import Leader, leader_harness, leader_process, running_leader
from tests.support.servers.server import Server, start_server

TTL_S = 5


def test_a_holder_is_named_in_the_reference_s_form_and_never_twice() -> None:
    assert leader_lock.new_holder("s")[:2] == "s-"
    assert len(leader_lock.new_holder("s")) == len("s-") + 36
    assert leader_lock.new_holder("s") != leader_lock.new_holder("s")


async def test_a_lock_is_acquired_renewed_and_released_by_its_holder_only(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, _):
        lock = b.keys.promoter_lock
        mine = b.run(leader_lock.acquire_lock(b.commands, lock, "ada", TTL_S))
        assert (mine.mine, mine.holder) == (True, b"ada")
        assert 4000 < (mine.ttl_ms or 0) <= 5000
        assert b.run(leader_lock.acquire_lock(b.commands, lock, "bob", TTL_S)).mine is False
        assert b.run(leader_lock.release_lock(b.commands, lock, "bob")) is False
        seen = b.run(leader_lock.read_lock(b.commands, lock))
        assert seen
        assert (seen.holder, seen.mine) == (b"ada", False)
        assert b.run(leader_lock.release_lock(b.commands, lock, "ada")) is True
        assert b.run(leader_lock.read_lock(b.commands, lock)) is None


async def test_a_lock_is_forced_open_only_if_it_is_still_the_one_that_was_seen(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, _):
        lock = b.keys.scheduler_lock
        assert b.run(leader_lock.force_unlock(b.commands, lock)) is None
        b.command("SET", lock, "stranger")
        with pytest.raises(Conflict, match="not held by 'ghost' any more, but by 'stranger'"):
            b.run(leader_lock.force_unlock(b.commands, lock, seen=b"ghost"))
        taken = b.run(leader_lock.force_unlock(b.commands, lock, seen=b"stranger"))
        assert taken
        assert (taken.holder, taken.ttl_ms) == (b"stranger", None)
        assert b.command("EXISTS", lock) == 0
        b.command("RPUSH", lock, "no lock at all")
        with pytest.raises(WrongType):
            b.run(leader_lock.force_unlock(b.commands, lock))
        assert b.command("LLEN", lock) == 1


async def test_one_leads_the_other_stands_by_and_takes_over_at_once_after_a_clean_stop(
    server: Server, queue: str
) -> None:
    async with leader_harness(server, queue) as (b, link):
        first, second = (Promoter(link, b.keys, holder=name) for name in ("first", "second"))
        async with AsyncExitStack() as leaving:
            async with running_leader(first):
                await eventually(lambda: first.state.role == "leader")
                await leaving.enter_async_context(running_leader(second))
                await eventually(lambda: second.state.role == "standby")
                assert (first.state.role, b.command("GET", b.keys.promoter_lock)) == ("leader", b"first")
                assert 0 < b.command("PTTL", b.keys.promoter_lock) <= 5000
            assert await eventually(lambda: second.state.role == "leader") < 1
            assert b.command("GET", b.keys.promoter_lock) == b"second"
        assert b.command("EXISTS", b.keys.promoter_lock) == 0


@pytest.mark.parametrize("role", ["promoter", "scheduler"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_leader_that_died_or_froze_is_replaced_when_its_lease_ends(
    any_server: Server, queue: str, role: str, end: signal.Signals
) -> None:
    async with leader_harness(any_server, queue) as (b, link):
        lock = b.keys.promoter_lock if role == "promoter" else b.keys.scheduler_lock
        with leader_process(role, any_server, queue) as leader:
            await eventually(lambda: b.command("EXISTS", lock))
            heir: Leader = Promoter(link, b.keys) if role == "promoter" else Scheduler(link, b.keys)
            async with running_leader(heir):
                await eventually(lambda: heir.state.role == "standby")
                leader.send_signal(end)
                assert await eventually(lambda: heir.state.role == "leader") < TTL_S + 1
                assert "failures" not in heir.state.counts


@pytest.mark.parametrize("role", ["promoter", "scheduler"])
async def test_a_leader_asked_to_end_frees_its_lock_at_once(any_server: Server, queue: str, role: str) -> None:
    async with leader_harness(any_server, queue) as (b, _):
        lock = b.keys.promoter_lock if role == "promoter" else b.keys.scheduler_lock
        with leader_process(role, any_server, queue) as leader:
            await eventually(lambda: b.command("EXISTS", lock))
            leader.terminate()
            assert await eventually(lambda: not b.command("EXISTS", lock)) < 2
            assert await asyncio.to_thread(leader.wait, 10) == 0


async def test_a_foreign_lock_that_never_expires_is_noted_and_left_until_it_is_forced_open(
    server: Server, queue: str
) -> None:
    async with leader_harness(server, queue) as (b, link):
        b.command("SET", b.keys.promoter_lock, "stranger")
        promoter = Promoter(link, b.keys)
        async with running_leader(promoter):
            await eventually(lambda: promoter.state.role == "standby")
            [note] = promoter.state.notes
            assert "is held by 'stranger' and never expires" in note
            assert b.command("GET", b.keys.promoter_lock) == b"stranger"
            b.run(leader_lock.force_unlock(b.commands, b.keys.promoter_lock, seen=b"stranger"))
            await eventually(lambda: promoter.state.role == "leader")
            assert promoter.state.notes == ()


async def test_a_lock_of_the_wrong_type_pauses_the_loop_and_heals_by_itself(server: Server, queue: str) -> None:
    async with leader_harness(server, queue) as (b, link):
        b.command("RPUSH", b.keys.scheduler_lock, "a list")
        scheduler = Scheduler(link, b.keys)
        async with running_leader(scheduler):
            await eventually(lambda: scheduler.state.role == "failing")
            assert "WRONGTYPE" in (scheduler.state.last_error or "")
            b.command("DEL", b.keys.scheduler_lock)
            assert await eventually(lambda: scheduler.state.role == "leader") < 4


async def test_after_a_bug_others_may_lead(any_server: Server, queue: str) -> None:
    class Buggy(Promoter):
        async def tick(self) -> PromoteResult:
            raise ZeroDivisionError

    async with leader_harness(any_server, queue) as (b, link):
        buggy, healthy = Buggy(link, b.keys, holder="buggy"), Promoter(link, b.keys, holder="healthy")
        async with running_leader(buggy):
            await eventually(lambda: buggy.state.role == "failing")
            async with running_leader(healthy):
                assert await eventually(lambda: healthy.state.role == "leader") < 2


async def test_a_stop_is_not_held_up_by_a_server_that_is_gone(any_server: Server, queue: str) -> None:
    with start_server(any_server.kind) as own:
        async with AsyncLink.open(own.url) as link:
            promoter = Promoter(link, Keys(queue))
            stop = asyncio.Event()
            task = asyncio.ensure_future(promoter.run(stop))
            await eventually(lambda: promoter.state.role == "leader")
            own.kill()
            await eventually(lambda: promoter.state.role == "failing")
            stop.set()
            async with asyncio.timeout(5):
                await task
            assert promoter.state.role == "stopped"
