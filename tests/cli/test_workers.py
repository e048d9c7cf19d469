"""`workers`, on every kind of server."""

from __future__ import annotations

from chasqui import SyncQueue
from chasqui_cli.commands.workers._consumers import CONSUMER_SCHEMA
from chasqui_cli.commands.workers.claim import CLAIM_SCHEMA
from chasqui_cli.commands.workers.prune import PRUNE_SCHEMA
from tests.support.cli.in_process import InProcessCli, has_keys
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.queue_contents import QueueContents


def add_consumers(contents: QueueContents) -> None:
    """A consumer with two jobs, one of them delivered twice, and one that only has a name."""
    SyncQueue(contents.queue, link=contents.link).add_bulk([{"name": "n", "data": nth} for nth in range(3)])
    contents.command("XGROUP", "CREATE", contents.keys.stream, "default", "0")
    contents.command("XREADGROUP", "GROUP", "default", "c-1", "COUNT", 2, "STREAMS", contents.keys.stream, ">")
    [(first, *_), _] = contents.command("XPENDING", contents.keys.stream, "default", "-", "+", 2)
    contents.command("XCLAIM", contents.keys.stream, "default", "c-1", 0, first, "RETRYCOUNT", 2, "JUSTID")
    contents.command("XGROUP", "CREATECONSUMER", contents.keys.stream, "default", "c-2")
    now = contents.now_ms()
    while contents.now_ms() <= now + 5:
        pass


def test_consumers_are_listed_with_their_state(contents: QueueContents, cli: InProcessCli) -> None:
    add_consumers(contents)
    records = cli("workers", "list", contents.queue, "-o", "json").json
    assert all(has_keys(record, CONSUMER_SCHEMA) for record in records)
    by_name = {record["consumer"]: record for record in records}
    assert (by_name["c-1"]["verdict"], by_name["c-1"]["in_flight"]) == ("working", 2)
    assert (by_name["c-1"]["delivered_again"], by_name["c-2"]["verdict"]) == (1, "waiting")
    assert cli("workers", "list", contents.queue, "-o", "jsonl").lines[0]["consumer"] in by_name
    if contents.link.features().version.startswith("7.0"):
        assert by_name["c-1"]["inactive_ms"] is None
        assert "n/a" in cli("workers", "list", contents.queue).out
    gone = cli("workers", "list", contents.queue, "--gone-after", "1ms")
    assert gone.out.count("gone") == 2
    assert "nobody works" in gone.err
    assert "no consumers" in cli("workers", "list", f"{contents.queue}-none").err


def test_the_dead_are_removed_and_what_they_held_is_freed(contents: QueueContents, cli: InProcessCli) -> None:
    add_consumers(contents)
    assert "nothing to do" in cli("workers", "prune", contents.queue, "-y").err, "nobody is gone"
    assert "nothing to do" in cli("workers", "claim", contents.queue, "-y").err
    dry = cli("workers", "prune", contents.queue, "--gone-after", "1ms", "--dry-run", "-o", "json").json
    assert [(one["consumer"], one["outcome"]) for one in dry] == [("c-2", "would remove")]
    pruned = cli("workers", "prune", contents.queue, "--gone-after", "1ms", "-y", "-o", "json").json
    assert all(has_keys(record, PRUNE_SCHEMA) for record in pruned)
    assert [(one["consumer"], one["outcome"]) for one in pruned] == [("c-2", "removed")]
    freed = cli("workers", "claim", contents.queue, "c-1", "-y", "-o", "json")
    assert "cannot be undone" in freed.err
    assert all(has_keys(record, CLAIM_SCHEMA) for record in freed.json)
    assert [(one["outcome"], one["deliveries"]) for one in freed.json] == [("freed", 2), ("freed", 1)]
    rows = contents.command("XPENDING", contents.keys.stream, "default", "-", "+", 10)
    assert [(row[1], row[3]) for row in rows] == [(b"released", 2), (b"released", 1)]
    assert cli("workers", "prune", contents.queue, "c-1", "-y").code == 0
    assert_error(cli("workers", "claim", contents.queue, "nobody", "-y"), 4, "nobody")
    assert_error(cli("workers", "prune", contents.queue, "--gone-after", "x"), 2, "duration")
    assert cli("workers", "claim", contents.queue, "released", "-y", "--read-only").code == 5


def test_ghosts_are_removed_with_consumers_that_hold_nothing_else(contents: QueueContents, cli: InProcessCli) -> None:
    add_consumers(contents)
    rows = contents.command("XPENDING", contents.keys.stream, "default", "-", "+", 10)
    held = [row[0].decode() for row in rows]
    prune = ("workers", "prune", contents.queue, "--gone-after", "1ms", "-o", "json")
    contents.command("XDEL", contents.keys.stream, held[0])
    assert "workers prune" in cli("doctor", contents.queue).out
    dry = cli(*prune, "--dry-run")
    assert "prune 2 consumers and ghosts" in dry.err
    assert "ghosts 1: jobs in flight whose entry was deleted" in dry.err
    assert all(has_keys(record, PRUNE_SCHEMA) for record in dry.json)
    assert [(one["entry_id"], one["consumer"], one["outcome"]) for one in dry.json] == [
        (held[0], "c-1", "would remove"),
        (None, "c-2", "would remove"),
    ], "c-1 holds a job that is there"
    assert len(contents.command("XPENDING", contents.keys.stream, "default", "-", "+", 10)) == 2
    named = cli(*prune, "c-2", "--dry-run", "-o", "name")
    assert named.out.split() == ["c-2"], "ghosts of others are left to others"
    assert cli(*prune, "-y").code == 0
    assert [
        row[0].decode() for row in contents.command("XPENDING", contents.keys.stream, "default", "-", "+", 10)
    ] == held[1:]
    contents.command("XDEL", contents.keys.stream, held[1])
    last = cli(*prune, "-y")
    assert [(one["verdict"], one["outcome"]) for one in last.json] == [
        ("ghost", "removed"),
        ("gone", "removed"),
    ]
    assert contents.command("XPENDING", contents.keys.stream, "default")[0] == 0
    assert "nothing to do: no consumers or ghosts" in cli(*prune, "-y").err
    assert contents.command("XLEN", contents.keys.stream) == 1, "the job that waits is not touched"
    cli.url = ""
    assert cli("log", "-o", "json").json[0]["result"] | {"consumers": []} == {
        "ghosts": 1, "vanished": 0, "removed": 1, "kept": 0, "consumers": [], "ended": "done",
    }  # fmt: skip
