"""`doctor`, on every kind of server."""

from __future__ import annotations

import uuid

from chasqui_cli.commands import doctor, queues
from chasqui_cli.output.records import FINDING_SCHEMA
from tests.support.cli.in_process import assert_matches_schema
from tests.support.cli.seeded_queue import SeededQueue
from tests.support.cli.subprocess_cli import assert_error
from tests.support.seeds.every_state import QueueSeeder


def test_doctor_prints_what_fixes_it(seeded: SeededQueue) -> None:
    seeded.seed.take_leader_locks(ttl_ms=None)
    records, table = seeded.all_formats("doctor", seeded.queue, shape=FINDING_SCHEMA)
    mine = {(one["code"], one["level"], one["mend"]) for one in records if one["queue"]}
    assert mine == {
        ("endless-lock", "critical", f"chasqui promote {seeded.queue} --force-unlock"),
        ("endless-lock", "critical", f"chasqui schedule {seeded.queue} --force-unlock"),
        ("dead-letters", "warning", f"chasqui dlq groups {seeded.queue}"),
    }
    assert table.splitlines()[1].split()[:3] == ["endless-lock", "▲", "critical"]
    assert doctor.COLUMNS[0].title == "code"
    codes = {one["code"] for one in records if not one["queue"]}
    assert ("stand-ins" in codes) == (seeded.server.kind != "redis-8.6")
    assert_error(seeded("doctor", f"{seeded.queue}-not", "-q"), 4, "there is nothing of a queue named")


def test_doctor_without_a_name_examines_all(seeded: SeededQueue) -> None:
    QueueSeeder(seeded.seed.link, f"{seeded.queue}-bad").add()
    found = {(str(one["queue"]), one["code"]) for one in seeded("doctor", "-o", "json").json}
    assert {(seeded.queue, "dead-letters"), (f"{seeded.queue}-bad", "no-group")} <= found


def test_what_may_not_be_looked_at_is_a_finding(seeded: SeededQueue) -> None:
    user = f"viewer-{uuid.uuid4().hex[:8]}"
    rights = ("on", ">secret", "~*", "+@all", "-evalsha", "-evalsha_ro", "-eval", "-eval_ro")
    seeded.seed.command("ACL", "SETUSER", user, *rights)
    url = f"unix://{user}:secret@{seeded.server.socket}"
    ended = seeded("doctor", seeded.queue, "-q", "-o", "json", url=url)
    findings = [(one["code"], one["level"]) for one in ended.json if one["queue"] == seeded.queue]
    assert findings == [("refused", "critical")]
    [row] = [one for one in seeded("queues", "-q", "-o", "json", url=url).json if one["queue"] == seeded.queue]
    assert (row["state"], row["glyph"], row["waiting"]) == ("unseen", "?", None)
    assert_matches_schema(row, queues.QUEUE_SCHEMA)
    assert "secret" not in ended.out + ended.err
