"""Hostile text where only other systems' queues have places for it: namespaces, attributes, members of broken kinds,
events; through their verbs, both doctors and a migration, on a terminal and in every format.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from chasqui.foreign import joblist, rsmq
from chasqui.server.commands import time_ms
from chasqui.server.link import Link
from chasqui.wire.joblist_keys import JobListKeys
from chasqui.wire.rsmq_keys import RsmqKeys
from tests.cli.hostile import STRINGS
from tests.cli.seed_hostile import World
from tests.cli.test_hostile import FORMATS, Screen, assert_well_formed
from tests.cli.test_hostile import screen as screen
from tests.engines import await_that
from tests.links import say
from tests.servers import Server

LATER_MS = 9_999_999_999_999


@pytest.fixture
def world(any_server: Server, queue: str) -> Iterator[World]:
    """A namespace and a list queue that are called after every other text; damage of every kind, spelled in them."""
    with Link.open(any_server.url) as link:
        made = World(link, queue, tuple(STRINGS.values())[::2], time_ms(link.run(say("TIME"))))
        _spoil_rsmq(made)
        _spoil_list(made)
        yield made


def _spoil_rsmq(world: World) -> None:
    sound, ghost = RsmqKeys("orders", world.name), RsmqKeys("ghost", world.name)
    world.link.run(rsmq.create(sound))
    world.link.run(rsmq.create(RsmqKeys("dead", world.name)))
    world.say("SADD", sound.queues, *world.texts)
    for number, text in enumerate(world.texts):
        message = f"m{text}"
        world.say("ZADD", sound.messages, LATER_MS if number % 3 else number, message)
        world.say("HSET", sound.hash, message, text, f"{message}:rc", text, f"stray {text}", text)
        world.say("ZADD", sound.messages, 10**15 + number, f"no body {text}")
        world.say("ZADD", ghost.messages, 1, text)
        world.say("HSET", ghost.hash, text, text)
        odd = RsmqKeys(f"odd{number}", world.name)
        world.say(
            "HSET", odd.hash, "vt", text, "delay", text, "maxsize", text, "created", text, "totalsent", text
        )
        world.say("SET", RsmqKeys(f"typed{number}", world.name).hash, text)
    world.say("SADD", sound.queues, *(f"typed{number}" for number in range(3)))


def _spoil_list(world: World) -> None:
    keys = JobListKeys(world.name)
    for number, text in enumerate(world.texts):
        for place in (keys.pending, keys.pending, keys.completed, keys.failed):
            world.say("LPUSH", place, f"j{text}")
        world.say("HSET", f"{keys.prefix}j{text}", "payload", text, "status", text, "last_error", text)
        world.say("HSET", f"{keys.prefix}lost {text}", "payload", text, "status", text)
        world.say("HSET", f"{keys.prefix}empty {text}", "status", text, "claimed_at_ms", text)
        world.say("SET", f"{keys.prefix}typed {text}", text)
        world.say("LPUSH", keys.processing, f"typed {text}", f"nothing {number}")


def _texts_below(world: World) -> list[str]:
    return [f"m{text}" for text in world.heard if text]


def _some_formats(nth: int) -> list[str]:
    """The one that people read, and two others in turn: how each is written is the same for all verbs."""
    return ["table", FORMATS[1 + nth % 3], FORMATS[4 + nth % 3]]


def test_looks_at_other_systems_let_nothing_through(world: World, screen: Screen) -> None:
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
        ["rsmq", "doctor", "orders", "ghost", "odd1", "typed1", *world.heard[:9], *place],
        ["joblist", "list", world.name, "--list", "completed", "--limit", "200"],
        ["joblist", "overview", world.name],
        ["joblist", "doctor", world.name],
        ["queues"],
    ]
    for nth, words in enumerate(lines):
        for how in _some_formats(nth):
            told = screen.run(*words, "-o", how, "--quiet")
            assert_well_formed(told, how, words[0])


def test_changes_and_migrations_let_nothing_through(world: World, screen: Screen, any_server: Server) -> None:
    place, ids = ("--ns", world.name), _texts_below(world)
    lines = [
        ["rsmq", "hold", "orders", *ids[:20], "--for", "1h", "--held", *place],
        ["rsmq", "release", "orders", *place],
        ["rsmq", "move", "orders", "--to", "dead", *ids[:20], "nothing", *place],
        ["rsmq", "move", "orders", "--to", world.heard[3], "--all", *place],
        ["rsmq", "sweep", "orders", "--to", "dead", "--max-rc", "1", *place],
        ["rsmq", "purge", "orders", *ids[20:30], "--held", *place],
        ["rsmq", "doctor", "orders", "ghost", "odd1", "typed1", *place, "--repair"],
        ["joblist", "retry", world.name, "--all"],
        ["joblist", "cancel", world.name, *[f"j{text}" for text in world.heard[:9]]],
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
def test_events_let_nothing_through(world: World, screen: Screen, how: str) -> None:
    keys = JobListKeys(world.name)
    texts = [text for text in world.heard if text]
    events = [json.dumps({"id": text, "status": text}) for text in texts] + texts

    def tell() -> None:
        await_that(lambda: world.say("PUBSUB", "NUMSUB", keys.events)[1] == 1, "somebody listens")
        for event in events:
            world.say("PUBLISH", keys.events, event)

    teller = threading.Thread(target=tell)
    teller.start()
    shown = screen.run("joblist", "events", world.name, "--count", str(len(events)), "-o", how, "--quiet")
    teller.join()
    assert len(shown.splitlines()) >= len(events)
    assert_well_formed(shown, how, "events")
    assert joblist.Event.of(b"\xff").raw == b"\xff"
