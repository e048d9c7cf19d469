"""What every script promises, whatever it is for: twice is once, and a refused write leaves everything in place."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from chasqui.errors import ServerError, WrongType
from chasqui.foreign.job_import import ImportedJob, import_job
from chasqui.server import scripts
from chasqui.server.commands import Commands, DelayFromNow, IdRange, PlannedFire, ReplayItem, SearchTerm
from chasqui.server.features import Features
from chasqui.server.link import Link
from tests.support.links import command_batch
from tests.support.queue_harness import GROUP, QueueHarness
from tests.support.servers.pool import FASTEST_FIRST
from tests.support.servers.server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui.server.flow import Arg, Call
    from tests.live.conftest import Everywhere
    from tests.support.servers.server import Server

MEMBER = b"\x04\x00\x00\x00mail\x94\xa1x\xc4\x01\x01\x00\x00"
STAND_INS = Commands(Features(idmp=False, ackdel=False, claim=False, kind="any", version="any"))


@dataclass(frozen=True, slots=True)
class Case:
    """A scene with work for a script, the call, and the keys whose type it depends on."""

    build: Callable[[QueueHarness], Call]
    depends_on: tuple[str, ...]


def add_all(b: QueueHarness) -> Call:
    return b.commands.add_batch(b.keys, "p", "first", [b"x", b"mail", b"y", b""])


def add_once(b: QueueHarness) -> Call:
    return STAND_INS.add_entry(b.keys, "p", "job", ["d", b"x"])


def add_unique(b: QueueHarness) -> Call:
    return b.commands.add_unique(b.keys, "job", ["d", b"x"], ttl_s=60)


def load_jobs(b: QueueHarness) -> Call:
    columns: list[Arg] = ["a", "b", b"x", b"y", b"mail", b"", "", b.now_ms() + 60_000]
    return b.commands.load_jobs(b.keys, "run", columns, count=2, kind="rows", ttl_s=60)


def read_ready(b: QueueHarness) -> Call:
    b.make_idle(b.deliver(b"1")[0], 70_000)
    b.add(b"2")
    return b.commands.read_ready(b.keys, GROUP, "bob", claim_idle_ms=60_000).call(9)


def scan_ready(b: QueueHarness) -> Call:
    b.make_idle(b.deliver(b"1")[0], 70_000)
    b.add(b"2")
    return STAND_INS.read_ready(b.keys, GROUP, "bob", claim_idle_ms=60_000).call(9)


def ack_delete(b: QueueHarness) -> Call:
    return STAND_INS.ack_and_delete(b.keys, GROUP, b.deliver(b"1", b"2"))


def settle_mine(b: QueueHarness) -> Call:
    [entry_id] = b.deliver(b"x")
    return b.commands.settle_owned(b.keys, GROUP, "ada", entry_id, "job", data=b"\xc3", ttl_s=60)


def schedule_all(b: QueueHarness) -> Call:
    return b.commands.schedule_batch(b.keys, "p", "first", [(9_000, MEMBER), (DelayFromNow(90_000), MEMBER + b"2")])


def schedule_once(b: QueueHarness) -> Call:
    return b.commands.schedule_once(b.keys, "job", MEMBER, 9_000, now_ms=1_000)


def cancel_delayed(b: QueueHarness) -> Call:
    b.run_calls(schedule_once(b))
    return b.commands.cancel_delayed(b.keys, "job")


def promote(b: QueueHarness) -> Call:
    b.run_calls(b.commands.schedule(b.keys, MEMBER, 1))
    b.run_calls(b.commands.schedule(b.keys, b"garbage", 2))
    return b.commands.promote(b.keys, batch=10)


def park_retry(b: QueueHarness) -> Call:
    [entry_id] = b.deliver(b"x")
    return b.commands.schedule_retry(b.keys, GROUP, "ada", entry_id, MEMBER, delay_ms=90_000)


def move_to_dlq(b: QueueHarness) -> Call:
    [entry_id] = b.deliver(b"x")
    return b.commands.move_to_dlq(b.keys, GROUP, "ada", entry_id, ["d", b"x", "reason", "unrecoverable"])


def replay_dead(b: QueueHarness) -> Call:
    dead_id = b.command("XADD", b.keys.dlq, "*", "d", "x")
    return b.commands.replay_dead(b.keys, [ReplayItem(dead_id, b"x", "mail")])


def rewrite_dead(b: QueueHarness) -> Call:
    dead_id = b.command("XADD", b.keys.dlq, "*", "d", "x").decode()
    return b.commands.rewrite_dead(b.keys, dead_id, ["d", b"y", "reason", "unrecoverable"])


def restore_dead(b: QueueHarness) -> Call:
    return b.commands.restore_dead(b.keys, "op", "1-1", ["d", b"x"])


def unreplay(b: QueueHarness) -> Call:
    b.run(b.commands.ensure_group(b.keys, GROUP))
    [entry_id] = b.add(b"x")
    return b.commands.undo_replay(b.keys, "op", "1-1", entry_id.decode(), ["d", b"x"])


def import_dead(b: QueueHarness) -> Call:
    return b.commands.import_dead(b.keys, "1-1", "digest", ["d", b"x"])


def upsert_repeat(b: QueueHarness) -> Call:
    return b.commands.upsert_repeat(b.keys, "tick", b"spec", next_ms=1000)


def remove_repeat(b: QueueHarness) -> Call:
    b.run_calls(upsert_repeat(b))
    return b.commands.remove_repeat(b.keys, "tick")


def fire_repeat(b: QueueHarness) -> Call:
    b.run_calls(upsert_repeat(b))
    fires = [PlannedFire(1000, b"due", "mail"), PlannedFire(b.now_ms() + 90_000, b"later")]
    return b.commands.fire_repeat(b.keys, "tick", fires, due_ms=1000, next_ms=2000)


def take_lease(b: QueueHarness) -> Call:
    return b.commands.acquire_lock(b.keys.promoter_lock, "ada", ttl_s=60)


def drop_lease(b: QueueHarness) -> Call:
    b.run_calls(take_lease(b))
    return b.commands.release_lock(b.keys.promoter_lock, "ada")


def renew(b: QueueHarness) -> Call:
    return b.commands.renew_leases(b.keys, GROUP, "ada", b.deliver(b"x"))


def hand_over(b: QueueHarness) -> Call:
    return b.commands.release(b.keys, GROUP, "ada", dict.fromkeys(b.deliver(b"x"), 0))


def drop_consumers(b: QueueHarness) -> Call:
    b.deliver(b"x")
    b.command("XGROUP", "CREATECONSUMER", b.keys.stream, GROUP, "idle")
    return b.commands.drop_consumers(b.keys, GROUP, ["ada", "idle"])


def drop_ghosts(b: QueueHarness) -> Call:
    ids = b.deliver(b"1", b"2")
    b.command("XDEL", b.keys.stream, ids[0])
    return b.commands.drop_dangling_pending(b.keys, GROUP, ids)


def find_ghosts(b: QueueHarness) -> Call:
    ids = b.deliver(b"1", b"2")
    b.command("XDEL", b.keys.stream, ids[0])
    return replace(b.commands.find_dangling_pending(b.keys, GROUP, count=10), tolerant=False)


def arrived(b: QueueHarness) -> Call:
    return import_job(b.keys, ImportedJob("job", b"x", b"mail", due_ms=1000), now_ms=2000)


def look(b: QueueHarness) -> Call:
    b.deliver(b"x")
    return b.commands.read_snapshot(b.keys)


def read_on(b: QueueHarness) -> Call:
    b.add(b"x")
    return replace(b.commands.read_with_extent(b.keys.stream, "0-0", 10), tolerant=False)


def find_entry(b: QueueHarness) -> Call:
    b.add(b"x")
    return b.commands.find_entries(b.keys.stream, SearchTerm("d", b"x"), IdRange())


def find_member(b: QueueHarness) -> Call:
    b.run_calls(b.commands.schedule(b.keys, MEMBER, 1))
    return b.commands.find_members(b.keys.delayed, b"mail")


def cut_delayed(b: QueueHarness) -> Call:
    b.run_calls(schedule_once(b))
    return b.commands.cancel_delayed_member(b.keys, "job", MEMBER)


def run_delayed(b: QueueHarness) -> Call:
    b.run_calls(schedule_once(b))
    return b.commands.run_delayed(b.keys, "job", MEMBER, MEMBER[8:], b"mail")


def shift_delayed(b: QueueHarness) -> Call:
    b.run_calls(schedule_once(b))
    return b.commands.reschedule_delayed(b.keys, "job", MEMBER, 99_000)


def restore_delayed(b: QueueHarness) -> Call:
    return b.commands.restore_delayed(b.keys, "op", "job", MEMBER, 9_000, index_ms=3_600_000, marker_ms=3_600_000)


def withdraw(b: QueueHarness) -> Call:
    [entry_id] = b.add(b"x")
    return b.commands.remove_unread(b.keys, [(entry_id.decode(), MEMBER, 9_000)])


def restore_repeat(b: QueueHarness) -> Call:
    return b.commands.restore_repeat(b.keys, "op", b"tick", expected_data=b"", data=b"spec", next_ms=1000, fired=b"7")


CASES = {
    "ack_delete": Case(ack_delete, ("stream",)),
    "add_batch": Case(add_all, ("stream",)),
    "add_once": Case(add_once, ("stream",)),
    "add_unique": Case(add_unique, ("stream",)),
    "import_job": Case(arrived, ("stream",)),
    "move_to_dlq": Case(move_to_dlq, ("stream", "dlq")),
    "cancel_delayed": Case(cancel_delayed, ("delayed",)),
    "cancel_delayed_member": Case(cut_delayed, ("delayed",)),
    "drop_consumers": Case(drop_consumers, ("stream",)),
    "drop_dangling_pending": Case(drop_ghosts, ("stream",)),
    "release_lock": Case(drop_lease, ("promoter_lock",)),
    "find_entries": Case(find_entry, ("stream",)),
    "find_dangling_pending": Case(find_ghosts, ("stream",)),
    "find_members": Case(find_member, ("delayed",)),
    "fire_repeat": Case(fire_repeat, ("stream", "delayed", "repeat")),
    "transfer_entries": Case(hand_over, ("stream",)),
    "import_dead": Case(import_dead, ("dlq",)),
    "load_jobs": Case(load_jobs, ("stream", "delayed")),
    "snapshot": Case(look, ()),
    "schedule_retry": Case(park_retry, ("stream", "delayed")),
    "promote": Case(promote, ("stream", "delayed")),
    "read_with_extent": Case(read_on, ("stream",)),
    "read_ready": Case(read_ready, ("stream",)),
    "remove_repeat": Case(remove_repeat, ("repeat",)),
    "renew_leases": Case(renew, ("stream",)),
    "replay_dead": Case(replay_dead, ("stream", "dlq")),
    "restore_delayed": Case(restore_delayed, ("delayed",)),
    "restore_repeat": Case(restore_repeat, ("repeat",)),
    "run_delayed": Case(run_delayed, ("stream", "delayed")),
    "restore_dead": Case(restore_dead, ("dlq",)),
    "rewrite_dead": Case(rewrite_dead, ("dlq",)),
    "read_ready_without_claim": Case(scan_ready, ("stream",)),
    "schedule_batch": Case(schedule_all, ("delayed",)),
    "schedule_once": Case(schedule_once, ("delayed",)),
    "settle_owned": Case(settle_mine, ("stream",)),
    "reschedule_delayed": Case(shift_delayed, ("delayed",)),
    "acquire_lock": Case(take_lease, ("promoter_lock",)),
    "undo_replay": Case(unreplay, ("stream", "dlq")),
    "upsert_repeat": Case(upsert_repeat, ("repeat",)),
    "remove_unread": Case(withdraw, ("stream", "delayed")),
}

STANDS_IN = {"read_ready": "read_ready_without_claim"}
"""What is said instead where a script needs a word that the server has not."""

WRONG = [(name, key) for name, case in CASES.items() for key in case.depends_on]


def test_every_script_has_a_case() -> None:
    assert sorted(CASES) == [name for name in scripts.script_names() if not name.startswith(scripts.FOREIGN_FOLDERS)]


@pytest.mark.parametrize("name", CASES)
def test_running_a_script_twice_is_running_it_once(on_every_server: Everywhere, name: str) -> None:
    def story(b: QueueHarness) -> bool:
        call = CASES[name].build(b)
        assert call.script in {name, STANDS_IN.get(name)}
        before = b.dump()
        b.run_calls(call)
        once, marks = b.dump(), b.marks()
        b.run_calls(call)
        assert (b.dump(), b.marks()) == (once, marks)
        return once != before

    changes_something = on_every_server(story).result
    if scripts.is_read_only_script(name):
        assert not changes_something
    else:
        assert changes_something or name == "renew_leases", f"{name} did nothing, so this proves nothing"


@pytest.mark.parametrize(("name", "key"), WRONG)
def test_a_key_of_another_type_leaves_everything_where_it_was(on_every_server: Everywhere, name: str, key: str) -> None:
    def story(b: QueueHarness) -> bool:
        call = CASES[name].build(b)
        spoiled, aside = getattr(b.keys, key), f"{b.keys.stream}:aside"
        b.command("EXISTS", spoiled) and b.command("RENAME", spoiled, aside)
        b.command("HSET", spoiled, "no", "such type")
        before = b.dump()
        with pytest.raises(WrongType):
            b.run_calls(call)
        assert b.dump() == before
        b.command("DEL", spoiled)
        b.command("EXISTS", aside) and b.command("RENAME", aside, spoiled)
        healed = b.dump()
        b.run_calls(call)
        return b.dump() != healed

    unchanging = name == "renew_leases" or scripts.is_read_only_script(name)
    assert on_every_server(story).result or unchanging, "it did not heal once the type was right again"


@pytest.mark.parametrize("build", [fire_repeat, restore_repeat, upsert_repeat])
def test_a_spec_of_another_type_leaves_everything_where_it_was(
    on_every_server: Everywhere, build: Callable[[QueueHarness], Call]
) -> None:
    def story(b: QueueHarness) -> bool:
        call = build(b)
        b.command("DEL", b.keys.repeat_spec("tick"))
        b.command("SET", b.keys.repeat_spec("tick"), "no hash")
        before = b.dump()
        with pytest.raises(WrongType):
            b.run_calls(call)
        return b.dump() == before

    assert on_every_server(story).result is True


WRITES = [
    (name, word)
    for name in CASES
    if not scripts.is_read_only_script(name)
    for word in sorted(set(re.findall(r"redis\.call\(\s*'(\w+)'", scripts.script_text(name))))
    if name not in {"acquire_lock", "promote", "read_ready", "read_ready_without_claim"}
]
"""Four scripts are left out: they do not check first, as a lease expires and a read can be repeated."""


@pytest.mark.parametrize("server", FASTEST_FIRST[:1], indirect=True)
@pytest.mark.parametrize(("name", "word"), WRITES)
def test_a_user_without_one_of_the_commands_of_a_script_changes_nothing(
    server: Server, queue: str, name: str, word: str
) -> None:
    with Link.open(server.url) as link, Link.open(f"unix://{queue}:pw@{link.address}".replace("@unix://", "@")) as less:
        bench = QueueHarness(queue, link, Commands(link.features()), queue)
        call = CASES[name].build(bench)
        bench.command("ACL", "SETUSER", queue, "on", ">pw", "~*", "&*", "+@all", f"-{word}")
        before = bench.dump()
        try:
            less.run(command_batch(call))
        except ServerError:
            assert bench.dump() == before


DRAINS = ["ack_delete", "move_to_dlq", "schedule_retry", "promote", "settle_owned", "acquire_lock"]
GROWS = [
    "add_batch",
    "import_job",
    "load_jobs",
    "schedule_batch",
    "add_once",
    "add_unique",
    "schedule_once",
    "fire_repeat",
    "upsert_repeat",
    "replay_dead",
    "restore_delayed",
    "restore_repeat",
    "import_dead",
    "restore_dead",
    "rewrite_dead",
    "undo_replay",
]


def test_exactly_the_scripts_that_drain_a_server_may_run_on_a_full_one() -> None:
    assert [name for name in scripts.script_names() if "allow-oom" in scripts.load_script(name).flags] == sorted(DRAINS)


def test_a_full_server_can_be_drained_and_takes_nothing_new(server: Server) -> None:
    with start_server(server.kind) as full, Link.open(full.url) as link:
        scenes = {name: QueueHarness(name, link, Commands(link.features()), name) for name in [*DRAINS, *GROWS]}
        calls = {name: CASES[name].build(bench) for name, bench in scenes.items()}
        before = {name: bench.dump() for name, bench in scenes.items()}
        scenes["move_to_dlq"].command("CONFIG", "SET", "maxmemory", "1")
        for name in GROWS:
            with pytest.raises(ServerError) as refused:
                scenes[name].run_calls(calls[name])
            assert refused.value.code == "OOM"
        for name in DRAINS:
            scenes[name].run_calls(calls[name])
        unchanged = {name for name, bench in scenes.items() if bench.dump() == before[name]}
        assert unchanged == set(GROWS)
