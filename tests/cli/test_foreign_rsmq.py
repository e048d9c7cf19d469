"""`chasqui rsmq`: rsmqctl's words, and those its users miss, on every kind of server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chasqui.foreign import rsmq
from chasqui_cli.commands.rsmq.changing import CHANGED
from chasqui_cli.commands.rsmq.classic import QUEUE, RECEIVED
from chasqui_cli.commands.rsmq.looking import COUNTS
from chasqui_cli.commands.rsmq.mending import FOUND
from chasqui_cli.commands.rsmq.naming import MESSAGE
from tests.cli.hostile import STRINGS, is_harmless
from tests.cli.inside import assert_shaped
from tests.cli.seed_foreign import DELAYED, HELD, READY, TRIED, Scene, seed_rsmq
from tests.cli.seed_foreign import scene as scene
from tests.cli.test_read_only import overheard
from tests.cli.yard import Inside
from tests.cli.yard import inside as inside
from tests.servers import Server


def ids(scene: Scene, *, other: bool = False) -> list[str]:
    keys = scene.other if other else scene.orders
    return [message.id for message in scene.run(rsmq.peek(keys, 1000))]


def test_the_words_of_rsmqctl(inside: Inside, scene: Scene) -> None:
    def say(*words: str) -> tuple[int, str]:
        ended = inside("rsmq", *words, "-n", "orders", "--ns", scene.name)
        return ended.code, ended.out

    assert say("queue", "describe") == (1, "")
    assert say("queue", "create") == (0, "")
    assert say("queue", "create") == (1, "")
    described = json.loads(say("queue", "describe")[1])
    assert list(described) == list(QUEUE)
    assert described | {"created": 0, "modified": 0} == {
        "vt": 30.0, "delay": 0.0, "maxsize": 65535, "totalrecv": 0, "totalsent": 0, "created": 0, "modified": 0,
        "msgs": 0, "hiddenmsgs": 0,
    }  # fmt: skip
    code, sent = say("message", "send", "-m", "hällo")
    assert code == 0
    received = json.loads(say("message", "receive")[1])
    assert_shaped(received, RECEIVED)
    assert (received["id"], received["message"], received["rc"]) == (sent.strip(), "hällo", 1)
    assert say("message", "receive") == (0, "No messages on queue: orders\n")
    told = f"Message ID: {sent.strip()} visibility timeout set to 0s\n"
    assert say("message", "visibility", "-i", sent.strip(), "-t", "0") == (0, told)
    assert json.loads(say("message", "pop")[1])["rc"] == 2
    assert say("message", "delete", "-i", sent.strip()) == (1, "")
    assert say("message", "visibility", "-i", sent.strip(), "-t", "3") == (1, "")
    assert json.loads(say("queue", "set", "-t", "7")[1])["vt"] == 7.0
    assert say("message", "send") == (2, "")
    listed = inside("rsmq", "queue", "list", "--ns", scene.name)
    assert (listed.code, listed.out) == (0, '["orders"]\n')
    assert say("queue", "delete") == (0, "")
    assert say("queue", "delete") == (1, "")


def test_a_deleted_queue_comes_back_with_all_its_messages(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    before = scene.run(rsmq.stats(scene.orders)).attributes, ids(scene)
    assert inside("rsmq", "queue", "delete", "-n", "orders", "--ns", scene.name).code == 0
    assert ids(scene) == []
    [op] = inside.operations()
    assert inside("undo", op, "--yes").code == 0
    assert (scene.run(rsmq.stats(scene.orders)).attributes, ids(scene)) == before
    assert "orders" in scene.run(rsmq.names(scene.name))


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_peek_shows_every_state_and_changes_nothing(
    inside: Inside, scene: Scene, server: Server, how: str
) -> None:
    seed_rsmq(scene)
    keys = (scene.orders.messages, scene.orders.hash)
    before = [scene.say("DUMP", key) for key in keys]
    with overheard(server) as heard:
        ended = inside("rsmq", "peek", "orders", "--ns", scene.name, "-o", how)
    assert ended.code == 0, ended
    assert [scene.say("DUMP", key) for key in keys] == before
    assert not [line for line in heard if "HGETALL" in line.upper()]
    assert "hush" not in ended.out, "secrets are covered"
    if how == "table":
        assert all(word in ended.out for word in ("ready", "delayed", "in-flight", READY))
        return
    rows: list[dict[str, Any]] = (
        json.loads(ended.out) if how == "json" else [json.loads(line) for line in ended.out.splitlines()]
    )
    assert_shaped(rows, [MESSAGE])
    states = {row["id"]: row["state"] for row in rows}
    assert states == {READY: "ready", TRIED: "ready", HELD: "in-flight", DELAYED: "delayed"}
    whole = inside("rsmq", "peek", "orders", "--ns", scene.name, "-o", "json", "--where", "data.to == 'held'")
    assert [row["id"] for row in json.loads(whole.out)] == [HELD]


def test_show_and_counts(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    shown = inside("rsmq", "show", "orders", TRIED, "--ns", scene.name, "-o", "json")
    assert_shaped(json.loads(shown.out), MESSAGE)
    assert inside("rsmq", "show", "orders", "x" * 32, "--ns", scene.name).code == 4
    assert inside("rsmq", "peek", "nothing", "--ns", scene.name).code == 4
    counted = json.loads(inside("rsmq", "counts", "orders", "--ns", scene.name, "-o", "json").out)
    assert_shaped(counted, [COUNTS])
    assert [counted[0][name] for name in ("messages", "ready", "delayed", "in_flight")] == [4, 2, 1, 1]


CHANGES: dict[str, tuple[tuple[str, ...], set[str], str]] = {
    "purge": (("purge", "orders", "--all"), {READY, TRIED, DELAYED}, "purged"),
    "purge held": (("purge", "orders", "--state", "in-flight"), {HELD}, "purged"),
    "purge grep": (("purge", "orders", "--grep", "^tri"), {TRIED}, "purged"),
    "move": (("move", "orders", "--to", "other", READY, DELAYED), {READY, DELAYED}, "moved"),
    "sweep": (("sweep", "orders", "--to", "other", "--max-rc", "1"), {TRIED}, "moved"),
    "expire": (
        ("expire", "orders", "--older-than", "1h", "--held"),
        {READY, TRIED, DELAYED, HELD},
        "expired",
    ),
    "release": (("release", "orders"), {HELD}, "released"),
    "hold": (("hold", "orders", "--for", "1h", "--state", "ready"), {READY, TRIED}, "held"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_shown_done_and_undone(inside: Inside, scene: Scene, what: str) -> None:
    words, meant, outcome = CHANGES[what]
    seed_rsmq(scene)
    said = ("rsmq", *words, "--ns", scene.name, "-o", "json")
    places = (scene.orders, scene.other)
    before = [scene.run(rsmq.peek(keys, 100)) for keys in places]
    planned = inside(*said, "--dry-run")
    assert {row["id"] for row in json.loads(planned.out)} == meant
    assert [scene.run(rsmq.peek(keys, 100)) for keys in places] == before
    assert inside(*said).code == 5, "nobody was asked"
    done = inside(*said, "--yes")
    assert done.code == 0, done
    rows = json.loads(done.out)
    assert_shaped(rows, [CHANGED])
    assert {row["id"]: row["outcome"] for row in rows} == dict.fromkeys(meant, outcome)
    assert [scene.run(rsmq.peek(keys, 100)) for keys in places] != before
    [op] = inside.operations()
    undone = inside("undo", op, "--yes")
    assert undone.code == 0, undone
    assert [scene.run(rsmq.peek(keys, 100)) for keys in places] == before


def test_what_is_held_is_left_alone_and_told(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    ended = inside("rsmq", "purge", "orders", HELD, "nope", "--ns", scene.name, "--yes", "-o", "json")
    assert ended.code == 3
    assert {row["id"]: row["outcome"] for row in json.loads(ended.out)} == {
        HELD: "in flight",
        "nope": "not found",
    }
    assert inside("rsmq", "purge", "orders", "--ns", scene.name, "--yes").code == 2, (
        "not everything by accident"
    )


def test_an_undo_killed_midway_brings_nothing_back_twice(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    assert inside("rsmq", "purge", "orders", READY, "--ns", scene.name, "--yes").code == 0
    [op] = inside.operations()
    [message] = [rsmq.Message(READY, b"x", score="5")]
    item = rsmq.item(scene.orders, "purged", message)
    flow = rsmq.put_back
    assert scene.run(flow(None, None, op, [item])) == ["restored"]  # type: ignore[arg-type]  # it asks neither
    scene.run(rsmq.delete(scene.orders, READY))
    assert scene.run(flow(None, None, op, [item])) == ["already"]  # type: ignore[arg-type]
    assert READY not in ids(scene)


def test_export_and_import_are_each_others_inverse(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    scene.run(rsmq.send_many(scene.orders, [rsmq.Draft(b"\xff\x00", id="gqll7vywlc" + "e" * 22)]))
    covered = inside("rsmq", "export", "orders", "--ns", scene.name)
    assert "hush" not in covered.out
    whole = inside("rsmq", "export", "orders", "--ns", scene.name, "--show-secrets")
    file = inside.home / "rows.jsonl"
    file.write_text(whole.out + '{"body": "new"}\nno json\n')
    said = ("rsmq", "import", "other", file, "--ns", scene.name, "-o", "json", "--yes")
    told = json.loads(inside(*said).out)
    assert [row["outcome"] for row in told] == ["imported"] * 6 + ["unreadable"]
    for message in scene.run(rsmq.peek(scene.orders, 100)):
        assert scene.run(rsmq.show(scene.other, message.id)) == message
    again = inside(*said)
    assert again.code == 3
    outcomes = [row["outcome"] for row in json.loads(again.out)]
    assert outcomes == ["there already"] * 5 + ["imported", "unreadable"]
    op = inside.operations()[0]
    assert inside("undo", op, "--yes").code == 0


def test_damage_is_shown_reported_and_repaired(inside: Inside, scene: Scene) -> None:
    seed_rsmq(scene)
    say, orders = scene.say, scene.orders
    say("HSET", orders.hash, "gone:rc", 3, "gone:fr", 4, "vt", "30.5", f"{TRIED}:rc", "often")
    say("HDEL", orders.hash, READY)
    say("ZADD", orders.messages, 1700000000000000, "micro" + "m" * 27)
    say("HSET", orders.hash, "micro" + "m" * 27, "x")
    say("SADD", orders.queues, "phantom")
    say("ZADD", f"{scene.name}:ghost", 1, "x" * 32)
    say("HSET", f"{scene.name}:ghost:Q", "x" * 32, "body")
    for how in ("table", "json", "jsonl"):
        assert inside("rsmq", "peek", "orders", "--ns", scene.name, "-o", how).code == 0
    names = ("orders", "phantom", "ghost")
    said = ("rsmq", "doctor", *names, "--ns", scene.name, "-o", "json")
    found = json.loads(inside(*said).out)
    assert_shaped(found, [FOUND])
    assert {row["ailment"] for row in found} == {
        "stray-field", "fraction", "bad-count", "no-body", "microseconds", "phantom", "ghost"
    }  # fmt: skip
    mended = json.loads(inside(*said, "--repair", "--yes").out)
    assert {row["outcome"] for row in mended} == {"repaired"}
    assert json.loads(inside(*said).out) == []
    assert {"orders", "ghost"} <= set(scene.run(rsmq.names(scene.name)))


def test_hostile_texts_are_harmless(inside: Inside, scene: Scene) -> None:
    scene.run(rsmq.create(scene.orders))
    texts = [text.encode("utf-8", "surrogatepass") for text in STRINGS.values()]
    scene.run(rsmq.send_many(scene.orders, [rsmq.Draft(text) for text in texts]))
    for number, text in enumerate(texts):
        scene.say("ZADD", scene.orders.messages, number, b"id" + text)
        scene.say("HSET", scene.orders.hash, b"id" + text, text, b"id" + text + b":rc", text)
    for words in (("peek",), ("doctor",), ("purge", "--all", "--dry-run"), ("export",)):
        for how in ("table", "wide", "json", "jsonl", "csv", "yaml") if words[0] != "export" else ("jsonl",):
            limit = ("--limit", "100") if words[0] == "peek" else ()
            ended = inside("rsmq", words[0], "orders", *words[1:], *limit, "--ns", scene.name, "-o", how)
            assert ended.code == 0, ended
            assert is_harmless(ended.out), (words, how)
            assert is_harmless(ended.err), (words, how)


@pytest.mark.parametrize(
    "words",
    [
        ("queue", "create", "-n", "new"),
        ("queue", "set", "-n", "orders", "-t", "5"),
        ("queue", "delete", "-n", "orders"),
        ("message", "send", "-n", "orders", "-m", "x"),
        ("message", "receive", "-n", "orders"),
        ("message", "pop", "-n", "orders"),
        ("message", "delete", "-n", "orders", "-i", READY),
        ("message", "visibility", "-n", "orders", "-i", READY, "-t", "5"),
    ],
)
def test_the_words_of_rsmqctl_are_refused_on_a_read_only_connection(
    inside: Inside, scene: Scene, words: tuple[str, ...]
) -> None:
    seed_rsmq(scene)
    keys = (scene.orders.messages, scene.orders.hash, scene.orders.queues)
    before = [scene.say("DUMP", key) for key in keys]
    ended = inside("rsmq", *words, "--ns", scene.name, "--read-only")
    assert ended.code == 5, ended
    assert [scene.say("DUMP", key) for key in keys] == before
    assert not inside.operations()
