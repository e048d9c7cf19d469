"""`inspect` and `queues`, on every kind of server."""

from __future__ import annotations

import pytest

from chasqui_cli.commands import queues
from chasqui_cli.output.records import SNAPSHOT_SCHEMA
from tests.support.cli.seeded_queue import FIXED_SNAPSHOT_FIELDS, SeededQueue
from tests.support.faults.proxy import proxy_to
from tests.support.seeds.every_state import QueueSeeder


def cells(table: str, queue: str) -> dict[str, str]:
    """The row of a queue in a table, by column."""
    head, *rows = [[cell for cell in line.split("  ") if cell] for line in table.splitlines()]
    [row] = [row for row in rows if row[0].strip() == queue]
    return dict(zip((title.strip() for title in head), (cell.strip() for cell in row), strict=False))


def test_inspect(seeded: SeededQueue) -> None:
    [record], table = seeded.all_formats("inspect", seeded.queue, shape=SNAPSHOT_SCHEMA)
    assert set(FIXED_SNAPSHOT_FIELDS) <= record.keys()
    fixed = {name: record[name] for name in FIXED_SNAPSHOT_FIELDS if not name.endswith("_ms")}
    lock = {"holder": "worker-1", "ttl_ms": record["promoter_lock"]["ttl_ms"]}
    assert fixed == {
        "queue": seeded.queue, "kind": "chasquimq", "stream_depth": 3, "waiting": 2, "pending": 1, "consumers": 1,
        "dlq_depth": 1, "delayed_depth": 2, "delayed_due": 0, "repeatable_count": 1, "repeatable_overdue": 0,
        "events_depth": 5, "promoter_lock": lock, "scheduler_lock": lock | {"ttl_ms": record["scheduler_lock"]["ttl_ms"]},
    }  # fmt: skip
    row = cells(table, seeded.queue)
    assert (row["WAITING"], row["PENDING"], row["DLQ"], row["CRON"]) == ("2", "1", "1", "1")


def test_a_queue_without_a_group_has_none_and_nothing_pending(seeded: SeededQueue) -> None:
    seeded.seed.command("XGROUP", "DESTROY", seeded.seed.keys.stream, "default")
    [record] = seeded("inspect", seeded.queue, "-o", "json").json
    assert (record["pending"], record["groups"], record["waiting"]) == (0, [], 3)


def test_inspect_of_an_unused_name_warns_and_shows_nothing(seeded: SeededQueue) -> None:
    ended = seeded("inspect", f"{seeded.queue}-not", "-o", "json")
    assert (ended.code, ended.json[0]["stream_depth"], ended.json[0]["promoter_lock"]) == (0, 0, None)
    assert "warning: there is nothing of a queue named" in ended.err


@pytest.mark.parametrize("many", [1, 100])
def test_inspect_is_one_round_trip_on_a_server_that_knows_no_script(seeded: SeededQueue, many: int) -> None:
    big = "x" * 500_000
    seeded.seed.add(data=big)
    seeded.seed.delay(1000, data=big)
    seeded.seed.command("SCRIPT", "FLUSH")
    names = [seeded.queue, *(f"{seeded.queue}-{number}" for number in range(many - 1))]
    with proxy_to(seeded.server.socket) as proxy:
        ended = seeded("inspect", *names, "-q", "-o", "jsonl", url=proxy.url)
        assert (ended.code, len(ended.lines)) == (0, many)
        assert (proxy.turns, proxy.connections) == (1, 1)
        assert proxy.replied < 2000 * many


def test_queues_are_listed_worst_first(seeded: SeededQueue) -> None:
    bad, fine = f"{seeded.queue}-bad", f"{seeded.queue}-fine"
    QueueSeeder(seeded.seed.link, bad).add()
    other = QueueSeeder(seeded.seed.link, fine)
    other.group()
    other.add()
    records, table = seeded.all_formats("queues", shape=queues.QUEUE_SCHEMA)
    mine = [(one["queue"], one["state"], one["glyph"]) for one in records if str(one["queue"]).startswith(seeded.queue)]
    assert sorted(mine[:2]) == [(bad, "critical", "▲"), (fine, "critical", "▲")], "of one age, to a millisecond"
    assert mine[2:] == [(seeded.queue, "warning", "◆")]
    row = cells(table, seeded.queue)
    assert row["STATE"] == "◆ warning"
    assert (row["KIND"], row["WAITING"], row["FLIGHT"], row["DLQ"], row["DELAYED"]) == (
        "chasquimq",
        "2",
        "1",
        "1",
        "2",
    )
    assert (row["DUE"], row["CRON!"], row["WORKERS"]) == ("0", "0", "1")
    assert {"QUEUE", "AGE"} <= row.keys()
    assert set(seeded("queues", "-o", "name").out.splitlines()) >= {bad, fine, seeded.queue}


def test_a_queue_named_like_another_systems_is_shown_as_it_can_be_typed(seeded: SeededQueue) -> None:
    name = f"rsmq:{seeded.queue}"
    seeded("add", name, "{}")
    seen = [record["queue"] for record in seeded("queues", "-o", "json").json]
    assert f"chasqui:{name}" in seen
    assert name not in seen
    [record] = seeded("inspect", f"chasqui:{name}", "-o", "json").json
    assert (record["queue"], record["waiting"]) == (f"chasqui:{name}", 1)
