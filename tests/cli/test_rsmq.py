"""`chasqui rsmq`: rsmqctl's words, and those its users miss, on every kind of server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from chasqui.errors import ChasquiError
from chasqui.foreign import REVERT_BY_KIND, rsmq
from chasqui_cli.changes.journal import JournalWriter
from chasqui_cli.commands.rsmq._change import CHANGE_SCHEMA
from chasqui_cli.commands.rsmq._record import MESSAGE_SCHEMA
from chasqui_cli.commands.rsmq.counts import COUNTS_SCHEMA
from chasqui_cli.commands.rsmq.doctor import DOCTOR_SCHEMA
from chasqui_cli.commands.rsmq.message import RECEIVE_SCHEMA
from chasqui_cli.commands.rsmq.queue import QUEUE_SCHEMA
from tests.cli.test_read_only import overheard
from tests.support.cli.in_process import InProcessCli, assert_matches_schema
from tests.support.seeds.foreign_queues import DELAYED, HELD, READY, TRIED, ForeignQueues, seed_rsmq
from tests.support.seeds.hostile_text import HOSTILE_TEXTS, is_harmless
from tests.support.servers.server import Server


def ids(scene: ForeignQueues, *, other: bool = False) -> list[str]:
    keys = scene.other if other else scene.orders
    return [message.id for message in scene.run(rsmq.peek(keys, 1000))]


def test_the_words_of_rsmqctl(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    def rsmqctl(*words: str) -> tuple[int, str]:
        ended = cli("rsmq", *words, "-n", "orders", "--ns", foreign_queues.name)
        return ended.code, ended.out

    assert rsmqctl("queue", "describe") == (1, "")
    assert rsmqctl("queue", "create") == (0, "")
    assert rsmqctl("queue", "create") == (1, "")
    described = json.loads(rsmqctl("queue", "describe")[1])
    assert list(described) == list(QUEUE_SCHEMA)
    assert described | {"created": 0, "modified": 0} == {
        "vt": 30.0, "delay": 0.0, "maxsize": 65535, "totalrecv": 0, "totalsent": 0, "created": 0, "modified": 0,
        "msgs": 0, "hiddenmsgs": 0,
    }  # fmt: skip
    code, sent = rsmqctl("message", "send", "-m", "hällo")
    assert code == 0
    received = json.loads(rsmqctl("message", "receive")[1])
    assert_matches_schema(received, RECEIVE_SCHEMA)
    assert (received["id"], received["message"], received["rc"]) == (sent.strip(), "hällo", 1)
    assert rsmqctl("message", "receive") == (0, "No messages on queue: orders\n")
    expected = f"Message ID: {sent.strip()} visibility timeout set to 0s\n"
    assert rsmqctl("message", "visibility", "-i", sent.strip(), "-t", "0") == (0, expected)
    assert json.loads(rsmqctl("message", "pop")[1])["rc"] == 2
    assert rsmqctl("message", "delete", "-i", sent.strip()) == (1, "")
    assert rsmqctl("message", "visibility", "-i", sent.strip(), "-t", "3") == (1, "")
    assert json.loads(rsmqctl("queue", "set", "-t", "7")[1])["vt"] == 7.0
    assert rsmqctl("message", "send") == (2, "")
    listed = cli("rsmq", "queue", "list", "--ns", foreign_queues.name)
    assert (listed.code, listed.out) == (0, '["orders"]\n')
    assert rsmqctl("queue", "delete") == (0, "")
    assert rsmqctl("queue", "delete") == (1, "")


def test_a_deleted_queue_comes_back_with_all_its_messages(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    before = foreign_queues.run(rsmq.queue_stats(foreign_queues.orders)).attributes, ids(foreign_queues)
    assert cli("rsmq", "queue", "delete", "-n", "orders", "--ns", foreign_queues.name).code == 0
    assert ids(foreign_queues) == []
    [op] = cli.operations()
    assert cli("undo", op, "--yes").code == 0
    assert (
        foreign_queues.run(rsmq.queue_stats(foreign_queues.orders)).attributes,
        ids(foreign_queues),
    ) == before
    assert "orders" in foreign_queues.run(rsmq.list_queues(foreign_queues.name))


@pytest.mark.parametrize("how", ["table", "json", "jsonl"])
def test_peek_shows_every_state_and_changes_nothing(
    cli: InProcessCli, foreign_queues: ForeignQueues, server: Server, how: str
) -> None:
    seed_rsmq(foreign_queues)
    keys = (foreign_queues.orders.messages, foreign_queues.orders.hash)
    before = [foreign_queues.command("DUMP", key) for key in keys]
    with overheard(server) as monitored:
        ended = cli("rsmq", "peek", "orders", "--ns", foreign_queues.name, "-o", how)
    assert ended.code == 0, ended
    assert [foreign_queues.command("DUMP", key) for key in keys] == before
    assert not [line for line in monitored if "HGETALL" in line.upper()]
    assert "hush" not in ended.out, "secrets are covered"
    if how == "table":
        assert all(word in ended.out for word in ("ready", "delayed", "in-flight", READY))
        return
    rows: list[dict[str, Any]] = (
        json.loads(ended.out) if how == "json" else [json.loads(line) for line in ended.out.splitlines()]
    )
    assert_matches_schema(rows, [MESSAGE_SCHEMA])
    states = {row["id"]: row["state"] for row in rows}
    assert states == {READY: "ready", TRIED: "ready", HELD: "in-flight", DELAYED: "delayed"}
    whole = cli("rsmq", "peek", "orders", "--ns", foreign_queues.name, "-o", "json", "--where", "data.to == 'held'")
    assert [row["id"] for row in json.loads(whole.out)] == [HELD]


def test_show_and_counts(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    shown = cli("rsmq", "show", "orders", TRIED, "--ns", foreign_queues.name, "-o", "json")
    assert_matches_schema(json.loads(shown.out), MESSAGE_SCHEMA)
    assert cli("rsmq", "show", "orders", "x" * 32, "--ns", foreign_queues.name).code == 4
    assert cli("rsmq", "peek", "nothing", "--ns", foreign_queues.name).code == 4
    counted = json.loads(cli("rsmq", "counts", "orders", "--ns", foreign_queues.name, "-o", "json").out)
    assert_matches_schema(counted, [COUNTS_SCHEMA])
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
def test_a_change_is_shown_done_and_undone(cli: InProcessCli, foreign_queues: ForeignQueues, what: str) -> None:
    words, meant, outcome = CHANGES[what]
    seed_rsmq(foreign_queues)
    line = ("rsmq", *words, "--ns", foreign_queues.name, "-o", "json")
    places = (foreign_queues.orders, foreign_queues.other)
    before = [foreign_queues.run(rsmq.peek(keys, 100)) for keys in places]
    planned = cli(*line, "--dry-run")
    assert {row["id"] for row in json.loads(planned.out)} == meant
    assert [foreign_queues.run(rsmq.peek(keys, 100)) for keys in places] == before
    assert cli(*line).code == 5, "nobody was asked"
    done = cli(*line, "--yes")
    assert done.code == 0, done
    rows = json.loads(done.out)
    assert_matches_schema(rows, [CHANGE_SCHEMA])
    assert {row["id"]: row["outcome"] for row in rows} == dict.fromkeys(meant, outcome)
    assert [foreign_queues.run(rsmq.peek(keys, 100)) for keys in places] != before
    [op] = cli.operations()
    undone = cli("undo", op, "--yes")
    assert undone.code == 0, undone
    assert [foreign_queues.run(rsmq.peek(keys, 100)) for keys in places] == before


def test_messages_in_flight_are_left_alone_and_reported(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    ended = cli("rsmq", "purge", "orders", HELD, "nope", "--ns", foreign_queues.name, "--yes", "-o", "json")
    assert ended.code == 3
    assert {row["id"]: row["outcome"] for row in json.loads(ended.out)} == {
        HELD: "in flight",
        "nope": "not found",
    }
    assert cli("rsmq", "purge", "orders", "--ns", foreign_queues.name, "--yes").code == 2, "not everything by accident"


def test_an_undo_killed_midway_brings_nothing_back_twice(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    assert cli("rsmq", "purge", "orders", READY, "--ns", foreign_queues.name, "--yes").code == 0
    [op] = cli.operations()
    [message] = [rsmq.Message(READY, b"x", score="5")]
    item = rsmq.message_item(foreign_queues.orders, "purged", message)
    flow: Any = REVERT_BY_KIND["rsmq"]
    assert foreign_queues.run(flow(None, None, op, [item])) == ["restored"]
    foreign_queues.run(rsmq.delete(foreign_queues.orders, READY))
    assert foreign_queues.run(flow(None, None, op, [item])) == ["already"]
    assert READY not in ids(foreign_queues)


def test_export_and_import_are_each_others_inverse(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    foreign_queues.run(rsmq.send_many(foreign_queues.orders, [rsmq.Draft(b"\xff\x00", id="gqll7vywlc" + "e" * 22)]))
    covered = cli("rsmq", "export", "orders", "--ns", foreign_queues.name)
    assert "hush" not in covered.out
    whole = cli("rsmq", "export", "orders", "--ns", foreign_queues.name, "--show-secrets")
    file = cli.home / "rows.jsonl"
    file.write_text(whole.out + '{"body": "new"}\nno json\n')
    line = ("rsmq", "import", "other", file, "--ns", foreign_queues.name, "-o", "json", "--yes")
    rows = json.loads(cli(*line).out)
    assert [row["outcome"] for row in rows] == ["imported"] * 6 + ["unreadable"]
    for message in foreign_queues.run(rsmq.peek(foreign_queues.orders, 100)):
        assert foreign_queues.run(rsmq.read_message(foreign_queues.other, message.id)) == message
    again = cli(*line)
    assert again.code == 3
    outcomes = [row["outcome"] for row in json.loads(again.out)]
    assert outcomes == ["there already"] * 5 + ["imported", "unreadable"]
    op = cli.operations()[0]
    assert cli("undo", op, "--yes").code == 0


def test_an_import_is_journaled_before_new_messages_are_sent(
    cli: InProcessCli, foreign_queues: ForeignQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_queues.run(rsmq.create_queue(foreign_queues.orders, delay_s=60))
    file = cli.home / "rows.jsonl"
    file.write_text('{"body": "first"}\n{"body": "second", "delay_ms": 0}\n')
    words = ("rsmq", "import", "orders", file, "--ns", foreign_queues.name, "--yes", "-o", "json")

    def fail(_: JournalWriter, items: Sequence[Any]) -> int:
        assert len(items) == 2
        raise ChasquiError("the journal cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(JournalWriter, "write_items", fail)
        assert cli(*words).code != 0
    assert ids(foreign_queues) == []

    rows = json.loads(cli(*words).out)
    sent = {message.id: message for message in foreign_queues.run(rsmq.peek(foreign_queues.orders, 100))}
    assert [(sent[row["id"]].body, row["outcome"]) for row in rows] == [(b"first", "imported"), (b"second", "imported")]
    first, second = (sent[row["id"]].visible_at_ms for row in rows)
    assert first - second == 60_000
    assert cli("undo", cli.operations()[0], "--yes").code == 0
    assert ids(foreign_queues) == []


def test_damage_is_shown_reported_and_repaired(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    seed_rsmq(foreign_queues)
    command, orders = foreign_queues.command, foreign_queues.orders
    command("HSET", orders.hash, "gone:rc", 3, "gone:fr", 4, "vt", "30.5", f"{TRIED}:rc", "often")
    command("HDEL", orders.hash, READY)
    command("ZADD", orders.messages, 1700000000000000, "micro" + "m" * 27)
    command("HSET", orders.hash, "micro" + "m" * 27, "x")
    command("SADD", orders.queues, "phantom")
    command("ZADD", f"{foreign_queues.name}:ghost", 1, "x" * 32)
    command("HSET", f"{foreign_queues.name}:ghost:Q", "x" * 32, "body")
    for how in ("table", "json", "jsonl"):
        assert cli("rsmq", "peek", "orders", "--ns", foreign_queues.name, "-o", how).code == 0
    names = ("orders", "phantom", "ghost")
    line = ("rsmq", "doctor", *names, "--ns", foreign_queues.name, "-o", "json")
    found = json.loads(cli(*line).out)
    assert_matches_schema(found, [DOCTOR_SCHEMA])
    assert {row["ailment"] for row in found} == {
        "stray-field", "fraction", "bad-count", "no-body", "microseconds", "phantom", "ghost"
    }  # fmt: skip
    repaired = json.loads(cli(*line, "--repair", "--yes").out)
    assert {row["outcome"] for row in repaired} == {"repaired"}
    assert json.loads(cli(*line).out) == []
    assert {"orders", "ghost"} <= set(foreign_queues.run(rsmq.list_queues(foreign_queues.name)))


def test_hostile_texts_are_harmless(cli: InProcessCli, foreign_queues: ForeignQueues) -> None:
    foreign_queues.run(rsmq.create_queue(foreign_queues.orders))
    texts = [text.encode("utf-8", "surrogatepass") for text in HOSTILE_TEXTS.values()]
    foreign_queues.run(rsmq.send_many(foreign_queues.orders, [rsmq.Draft(text) for text in texts]))
    for number, text in enumerate(texts):
        foreign_queues.command("ZADD", foreign_queues.orders.messages, number, b"id" + text)
        foreign_queues.command("HSET", foreign_queues.orders.hash, b"id" + text, text, b"id" + text + b":rc", text)
    for words in (("peek",), ("doctor",), ("purge", "--all", "--dry-run"), ("export",)):
        for how in ("table", "wide", "json", "jsonl", "csv", "yaml") if words[0] != "export" else ("jsonl",):
            limit = ("--limit", "100") if words[0] == "peek" else ()
            ended = cli("rsmq", words[0], "orders", *words[1:], *limit, "--ns", foreign_queues.name, "-o", how)
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
    cli: InProcessCli, foreign_queues: ForeignQueues, words: tuple[str, ...]
) -> None:
    seed_rsmq(foreign_queues)
    keys = (foreign_queues.orders.messages, foreign_queues.orders.hash, foreign_queues.orders.queues)
    before = [foreign_queues.command("DUMP", key) for key in keys]
    ended = cli("rsmq", *words, "--ns", foreign_queues.name, "--read-only")
    assert ended.code == 5, ended
    assert [foreign_queues.command("DUMP", key) for key in keys] == before
    assert not cli.operations()
