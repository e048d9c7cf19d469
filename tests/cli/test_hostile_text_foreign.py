"""Hostile text where only other systems' queues have places for it: namespaces, attributes, members of broken kinds,
events; through their verbs, both doctors and a migration, on a terminal and in every format.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui.foreign.joblist.keys import JobListKeys
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.server.commands import parse_server_time
from chasqui.server.link import Link
from tests.cli.test_hostile_text import FORMATS, Screen, assert_well_formed
from tests.cli.test_hostile_text import screen as screen
from tests.support.links import command
from tests.support.processes.engines import wait_until
from tests.support.seeds.hostile_queues import HostileQueues
from tests.support.seeds.hostile_text import HOSTILE_TEXTS
from tests.support.servers.server import Server

LATER_MS = 9_999_999_999_999


@pytest.fixture
def world(any_server: Server, queue: str) -> Iterator[HostileQueues]:
    """A namespace and a list queue that are called after every other text; damage of every kind, spelled in them."""
    with Link.open(any_server.url) as link:
        made = HostileQueues(
            link, queue, tuple(HOSTILE_TEXTS.values())[::2], parse_server_time(link.run(command("TIME")))
        )
        _spoil_rsmq(made)
        _spoil_list(made)
        yield made


def _spoil_rsmq(world: HostileQueues) -> None:
    sound, ghost = RsmqKeys("orders", world.name), RsmqKeys("ghost", world.name)
    world.link.run(rsmq.create_queue(sound))
    world.link.run(rsmq.create_queue(RsmqKeys("dead", world.name)))
    world.command("SADD", sound.queues, *world.texts)
    for number, text in enumerate(world.texts):
        message = f"m{text}"
        world.command("ZADD", sound.messages, LATER_MS if number % 3 else number, message)
        world.command("HSET", sound.hash, message, text, f"{message}:rc", text, f"stray {text}", text)
        world.command("ZADD", sound.messages, 10**15 + number, f"no body {text}")
        world.command("ZADD", ghost.messages, 1, text)
        world.command("HSET", ghost.hash, text, text)
        odd = RsmqKeys(f"odd{number}", world.name)
        world.command("HSET", odd.hash, "vt", text, "delay", text, "maxsize", text, "created", text, "totalsent", text)
        world.command("SET", RsmqKeys(f"typed{number}", world.name).hash, text)
    world.command("SADD", sound.queues, *(f"typed{number}" for number in range(3)))


def _spoil_list(world: HostileQueues) -> None:
    keys = JobListKeys(world.name)
    for number, text in enumerate(world.texts):
        for place in (keys.pending, keys.pending, keys.completed, keys.failed):
            world.command("LPUSH", place, f"j{text}")
        world.command("HSET", f"{keys.prefix}j{text}", "payload", text, "status", text, "last_error", text)
        world.command("HSET", f"{keys.prefix}lost {text}", "payload", text, "status", text)
        world.command("HSET", f"{keys.prefix}empty {text}", "status", text, "claimed_at_ms", text)
        world.command("SET", f"{keys.prefix}typed {text}", text)
        world.command("LPUSH", keys.processing, f"typed {text}", f"nothing {number}")


def _texts_below(world: HostileQueues) -> list[str]:
    return [f"m{text}" for text in world.arguments if text]


def _some_formats(nth: int) -> list[str]:
    """The one that people read, and two others in turn: how each is written is the same for all verbs."""
    return ["table", FORMATS[1 + nth % 3], FORMATS[4 + nth % 3]]


def test_looks_at_other_systems_let_nothing_through(world: HostileQueues, screen: Screen) -> None:
    place = ("--ns", world.name)
    lines = [
        ["inspect", f"rsmq:{world.name}:orders", f"rsmq:{world.name}:ghost", f"list:{world.name}"],
        ["doctor", f"rsmq:{world.name}:orders"],
        ["doctor", f"rsmq:{world.name}:ghost"],
        ["doctor", f"list:{world.name}"],
        ["watch", f"rsmq:{world.name}:orders", f"list:{world.name}", "--count", "1"],
        ["rsmq", "queue", "list", *place],
        ["rsmq", "queue", "describe", "-n", "odd1", *place],
        ["rsmq", "counts", "orders", "ghost", "odd1", *place],
        ["rsmq", "peek", "orders", "--limit", "200", *place],
        ["rsmq", "peek", "orders", *_texts_below(world)[:9], *place],
        ["rsmq", "doctor", "orders", "ghost", "odd1", "typed1", *world.arguments[:9], *place],
        ["joblist", "list", world.name, "--list", "completed", "--limit", "200"],
        ["joblist", "overview", world.name],
        ["joblist", "doctor", world.name],
        ["queues"],
    ]
    for nth, words in enumerate(lines):
        for how in _some_formats(nth):
            output = screen.run(*words, "-o", how, "--quiet")
            assert_well_formed(output, how, words[0])


def test_changes_and_migrations_let_nothing_through(world: HostileQueues, screen: Screen, any_server: Server) -> None:
    place, ids = ("--ns", world.name), _texts_below(world)
    lines = [
        ["rsmq", "hold", "orders", *ids[:20], "--for", "1h", "--held", *place],
        ["rsmq", "release", "orders", *place],
        ["rsmq", "move", "orders", "--to", "dead", *ids[:20], "nothing", *place],
        ["rsmq", "move", "orders", "--to", world.arguments[3], "--all", *place],
        ["rsmq", "sweep", "orders", "--to", "dead", "--max-rc", "1", *place],
        ["rsmq", "purge", "orders", *ids[20:30], "--held", *place],
        ["rsmq", "doctor", "orders", "ghost", "odd1", "typed1", *place, "--repair"],
        ["joblist", "retry", world.name, "--all"],
        ["joblist", "cancel", world.name, *[f"j{text}" for text in world.arguments[:9]]],
        ["joblist", "reclaim", world.name, "--visibility", "1ms", "--drop-orphans"],
        ["joblist", "doctor", world.name, "--repair"],
        ["migrate", f"rsmq://{world.name}/orders", f"chasqui://{world.plain}"],
        ["migrate", f"joblist://{world.name}", f"chasqui://{world.name}"],
        ["migrate", f"rsmq://{world.name}/dead", f"chasqui://{world.plain}", "--to-url", any_server.url],
    ]
    for nth, words in enumerate(lines):
        for how in _some_formats(nth):
            dry = screen.run(*words, "--dry-run", "--yes", "-o", how, "--quiet")
            assert_well_formed(dry, how, words[0])
        screen.run(*words, "--yes")
    left = json.loads(screen.run("joblist", "doctor", world.name, "-o", "json", "--quiet"))
    assert {row["ailment"] for row in left} <= {"wrong-type", "unsigned", "expired"}
    for nth, op in enumerate(screen.run("log", "--limit", "100", "-o", "name", "--quiet").split()):
        screen.run("log", op, "-o", FORMATS[nth % len(FORMATS)])
        screen.run("undo", op, "--yes")


@pytest.mark.parametrize("how", ["table", "wide", "jsonl"])
def test_events_let_nothing_through(world: HostileQueues, screen: Screen, how: str) -> None:
    keys = JobListKeys(world.name)
    texts = [text for text in world.arguments if text]
    events = [json.dumps({"id": text, "status": text}) for text in texts] + texts

    def publish() -> None:
        wait_until(lambda: world.command("PUBSUB", "NUMSUB", keys.events)[1] == 1, "somebody listens")
        for event in events:
            world.command("PUBLISH", keys.events, event)

    publisher = threading.Thread(target=publish)
    publisher.start()
    shown = screen.run("joblist", "events", world.name, "--count", str(len(events)), "-o", how, "--quiet")
    publisher.join()
    assert len(shown.splitlines()) >= len(events)
    assert_well_formed(shown, how, "events")
    assert joblist.ListJobEvent.parse(b"\xff").raw == b"\xff"
