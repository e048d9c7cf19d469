"""`chasqui log OP`: what an operation kept is readable, and no secret in it is, in no format, unless asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui.foreign import rsmq
from chasqui.sync_queue import SyncQueue
from chasqui_cli.commands.undo import revert_by_kind
from tests.support.cli.in_process import InProcessCli
from tests.support.seeds.foreign_queues import ForeignQueues, seed_rsmq

if TYPE_CHECKING:
    from tests.support.seeds.dead_letters import DeadLetterSeeder

SECRET = "hunter2-of-eve"
DATA = {"user": "eve", "password": SECRET}
FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv")
HOW = {
    "dead": ("dlq", "purge", "{queue}", "letter", "-y"),
    "replayed": ("dlq", "replay", "{queue}", "letter", "-y"),
    "imported": ("dlq", "import", "{queue}-copy", "{file}", "-y"),
    "delayed": ("delayed", "cancel", "{queue}", "later", "-y"),
    "spec": ("repeatable", "remove", "{queue}", "tick", "-y"),
    "added": ("add", "{queue}", '{{"user": "eve", "password": "hunter2-of-eve"}}', "--delay", "1h"),
    "rsmq": ("rsmq", "purge", "orders", "--all", "-y", "--ns", "{queue}"),
    "joblist": ("joblist", "cancel", "{queue}", "mine", "-y"),
}
MORE = {
    "edited": ("dlq", "edit", "{queue}", "letter", "--set", "password=hunter2-of-eve-2", "-y"),
    "replaced": ("repeatable", "upsert", "{queue}", "tick", "--key", "tick", "--every", "5s", "--data", '{{"pin": "hunter2-of-eve"}}', "-y"),
    "unreadable": ("dlq", "purge", "{queue}", "--reason", "decode_failed", "-y"),
    "dropped": ("rsmq", "queue", "delete", "--name", "orders", "--ns", "{queue}"),
}  # fmt: skip


def test_every_kind_that_can_be_undone_is_shown_here() -> None:
    assert HOW.keys() == revert_by_kind().keys()


@pytest.mark.parametrize("change", [*HOW, *MORE])
@pytest.mark.parametrize("server", ["redis-8.6"], indirect=True)
def test_items_are_opened_and_their_secrets_covered(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder, change: str
) -> None:
    seed(cli, dead_letter_seeder)
    file = cli.home / "letters.jsonl"
    file.write_text(cli("dlq", "export", dead_letter_seeder.queue, "letter", "--show-secrets").out)
    words = [word.format(queue=dead_letter_seeder.queue, file=file) for word in (HOW | MORE)[change]]
    done = cli(*words)
    assert done.code == 0, done
    op = cli.operations()[0]
    for how in FORMATS:
        result = cli("log", op, "-o", how)
        assert result.code == 0, result
        assert_covered(result.out + result.err)
        assert_covered(cli("log", "-o", how).out)
    items = cli("log", op, "-o", "json").json["items"]
    assert items
    shown = str(cli("log", op, "-o", "json", "--show-secrets").json)
    if change != "imported":
        assert SECRET in shown or SECRET.encode().hex() in shown, shown
    undone = cli("undo", op, "--dry-run", "-o", "json")
    assert_covered(undone.out + undone.err)
    assert all(one["what"] for one in undone.json)


@pytest.mark.parametrize("server", ["redis-8.6"], indirect=True)
def test_a_dead_letter_is_shown_as_a_dead_letter(cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder) -> None:
    seed(cli, dead_letter_seeder)
    cli("dlq", "replay", dead_letter_seeder.queue, "letter", "-y")
    op = cli.operations()[0]
    [item] = cli("log", op, "-o", "json").json["items"]
    assert (item["kind"], item["name"], item["reason"]) == ("replayed", "mail", "retries_exhausted")
    assert item["job"]["data"] == {"user": "eve", "password": "«redacted»"}
    assert (item["job"]["attempt"], item["becomes"]["attempt"]) == (24, 0)
    assert item["entry_id"]
    table = cli("log", op, "--limit", "0")
    assert "1 more items are not shown" in table.err


@pytest.mark.parametrize("server", ["redis-8.6"], indirect=True)
def test_what_another_version_recorded_is_covered_as_a_whole(
    cli: InProcessCli, dead_letter_seeder: DeadLetterSeeder
) -> None:
    seed(cli, dead_letter_seeder)
    cli("dlq", "purge", dead_letter_seeder.queue, "letter", "-y")
    op = cli.operations()[0]
    file = cli.home / f".local/state/chasqui/journal/{op}.jsonl"
    file.write_text(file.read_text().replace('"kind": "dead"', '"kind": "of tomorrow"'))
    [item] = cli("log", op, "-o", "json").json["items"]
    assert (item["kind"], item["fields"]) == ("of tomorrow", "«redacted»")
    file.write_text(file.read_text().replace('"kind": "of tomorrow"', '"kind": "spec"'))
    assert_covered(cli("log", op, "-o", "json").out)


def assert_covered(text: str) -> None:
    assert SECRET not in text
    assert SECRET.encode().hex() not in text


def seed(inside: InProcessCli, yard: DeadLetterSeeder) -> None:
    """The secret in every place that can be changed."""
    yard.add_dead_letter("letter", DATA)
    yard.add_dead_letter("", d=b"\xc1 not a job, " + SECRET.encode(), reason="decode_failed")
    with SyncQueue(yard.queue, redis_url=inside.url) as queue:
        queue.add("job", DATA, job_id="later", delay_ms=3_600_000)
    scene = ForeignQueues(yard.link, yard.queue)
    seed_rsmq(scene)
    scene.run(rsmq.send_many(scene.orders, [rsmq.Draft(f'{{"password": "{SECRET}"}}')]))
    carried = ("--data", f'{{"password": "{SECRET}"}}')
    inside("repeatable", "upsert", yard.queue, "tick", "--key", "tick", "--every", "60s", *carried, "-y")
    inside("joblist", "enqueue", yard.queue, f'{{"token": "{SECRET}"}}', "--id", "mine")
